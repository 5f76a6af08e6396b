"""`lobsdice play`: watch a policy."""

from dataclasses import dataclass
from pathlib import Path

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import RunNumber, Which, environment_of, policy_of, refuse_existing


@dataclass(frozen=True)
class Play:
    """Watch a policy act in an environment, in a window or as a video, and print its returns.

    Example:
        lobsdice play runs/hopper
        lobsdice play runs/mine --env Hopper-v5 --episodes 3 --video mine.gif
    """

    path: Positional[Path]
    """The folder of a run, or the file of a policy."""
    env: str | None = None
    """A Gymnasium id or a built-in task (default: what the run was evaluated in)."""
    episodes: int = 1
    """Episodes to show."""
    seed: int = 0
    """Episodes are those that `lobsdice evaluate` measures with the same seed."""
    video: Path | None = None
    """A .gif or .mp4 to write, instead of opening a window."""
    stochastic: bool = False
    """Draw actions at random as the policy says, instead of taking the likeliest."""
    which: Which = "last"
    """The policy after the last step, with the best return, or with the least offline error."""
    number: RunNumber = None
    """Which of a folder's runs."""
    force: bool = False
    """Replace a video that exists."""
    json: bool = False
    """Print JSON instead of lines."""

    def run(self) -> None:
        from lobsdice.environments.play import play

        if self.video is not None:
            refuse_existing([self.video], force=self.force)
        env = self.env or environment_of(self.path)
        policy = policy_of(self.path, self.which, self.number)
        with console.waiting("Playing" if self.video is None else "Recording"):
            found = play(
                policy,
                env,
                episodes=self.episodes,
                seed=self.seed,
                stochastic=self.stochastic,
                video=self.video,
            ).tolist()
        if self.json:
            return output.print_json({"returns": found, "video": self.video and str(self.video)})
        for i, value in enumerate(found):
            print(f"episode {i}: return {value:.1f}")
        if self.video is not None:
            print(f"wrote {self.video}")

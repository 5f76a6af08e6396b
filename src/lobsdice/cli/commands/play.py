"""`lobsdice play`."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tyro.conf import Positional

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import RunNumber, Which, environment_of, policy_of, refuse_existing
from lobsdice.errors import LobsDICEError, plural
from lobsdice.policies.policy import Policy


@dataclass(frozen=True)
class Play:
    """Watch a policy act in an environment, in a window or as a video, and print its returns.

    With --model it acts in the world that `lobsdice rehearse` has learned from the logs.

    Example:
        lobsdice play runs/hopper
        lobsdice play runs/mine --env Hopper-v5 --episodes 3 --video mine.gif
    """

    path: Positional[Path]
    """Run folder, or policy file."""
    env: str | None = None
    """Gymnasium id or built-in task. Without it, the environment of the evaluations during
    training."""
    model: bool = False
    """Act in the world that was learned from the logs. The environment only draws its states."""
    episodes: int = 1
    """Number of episodes to show."""
    seed: int = 0
    """Random seed. `lobsdice evaluate` measures the same episodes with the same seed."""
    video: Path | None = None
    """GIF or MP4 file to write instead of opening a window."""
    stochastic: bool = False
    """Sample actions from the policy instead of taking the likeliest."""
    which: Which = "last"
    """Policy of the last step, of the best return, or the one that was selected offline."""
    number: RunNumber = None
    """Number of a run in the folder. Without it, the first."""
    force: bool = False
    """Replace the video if it exists."""
    json: bool = False
    """Print JSON instead of lines."""

    def __call__(self) -> None:
        from lobsdice.environments.play import play

        if self.video is not None:
            refuse_existing([self.video], force=self.force)
        policy = policy_of(self.path, self.which, self.number)
        if self.model:
            return self.rehearse(policy)
        env = self.env or environment_of(self.path)
        with console.waiting("Playing" if self.video is None else "Recording"):
            found = play(policy, env, **self.options()).tolist()
        self.tell({"returns": found}, [f"return {value:.1f}" for value in found])

    def rehearse(self, policy: Policy) -> None:
        """Play in the learned world that the run folder keeps."""
        from lobsdice.environments.learned import WORLD, load_world
        from lobsdice.environments.play import play_learned

        path = self.path / WORLD
        if not path.exists():
            raise LobsDICEError(
                f"{self.path} keeps no learned world; `lobsdice rehearse {self.path}` learns one"
            )
        world, env = load_world(path), self.env
        if env is None and self.video is not None:
            with suppress(LobsDICEError):
                env = environment_of(self.path)
        options = {"horizon": int(world.about["horizon"]), "environment": env} | self.options()
        with console.waiting("Playing"):
            found = play_learned(policy, world, **options)
        episodes = [{"steps": steps, "why": why} for steps, why in found]
        lines = [f"{plural(steps, 'step')}, then {why}" for steps, why in found]
        self.tell({"episodes": episodes}, lines)

    def options(self) -> dict[str, Any]:
        """The options that hold for every world."""
        names = ("episodes", "seed", "stochastic", "video")
        return {name: getattr(self, name) for name in names}

    def tell(self, report: dict[str, Any], lines: Sequence[str]) -> None:
        """Print the report as JSON, or its line on each episode."""
        if self.json:
            return output.print_json(report | {"video": self.video and str(self.video)})
        for i, line in enumerate(lines):
            console.show(f"episode {i}: {line}")
        if self.video is not None:
            console.show(f"wrote {self.video}")

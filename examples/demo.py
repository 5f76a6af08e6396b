"""The program of `make demo`: a policy that hops like the expert, learned without its actions.

It records the built-in Hopper data and takes five demonstrations of the expert without their
actions. It trains LobsDICE and, for comparison, behaviour cloning, and draws both learning curves.
"""

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tyro

import lobsdice as ld
from lobsdice.cli import main
from lobsdice.experiments.plots.common import save
from lobsdice.experiments.plots.learning import learning_curves


@dataclass(frozen=True)
class Demo:
    out: tyro.conf.Positional[Path] = Path("demo")
    """The folder to write to."""
    expert: int = 105
    """Recorded episodes of the expert. Five of them become the demonstrations."""
    others: int = 500
    """Recorded episodes of the medium policy, and as many of the random policy."""
    steps: int = 12_000
    """Gradient steps of each algorithm."""
    episodes: int = 5
    """Episodes of each evaluation."""

    def run(self) -> None:
        self.record()
        for name in ("lobsdice", "bc"):
            self.train(name)
        self.report()

    def record(self) -> None:
        """Write demonstrations without actions, and recordings of mixed quality with actions."""
        counts = f"--expert {self.expert} --medium {self.others} --random {self.others}"
        command(f"data collect hopper {counts} --out {self.out}")
        demos, rest = self.out / "demos.npz", self.out / "rest.npz"
        command(
            f"data split {self.out}/expert.npz --first 5 --drop-actions --out {demos} "
            f"--rest {rest} --force"
        )
        parts = f"{rest} {self.out}/medium.npz {self.out}/random.npz"
        command(f"data join {parts} --out {self.out}/offline.npz --force")
        command(f"data check --expert {demos} --offline {self.out}/offline.npz")

    def train(self, name: str) -> None:
        """Train on the two files, or continue the training of an earlier demo."""
        folder = self.out / name
        if (folder / "config.json").exists():
            return command(f"resume {folder}")
        files = f"--expert {self.out}/demos.npz --offline {self.out}/offline.npz"
        length = f"--steps {self.steps} --every {self.steps // 6} --episodes {self.episodes}"
        command(f"train {name} {files} --env hopper {length} --out {folder}")

    def report(self) -> None:
        """Draw the learning curves beside the returns of the recordings, and print the results."""
        levels = {
            "the expert": mean_return(self.out / "expert.npz"),
            "the offline data": mean_return(self.out / "offline.npz"),
        }
        curves = {label: self.out / n / "metrics.csv" for label, n in
                  (("LobsDICE", "lobsdice"), ("behaviour cloning", "bc"))}  # fmt: skip
        figure = learning_curves({"Hopper": curves}, column="return", levels=levels)
        picture, _ = save(figure, self.out / "learning_curves")
        reached, cloned = (last_return(self.out / name) for name in ("lobsdice", "bc"))
        share = reached / levels["the expert"]
        print(f"\nLobsDICE reached {reached:.0f}, which is {share:.0%} of the expert's return.")
        print(f"Behaviour cloning of the same recordings reached {cloned:.0f}.")
        print(f"learning curves: {picture}")
        print(f"policy: {self.out / 'lobsdice' / 'policies' / 'last-0.safetensors'}")


def command(words: str) -> None:
    """Run a command as a user would, and stop if it fails."""
    print(f"\n$ lobsdice {words}", flush=True)
    if code := main(shlex.split(words)):
        sys.exit(code)


def mean_return(path: Path) -> float:
    returns = ld.read(path).returns()
    assert returns is not None
    return float(np.mean(returns))


def last_return(folder: Path) -> float:
    lines = (folder / "metrics.csv").read_text().splitlines()
    return float(dict(zip(lines[0].split(","), lines[-1].split(","), strict=True))["return"])


if __name__ == "__main__":
    tyro.cli(Demo).run()

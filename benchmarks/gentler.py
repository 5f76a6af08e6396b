"""Make a policy gentler: multiply its actions before the tanh, and see how it fares.

    python benchmarks/gentler.py ant expert.npz --gains 0.3 0.35 0.4 1 --episodes 150
    python benchmarks/gentler.py ant expert.npz --gains 0.35 --out gentle.npz

A policy that runs as fast as it can may fall now and then. With a gain below 1 it takes the same
steps with less force. For each gain it prints the returns and how many episodes terminated. With
--out it writes the policy with the only gain that is given. Its noise stays as it was.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import tyro
from many_robots import ROBOTS
from train_policies import Net, Settings, judge, named, read_net

from lobsdice.data.files import atomic


@dataclass(frozen=True)
class Gentler:
    task: Annotated[str, tyro.conf.Positional]
    """hopper, walker2d, halfcheetah or ant."""
    policy: Annotated[Path, tyro.conf.Positional]
    """File of the policy."""
    gains: tuple[float, ...] = (0.3, 0.5, 0.7, 1.0)
    """Factors of the actions before the tanh."""
    noise: float = 0.0
    """Share of the policy's noise in the episodes."""
    episodes: int = 64
    """Episodes for each gain."""
    threads: int = 2
    """Threads of the physics."""
    out: Path | None = None
    """File to write."""


def with_gain(net: Net, gain: float) -> Net:
    """The policy whose mean before the tanh is multiplied by the gain."""
    *hidden, (weights, bias) = net
    factors = np.repeat(np.array([gain, 1.0], np.float32), len(bias) // 2)  # [mean, log_std]
    return [*hidden, (weights * factors, bias * factors)]


def main(wanted: Gentler) -> None:
    if wanted.task not in ROBOTS:
        raise SystemExit(f"there is no task {wanted.task!r}, only {', '.join(ROBOTS)}")
    if wanted.out and len(wanted.gains) != 1:
        raise SystemExit("--out writes one policy, so give one gain")
    actors = [with_gain(read_net(str(wanted.policy)), gain) for gain in wanted.gains]
    settings = Settings(wanted.task, Path(), threads=wanted.threads)
    noises = [wanted.noise] * len(actors)
    rows = judge(settings, actors, noises, wanted.episodes)
    for gain, row in zip(wanted.gains, rows, strict=True):
        print({"gain": gain, **row}, flush=True)
    if wanted.out:
        with atomic(wanted.out) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, **named(actors[0]))


if __name__ == "__main__":
    main(tyro.cli(Gentler))

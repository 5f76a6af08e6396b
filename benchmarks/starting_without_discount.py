"""Returns of a policy trained without discount, from the start and from the middle of an episode.

python benchmarks/starting_without_discount.py [--gamma 1] [--steps 40000]

It trains LobsDICE on halfcheetah. Then it prints the returns of episodes that begin in the
environment's initial states, and of episodes that begin in the middle of a demonstration.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import tyro
from gymnasium.envs.mujoco.half_cheetah_v5 import HalfCheetahEnv

from lobsdice import LobsDICE, load, train
from lobsdice.policies.policy import Policy

#: Positions in an observation. The first position, the distance run, is not observed.
POSITIONS = 8
LENGTH = 1000


@dataclass(frozen=True)
class Benchmark:
    gamma: float = 1.0
    steps: int = 40_000
    episodes: int = 8

    def run(self) -> None:
        task = load("halfcheetah", offline={"expert": 400, "medium": 500, "random": 500})
        policy = train(LobsDICE(gamma=self.gamma), task.data, steps=self.steps).policy
        world, middle = HalfCheetahEnv(), task.expert.observations[200:900]
        self.report("start", lambda seed: episode(world, policy, seed))
        self.report("middle", lambda seed: episode(world, policy, seed, middle[79 * seed % 700]))

    def report(self, where: str, run: Callable[[int], float]) -> None:
        found = [run(seed) for seed in range(self.episodes)]
        print(
            f"from the {where}: {np.mean(found):.0f} ({np.min(found):.0f} to {np.max(found):.0f})"
        )


def episode(
    world: HalfCheetahEnv, policy: Policy, seed: int, observation: np.ndarray | None = None
) -> float:
    """The return of an episode that begins in the state of `observation`, if there is one."""
    now, _ = world.reset(seed=seed)
    if observation is not None:
        now = observation.astype(float)
        world.set_state(np.concatenate([[0.0], now[:POSITIONS]]), now[POSITIONS:])
    total = 0.0
    for _ in range(LENGTH):
        now, reward, *_ = world.step(np.asarray(policy(now)))
        total += float(reward)
    return total


if __name__ == "__main__":
    tyro.cli(Benchmark).run()

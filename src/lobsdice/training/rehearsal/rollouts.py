"""Episodes of policies in a learned world, all at once, in NumPy."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float32, Int64

from lobsdice.data.episodes import Episodes
from lobsdice.data.spaces import Discrete
from lobsdice.environments.learned import LearnedWorld, States
from lobsdice.policies.policy import Policy

#: Rehearsed episodes of a policy, and the share of them that starts where a demonstration does.
EPISODES, DEMONSTRATED = 100, 0.25
#: Steps of an episode at most.
LONGEST = 1000


class Rollouts(NamedTuple):
    """Rehearsed episodes of one policy. An episode that has stopped repeats its last state."""

    states: Float32[np.ndarray, "n steps+1 state"]
    """Normalised."""
    steps: Int64[np.ndarray, " n"]
    """The number of steps of each episode."""
    ended: Bool[np.ndarray, " n"]
    """True if the world ended it."""
    guessing: Bool[np.ndarray, " n"]
    """True if it was broken off because the members of the world disagree."""

    @property
    def horizon(self) -> int:
        """The number of steps after which every episode is broken off."""
        return self.states.shape[1] - 1


def first_states(
    world: LearnedWorld, expert: Episodes, episodes: int = EPISODES, seed: int = 0
) -> States:
    """First states of the demonstrations and of the logs, normalised; those of the former first."""
    random = np.random.default_rng(seed)
    shown = world.normaliser(expert.observations[expert.starts])
    logged = world.normaliser(world.starts)
    few = min(round(DEMONSTRATED * episodes), world.members * len(shown))
    of_logs = random.choice(len(logged), episodes - few, replace=len(logged) < episodes - few)
    return np.concatenate([shown[_in_turn(few, len(shown), world.members)], logged[of_logs]])


def _in_turn(n: int, things: int, members: int) -> Int64[np.ndarray, " n"]:
    """Numbers of things in turn, so that sooner or later each meets each member: i % members."""
    i = np.arange(n)
    # Without a shift after each common multiple, a thing would meet the same members again.
    return (i + i // np.lcm(things, members)) % things


def horizon_of(expert: Episodes) -> int:
    """The number of steps of a rehearsed episode.

    It is the length of the longest demonstration. It is twice that if most demonstrations end by
    themselves, because a slower policy may still arrive.
    """
    times = 2 if expert.terminated.mean() > 0.5 else 1
    return int(min(times * expert.lengths.max(), LONGEST))


def likeliest(policy: Policy, states: States) -> np.ndarray:
    """The likeliest actions: vectors in a box, and numbers of discrete actions, never names."""
    if isinstance(policy.action_space, Discrete):
        return policy.scores(states).argmax(axis=-1)
    return np.asarray(policy(states))


def roll_out(
    world: LearnedWorld,
    policies: Sequence[Policy],
    starts: States,
    horizon: int,
    *,
    seed: int = 0,
    advance: Callable[[int], None] = lambda n: None,
) -> list[Rollouts]:
    """Episodes of each policy from the same first states.

    Each episode has one member of the ensemble, the same for all policies. It stops where the
    world ends it, where the members disagree, or after `horizon` steps.
    """
    found = []
    for policy in policies:
        found.append(_episodes(world, policy, starts, horizon, np.random.default_rng(seed)))
        advance(1)
    return found


def _episodes(
    world: LearnedWorld,
    policy: Policy,
    starts: States,
    horizon: int,
    random: np.random.Generator,
) -> Rollouts:
    n = len(starts)
    member = np.arange(n) % world.members
    states = np.repeat(starts[:, None], horizon + 1, axis=1)
    steps = np.zeros(n, np.int64)
    ended, guessing = np.zeros(n, bool), np.zeros(n, bool)
    for t in range(horizon):
        live = np.flatnonzero(~(ended | guessing))
        if not len(live):
            break
        s = states[live, t]
        actions = likeliest(policy, world.raw(s))
        s_next, stop, disagreement = world.step(s, actions, member[live], random)
        lost = disagreement > world.limit
        guessing[live[lost]] = True
        live, s_next, stop = live[~lost], s_next[~lost], stop[~lost]
        states[live, t + 1 :] = s_next[:, None]
        steps[live] = t + 1
        ended[live[stop]] = True
    return Rollouts(states, steps, ended, guessing)

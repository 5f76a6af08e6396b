"""Estimates of a policy from the logs and the demonstrations alone, without a learned world.

    explained               how many of the actions inferred at demonstrated states it explains
    demonstration_error     its actions against those that the logs took in demonstrated pairs
    fitted_q                its value, if nearness to the demonstrations were the reward
    visitation              its state distribution, as weights of the logged rows (a DICE estimate)
    visitation_distance     the distance of that distribution from the demonstrations'
    disagreement            its actions against those of the other policies

The last but three solve linear equations in features of (s, a). With one feature for each state
and action they are exact for the counted MDP.

A rehearsal uses the first alone. benchmarks/selection.py measures how well all of them choose.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64

from lobsdice.data.neighbours import nearest
from lobsdice.data.prepare import Data
from lobsdice.data.spaces import Box, Discrete
from lobsdice.environments.learned import LearnedWorld
from lobsdice.policies.policy import Policy
from lobsdice.training.diagnostics import TRIVIAL, constant_error
from lobsdice.training.rehearsal.comparison import Shown, pairs_of, sliced
from lobsdice.training.rehearsal.rollouts import likeliest

#: Random features of a state and an action, and the logged rows that are used at most.
FEATURES, ROWS = 150, 4_000
#: The discount of these estimates.
GAMMA = 0.98
#: Added to the diagonal of the equations.
RIDGE = 1e-5

Features = Float64[np.ndarray, "_ features"]


def demonstration_error(
    policy: Policy, states: Float32[np.ndarray, "n state"], actions: np.ndarray
) -> float:
    """The distance of the policy's actions from others, at states in the user's units.

    For actions in a box it is the mean squared error, with actions scaled to [-1, 1]. For others it
    is the share of wrong ones. Actions in a box must be given in [-1, 1].
    """
    chosen = _encoded(policy, states)
    if isinstance(policy.action_space, Discrete):
        return float(np.mean(chosen != actions))
    return float(np.mean((chosen - actions) ** 2))


def explained(world: LearnedWorld, policy: Policy) -> float:
    """The share of the demonstrator's inferred actions that the policy explains: from 0 to 1.

    It is 1 - e/c. Here e is the policy's error on the demonstrations, and c that of the best
    constant action. If actions cannot be inferred, no policy explains them.
    """
    actions, discrete = world.inferred, isinstance(policy.action_space, Discrete)
    if discrete:
        actions = actions[:, 0].astype(int)
    error = demonstration_error(policy, world.demonstrated, actions)
    constant = max(constant_error(actions, discrete=discrete), TRIVIAL)
    return float(np.clip(1 - error / constant, 0, 1))


def disagreement(
    policies: Sequence[Policy], states: Float32[np.ndarray, "n state"]
) -> Float64[np.ndarray, " policies"]:
    """The mean distance of each policy's actions from those of the others.

    In a box it is the mean squared difference, with actions scaled to [-1, 1]. Otherwise it is the
    share of states with another action.
    """
    space = policies[0].action_space
    chosen = np.stack([_encoded(policy, states) for policy in policies])
    found = np.zeros(len(policies))
    for i, mine in enumerate(chosen):
        others = np.delete(chosen, i, axis=0)
        if not len(others):
            continue
        found[i] = np.mean((others - mine) ** 2 if isinstance(space, Box) else others != mine)
    return found


def _encoded(policy: Policy, states: np.ndarray) -> np.ndarray:
    space, chosen = policy.action_space, likeliest(policy, states)
    return space.encode(chosen) if isinstance(space, Box) else chosen


def fitted_q(
    now: Features,
    after: Features,
    first: Features,
    reward: Float64[np.ndarray, " n"],
    *,
    gamma: float,
    ridge: float = RIDGE,
) -> float:
    """(1-γ) E[Q(s0, π)], where Q is the fixed point of fitted Q evaluation with linear features.

    `now` are the features of (s, a), `after` those of (s', π(s')), and `first` those of
    (s0, π(s0)). The value lies between the smallest and the largest reward, if the fit is exact.
    """
    system, right = _system(now, after, gamma, ridge), now.T @ reward / len(now)
    return float((1 - gamma) * first.mean(axis=0) @ np.linalg.solve(system, right))


def visitation(
    now: Features, after: Features, first: Features, *, gamma: float, ridge: float = RIDGE
) -> Float64[np.ndarray, " n"]:
    """The share of each logged row in d^π, with a density ratio that is linear in the features.

    The ratio w fulfils the flow equations of DualDICE (Nachum et al., 2019) for every feature:
    E_D[w (φ(s,a) - γ φ(s',π))] = (1-γ) E[φ(s0,π)]. Shares below 0, which only an inexact fit has,
    become 0.
    """
    system, right = _system(now, after, gamma, ridge), (1 - gamma) * first.mean(axis=0)
    w = np.maximum(now @ np.linalg.solve(system.T, right), 0)
    return w / max(w.sum(), 1e-300)


def _system(now: Features, after: Features, gamma: float, ridge: float) -> np.ndarray:
    return now.T @ (now - gamma * after) / len(now) + ridge * np.eye(now.shape[1])


@dataclass(frozen=True, eq=False)
class Logs:
    """Logged rows and demonstrations, as the linear estimates use them.

    The rows of ends have no action. They lead to themselves, so that an end lasts for ever.
    """

    data: Data
    shown: Shown

    @cached_property
    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, Bool[np.ndarray, " n"]]:
        """s, features of a, s', and where the row follows an end."""
        s, a, s_next = self.data.offline.take(self._chosen_rows)
        final, space = self._finals, self.data.action_space
        seen = np.eye(space.n)[a] if isinstance(space, Discrete) else a
        none = np.zeros((len(final), seen.shape[1]))
        ended = np.arange(len(s) + len(final)) >= len(s)
        s, seen = np.concatenate([s, final]), np.concatenate([seen, none])
        return s, seen, np.concatenate([s_next, final]), ended

    @property
    def _finals(self) -> np.ndarray:
        return self.data.init[:0] if self.data.ends is None else self.data.ends.offline

    @cached_property
    def _chosen_rows(self) -> np.ndarray:
        size = self.data.offline.size
        return np.linspace(0, size - 1, min(size, ROWS)).astype(int)

    @cached_property
    def final_next(self) -> Bool[np.ndarray, " n"]:
        """True where s' is a final state."""
        known = self.data.ended
        leads = (
            np.zeros(len(self._chosen_rows), bool) if known is None else known[self._chosen_rows]
        )
        return np.concatenate([leads, np.ones(len(self._finals), bool)])

    @cached_property
    def reward(self) -> Float64[np.ndarray, " n"]:
        """Nearness of each row to the demonstrations: 1 at a demonstrated pair, towards 0 afar."""
        s, _, s_next, ended = self.rows
        distance, _ = nearest(pairs_of(self.shown.world, s, s_next), self.shown.pairs)
        scale = np.full(len(s), self.shown.spacing)
        if ended.any() and len(self.shown.finals):
            distance[ended], _ = nearest(s[ended], self.shown.finals)
            scale[ended] = self.shown.final_reach
        elif ended.any():  # no demonstration ends, so no end is like one
            distance[ended] = np.inf
        return np.exp(-0.5 * (distance / scale) ** 2)

    @cached_property
    def frequencies(self) -> tuple[np.ndarray, np.ndarray]:
        """Random frequencies of several widths, and phases."""
        random = np.random.default_rng(0)
        inputs = self.rows[0].shape[1] + self.rows[1].shape[1]
        width = random.choice([0.25, 0.5, 1.0, 2.0], FEATURES) / np.sqrt(inputs) * 2
        return width * random.normal(size=(inputs, FEATURES)), random.uniform(0, 6.28, FEATURES)

    def features(self, s: np.ndarray, seen: np.ndarray, ended: np.ndarray) -> Features:
        """Random Fourier features of states and actions, and others of ends."""
        frequencies, phases = self.frequencies
        found = np.cos(np.concatenate([s, seen], axis=1) @ frequencies + phases)
        found = np.concatenate([found, np.ones((len(s), 1))], axis=1)
        return np.concatenate([found * ~ended[:, None], found * ended[:, None]], axis=1)

    def of(self, policy: Policy) -> tuple[Features, Features, Features]:
        """The features of (s, a), of (s', π(s')) and of (s0, π(s0))."""
        s, seen, s_next, ended = self.rows
        init = self.data.init[:: max(1, len(self.data.init) // 1000)]
        final = self.final_next
        chosen = self._chosen(policy, s_next) * ~final[:, None]
        none = np.zeros(len(init), bool)
        return (
            self.features(s, seen, ended),
            self.features(s_next, chosen, final),
            self.features(init, self._chosen(policy, init), none),
        )

    def _chosen(self, policy: Policy, s: np.ndarray) -> np.ndarray:
        actions = _encoded(policy, self.shown.world.raw(s))
        space = policy.action_space
        return np.eye(space.n)[actions] if isinstance(space, Discrete) else actions


def nearness_value(logs: Logs, policy: Policy, *, gamma: float = GAMMA) -> float:
    """The value of a policy if nearness to the demonstrations were the reward."""
    return float(np.clip(fitted_q(*logs.of(policy), logs.reward, gamma=gamma), 0, 1))


def visitation_distance(logs: Logs, policy: Policy, *, gamma: float = GAMMA) -> float:
    """The distance of d^π, estimated by weights of logged rows, from the demonstrations'."""
    w = visitation(*logs.of(policy), gamma=gamma)
    s, _, s_next, _ = logs.rows
    episodes, shown = logs.shown.episodes, logs.shown
    discount = gamma ** episodes.step_numbers.astype(float)
    mass = discount * (1 - gamma)
    last = shown.states[episodes.ends[episodes.terminated]]
    rest = gamma ** episodes.lengths[episodes.terminated].astype(float)
    points = np.concatenate([shown.pairs, pairs_of(shown.world, last, last)])
    mass = np.concatenate([mass, rest])
    return sliced((pairs_of(shown.world, s, s_next), w), (points, mass / mass.sum()))

"""Rehearsed episodes beside the demonstrations.

A state pair is compared in s and in s' - s, each in units of its standard deviation in the logs. A
rehearsed pair is *near* if it is no farther from the demonstrations than these are from each other.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float32, Float64, Int64
from scipy.sparse.csgraph import connected_components
from scipy.special import betaincinv

from lobsdice.data.episodes import Episodes
from lobsdice.data.neighbours import nearest, spacings
from lobsdice.environments.learned import LearnedWorld, States
from lobsdice.training.rehearsal.rollouts import Rollouts

#: A pair is near if its distance is at most this many times the demonstrations' own spacing.
REACH = 1.5
#: Added to distances that may be zero; the second for each root of a feature.
LEAST, FEW = 1e-3, 0.05
#: The confidence of the largest share of ends at a place.
CONFIDENCE = 0.95
#: Directions along which distributions are compared, and quantiles along each.
DIRECTIONS, QUANTILES = 64, 101

Pairs = Float32[np.ndarray, "_ pair"]
#: Points, and the mass of each.
Weighted = tuple[Pairs, Float64[np.ndarray, " _"]]


@dataclass(frozen=True, eq=False)
class Shown:
    """The demonstrations, as rehearsed episodes are compared with them."""

    episodes: Episodes
    world: LearnedWorld

    @cached_property
    def states(self) -> States:
        """All demonstrated states, normalised."""
        return self.world.normaliser(self.episodes.observations)

    @cached_property
    def pairs(self) -> Pairs:
        """All demonstrated pairs."""
        rows = self.episodes.step_rows
        return pairs_of(self.world, self.states[rows], self.states[rows + 1])

    @cached_property
    def spacing(self) -> float:
        """The usual distance between demonstrations: most pairs are nearer to another one."""
        return _spacing(self.pairs, self.episodes.step_episodes)

    @cached_property
    def usual(self) -> float:
        """The usual distance of a demonstrated pair from the next demonstration."""
        group = self.episodes.step_episodes
        if len(self.episodes) < 2:
            group = _tenths(len(self.pairs))
        found, _ = nearest(self.pairs, self.pairs, excluded=(group, group))
        # Demonstrations of a world with few states repeat one another.
        return float(np.median(found)) + FEW * float(np.sqrt(self.pairs.shape[1]))

    @cached_property
    def finals(self) -> States:
        """The final states of the demonstrations that terminated."""
        return self.states[self.episodes.ends[self.episodes.terminated]]

    @cached_property
    def final_reach(self) -> float:
        """The largest distance of a final state from those of the demonstrations.

        It is the median distance of one from the next, and the length of a last step: episodes end
        somewhere on the step that crosses a border. The median and not the largest, because one
        demonstration that fails would make every end of the logs a demonstrated one.
        """
        if not len(self.finals):
            return 0.0
        last = self.episodes.ends[self.episodes.terminated]
        step = np.median(np.linalg.norm(self.states[last] - self.states[last - 1], axis=1))
        return float(step + (np.median(self._finals_apart) if len(self.finals) > 1 else 0.0))

    @cached_property
    def _finals_apart(self) -> Float64[np.ndarray, " ends"]:
        """The distance of each final state from the next one."""
        group = np.arange(len(self.finals))
        return nearest(self.finals, self.finals, excluded=(group, group))[0]

    @cached_property
    def places(self) -> Int64[np.ndarray, " ends"]:
        """The number of the place of each final state. States within reach share a place."""
        apart = self.finals[:, None] - self.finals[None]
        linked = np.linalg.norm(apart, axis=-1) <= self.final_reach
        return connected_components(linked)[1].astype(np.int64)

    @cached_property
    def most_often(self) -> Float64[np.ndarray, " places"]:
        """The largest share of ends at each place that the demonstrations leave open."""
        count = np.bincount(self.places)
        rest = count.sum() - count
        return np.where(rest > 0, betaincinv(count + 1, np.maximum(rest, 1), CONFIDENCE), 1.0)

    @cached_property
    def shared_ends(self) -> float:
        """The share of demonstrated ends that are like another one: at least a half.

        Episodes as good as the demonstrations end like them about so often. It is 1 if the
        demonstrations do not end, or if only one does.
        """
        if not self.ending or len(self.finals) < 2:
            return 1.0
        return float(np.mean(self._finals_apart <= self.final_reach))

    @cached_property
    def own_distance(self) -> float:
        """The mean distance of a demonstration from the others, as `Comparison.apart` measures."""
        episode = self.episodes.step_episodes
        if len(self.episodes) < 2:  # halves of the only one, of alternating blocks
            episode = np.arange(len(self.pairs)) * 10 // max(len(self.pairs), 1) % 2
        found = [
            sliced(*(_alike(self.pairs[mine]) for mine in (episode == i, episode != i)))
            for i in np.unique(episode)
        ]
        return float(np.mean(found)) + LEAST

    @property
    def ending(self) -> bool:
        """True if most demonstrations terminated, rather than being cut off."""
        return bool(self.episodes.terminated.mean() > 0.5)


def _spacing(rows: Float32[np.ndarray, "n width"], group: np.ndarray) -> float:
    """The spacing of rows from different groups; with one group, that of rows far apart in time."""
    if len(np.unique(group)) < 2:
        group = _tenths(len(rows))
    return spacings(rows, group, np.arange(0))[1]


def _tenths(n: int) -> Int64[np.ndarray, " n"]:
    """Ten blocks of rows, which stand for demonstrations if there is only one."""
    return np.arange(n) * 10 // max(n, 1)


def pairs_of(world: LearnedWorld, s: States, s_next: States) -> Pairs:
    """State pairs as they are compared."""
    return np.concatenate([s, (s_next - s) / world.move_scale], axis=1)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Rehearsed episodes of a policy beside the demonstrations."""

    shown: Shown
    rollouts: Rollouts

    @cached_property
    def taken(self) -> Bool[np.ndarray, "n steps"]:
        """True for the steps before an episode stopped."""
        return np.arange(self.rollouts.horizon) < self.rollouts.steps[:, None]

    @cached_property
    def pairs(self) -> Pairs:
        """The rehearsed pairs of all episodes, one after the other."""
        states = self.rollouts.states
        return pairs_of(self.shown.world, states[:, :-1][self.taken], states[:, 1:][self.taken])

    @cached_property
    def distances(self) -> Float64[np.ndarray, "n steps"]:
        """The distance of each step from the nearest demonstrated pair; infinite after the last."""
        found = np.full(self.taken.shape, np.inf)
        if len(self.pairs):
            found[self.taken] = nearest(self.pairs, self.shown.pairs)[0]
        return found

    @cached_property
    def near(self) -> Bool[np.ndarray, "n steps"]:
        """True for the steps that are near the demonstrations."""
        return self.distances <= REACH * self.shown.spacing

    @cached_property
    def finished(self) -> Bool[np.ndarray, " n"]:
        """True for episodes that end as demonstrations do: in such a state, or not at all."""
        rollouts = self.rollouts
        if not self.shown.ending:
            return ~rollouts.ended & ~rollouts.guessing
        last = rollouts.states[:, -1]
        distance, _ = nearest(last, self.shown.finals)
        return rollouts.ended & (distance <= self.shown.final_reach)

    def arrived(self) -> float:
        """The share of episodes that end as demonstrations do, and hardly more often at each place.

        Demonstrated ends within reach of each other are one place. If k of n demonstrations end at
        a place, only as large a share of the episodes counts there as these numbers allow, by the
        upper limit of Clopper and Pearson (1934). Otherwise one demonstration that fails would
        vouch for a policy that always fails so.
        """
        if not self.shown.ending:
            return float(self.finished.mean())
        _, end = nearest(self.rollouts.states[:, -1], self.shown.finals)
        place = self.shown.places[end]
        shares = [float(np.mean(self.finished & (place == i))) for i in range(place.max() + 1)]
        return float(np.minimum(shares, self.shown.most_often[: len(shares)]).sum())

    @cached_property
    def failed(self) -> Bool[np.ndarray, " n"]:
        """True for episodes that end as no demonstration does."""
        return self.rollouts.ended & ~self.finished

    def nearness(self) -> float:
        """The mean nearness of an episode to the demonstrations over its time: from 0 to 1.

        A step counts exp(-d²/8u²), where u is the usual distance between demonstrations. After an
        end like theirs all time counts as 1. After another end, and where the model is guessing, it
        counts as 0.
        """
        steps, horizon = self.rollouts.steps, self.rollouts.horizon
        inside = np.exp(-0.5 * (self.distances / (2 * self.shown.usual)) ** 2).sum(axis=1)
        after = np.where(self.finished, horizon - steps, 0)
        return float(np.mean((inside + after) / horizon))

    def stay(self) -> Int64[np.ndarray, " n"]:
        """The steps of each episode before it leaves the demonstrations for good.

        It leaves at the step that parts it best: before it most steps are near, and from it on most
        are away.
        """
        nearer = np.cumsum(np.where(self.near, 1, -1) * self.taken, axis=1)
        nearer = np.pad(nearer, ((0, 0), (1, 0)))
        # The last of equally good steps; after its end an episode neither gains nor loses.
        last = nearer.shape[1] - 1 - nearer[:, ::-1].argmax(axis=1)
        return np.minimum(last, self.rollouts.steps)

    def apart(self) -> float:
        """The distance of the distribution of pairs from that of the demonstrations.

        It is the mean over random directions of the Wasserstein distance along each (Bonneel et
        al., 2015). An episode that ended stays in its last state until the horizon.
        """
        rollouts, episodes = self.rollouts, self.shown.episodes
        rehearsed = self._lasting(
            self.pairs, rollouts.steps, rollouts.states[:, -1], over=rollouts.ended
        )
        last = self.shown.states[episodes.ends]
        shown = self._lasting(self.shown.pairs, episodes.lengths, last, over=episodes.terminated)
        return sliced(rehearsed, shown)

    def _lasting(
        self,
        pairs: Pairs,
        steps: Int64[np.ndarray, " n"],
        last: States,
        *,
        over: Bool[np.ndarray, " n"],
    ) -> Weighted:
        """Pairs with their shares, and a pair without movement for the time after each end."""
        episode = np.repeat(np.arange(len(steps)), steps)
        after = np.where(over, np.maximum(self.rollouts.horizon - steps, 0), 0)
        if not (steps + after).any():  # the model is guessing from the first states on
            after = np.ones_like(steps)
        total = np.maximum(steps + after, 1)
        mass = np.concatenate([1 / total[episode], after / total])
        still = pairs_of(self.shown.world, last, last)
        return np.concatenate([pairs, still]), mass / mass.sum()


def _alike(rows: Pairs) -> Weighted:
    return rows, np.full(len(rows), 1 / len(rows))


def sliced(one: Weighted, other: Weighted) -> float:
    """The sliced Wasserstein distance of two weighted sets of points."""
    random = np.random.default_rng(0)
    directions = random.normal(size=(one[0].shape[1], DIRECTIONS)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=0)
    levels = (np.arange(QUANTILES) + 0.5) / QUANTILES
    found = [
        np.mean(np.abs(_quantiles(a, one[1], levels) - _quantiles(b, other[1], levels)))
        for a, b in zip((one[0] @ directions).T, (other[0] @ directions).T, strict=True)
    ]
    return float(np.mean(found))


def _quantiles(x: np.ndarray, mass: np.ndarray, levels: np.ndarray) -> np.ndarray:
    order = np.argsort(x)
    place = np.searchsorted(np.cumsum(mass[order]), levels)
    return x[order][np.minimum(place, len(x) - 1)]

"""The verdict of a rehearsal: a score, the chance that the policy works, and a sentence.

The score was chosen in a study on worlds where the truth is known: see docs/select.md.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lobsdice.errors import plural
from lobsdice.training.rehearsal.comparison import Comparison

#: A policy is recommended if it is so near the demonstrations, and ends like them in this share of
#: the episodes in which they would.
NEAR_ENOUGH, OFTEN_ENOUGH = 0.75, 0.9
#: It must follow them, or act as they do, better than a policy that stands still, which has 0.5.
ALIKE_ENOUGH = 0.75
#: Episodes in which the model is guessing do not count for ends, if their share is at most this.
MOST_UNKNOWN = 0.25
#: An episode stays with the demonstrations if it leaves them in this last share of it or never.
LATE = 0.1
#: The logistic function from a score to the chance, fitted on the 24 worlds that chose it.
CHANCE = {"constant": -3.71, "score": 7.59}


@dataclass(frozen=True)
class Verdict:
    """The facts of a policy's rehearsal."""

    score: float
    """A number from 0, for a policy that does nothing that was demonstrated, to about 1."""
    chance: float
    """The estimated probability that the policy does at least half as well as the demonstrator."""
    starts: int
    """Rehearsed episodes."""
    horizon: int
    """Steps of an episode at most."""
    finished: int
    """Episodes that end as the demonstrations do: in such a state, or not at all."""
    failed: int
    """Episodes that end as no demonstration does."""
    guessing: int
    """Episodes that come to where the model is guessing."""
    staying: int
    """Episodes that stay with the demonstrations until they end or the model is guessing."""
    trusted: int
    """The median number of steps of the episodes that stay; 0 if none does."""
    near: float
    """The mean nearness of the episodes to the demonstrations over their time: from 0 to 1."""
    apart: float
    """The distance of all rehearsed pairs from the demonstrated ones, in units of the distance of
    one demonstration from the others."""
    arrived: float
    """The share of episodes that end as the demonstrations do, and hardly more often at each place:
    see `Comparison.arrived`."""
    following: float
    """The closeness to demonstrations over a few steps from their states: 0 to 1."""
    explained: float
    """The share of the demonstrator's inferred actions that the policy explains: 0 to 1."""
    shared_ends: float
    """The share of demonstrations that end as another one does; 1 if they do not end."""
    ending: bool
    """True if the demonstrations end by themselves."""
    succeeded: float | None = None
    """The share of the logged episodes that succeeded; None if it is not known."""

    def to_plain(self) -> dict[str, Any]:
        """The verdict as JSON can hold it."""
        return asdict(self) | {
            "works": self.works,
            "objections": self.objections,
            "sentence": self.sentence,
        }

    @property
    def works(self) -> bool:
        """True if the policy may be tried: it does what was demonstrated, in rehearsal."""
        return not self.objections

    @property
    def objections(self) -> list[str]:
        """The reasons not to try the policy; none if it works."""
        return objections(asdict(self))

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of policies: larger is better."""
        return self.works, self.score

    @property
    def sentence(self) -> str:
        """A sentence on what was seen, with the limits of the model."""
        said = [f"of {plural(self.starts, 'rehearsed start')} {self._staying}"]
        if self.ending:
            said.append(f"{self.finished} end as the demonstrations do")
        if self.guessing:
            verb = "stops" if self.guessing == 1 else "stop"
            said.append(f"{self.guessing} {verb} where the model is guessing")
        if self.failed:
            said.append(f"{self.failed} end as no demonstration ends")
        return "; ".join(said)

    @property
    def _staying(self) -> str:
        if not self.staying:
            return "none stays with the demonstrations"
        verb = "stays" if self.staying == 1 else "stay"
        steps = plural(self.trusted, "step")
        return f"{self.staying} {verb} with the demonstrations, half of them for {steps} or more"


class Rehearsed(NamedTuple):
    """The rehearsal of one policy."""

    verdict: Verdict
    comparison: Comparison


def judge(found: Comparison, following: float, explained: float) -> Verdict:
    """The verdict on a policy from its rehearsed episodes, its short ones, and its actions."""
    rollouts = found.rollouts
    long = (found.stay() >= (1 - LATE) * rollouts.steps) & (rollouts.steps > 0)
    staying = long & ~found.failed
    facts = {
        "starts": len(rollouts.steps),
        "horizon": rollouts.horizon,
        "finished": int(found.finished.sum()),
        "failed": int(found.failed.sum()),
        "guessing": int(rollouts.guessing.sum()),
        "staying": int(staying.sum()),
        "trusted": int(np.median(rollouts.steps[staying])) if staying.any() else 0,
        "near": found.nearness(),
        "apart": found.apart() / found.shown.own_distance,
        "arrived": found.arrived(),
        "following": following,
        "explained": explained,
        "shared_ends": found.shown.shared_ends,
        "ending": found.shown.ending,
        "succeeded": found.shown.world.about.get("succeeded"),
    }
    score = score_of(facts)
    return Verdict(score=score, chance=chance_of(score), **facts)


def score_of(facts: dict[str, Any]) -> float:
    """The score of a policy: whether it acts as demonstrated, follows and arrives.

    The last two count less if its states are spread otherwise. The first does not depend on the
    learned world, so it still tells policies apart where the model is bad. Nearness is not part of
    it: where the model is guessing, it says little.
    """
    rehearsed = (facts["following"] + arrival_of(facts)) / max(facts["apart"], 1.0)
    return (facts["explained"] + rehearsed) / 3


def recommended(facts: dict[str, Any]) -> bool:
    """True if the policy may be tried: near the demonstrations, it acts and ends as they do."""
    return not objections(facts)


def objections(facts: dict[str, Any]) -> list[str]:
    """The reasons not to try a policy.

    Where the model is guessing nothing is known of an end. A few such episodes say nothing against
    a policy, if all others end well. Where demonstrations differ much, all is near them; so the
    policy must also do what each of them does at its own states. If no logged episode succeeded,
    being near the demonstrations does not mean to succeed.
    """
    unknown = facts["guessing"] / facts["starts"]
    found = {
        "the model is guessing in too many episodes": unknown > MOST_UNKNOWN,
        "it arrives too seldom": arrival_of(facts) < OFTEN_ENOUGH * (1 - unknown),
        "it is too far from the demonstrations": nearness_of(facts) < NEAR_ENOUGH,
        "it hardly acts as demonstrated": facts["following"] + facts["explained"] < ALIKE_ENOUGH,
        "no logged episode succeeded": facts.get("succeeded") == 0,
    }
    return [words for words, true in found.items() if true]


def nearness_of(facts: dict[str, Any]) -> float:
    """The nearness of the episodes to the demonstrations, if they also cover them: from 0 to 1.

    A policy that lingers at one demonstrated place is near, but its pairs are spread otherwise.
    """
    return facts["near"] / max(facts["apart"], 1.0)


def arrival_of(facts: dict[str, Any]) -> float:
    """The rate of ends like those of demonstrations, where demonstrations themselves have 1."""
    return min(1.0, facts["arrived"] / facts["shared_ends"])


def chance_of(score: float) -> float:
    """The chance that a policy with this score works."""
    return float(1 / (1 + np.exp(-(CHANCE["constant"] + CHANCE["score"] * score))))


def answer(verdicts: Sequence[Verdict]) -> str:
    """One sentence on some policies, of which the best comes first."""
    best = verdicts[0]
    if not best.works:
        return none_works(best.ending)
    return f"the first does what was demonstrated: {best.sentence}"


def none_works(ending: bool) -> str:
    """The warning if no policy is recommended; demonstrations may end by themselves or not."""
    what = "reaches the demonstrated end" if ending else "does what was demonstrated"
    return f"none of these reliably {what} in rehearsal: do not deploy"


def explain(ranked: Sequence[tuple[Path, Verdict]], quality: Mapping[str, Any]) -> list[str]:
    """Three sentences on a choice: what to take, why, and how far to trust that."""
    (path, best), *others = ranked
    if not best.works:
        choice = (
            f"{answer([best])}; the best is {path}, with a score of {best.score:.2f} of 1, but "
            f"{' and '.join(best.objections)}"
        )
    else:
        choice = f"take {path}: its score in rehearsal is {best.score:.2f} of 1"
    why = f"{best.sentence}"
    if others:
        other, second = others[0]
        why += f"; the next is {other}, with a score of {second.score:.2f}"
    if not best.ending:
        why += "; demonstrations do not end by themselves, so nothing is known of arriving"
    return [choice, why, quality_sentence(quality)]


def quality_sentence(quality: Mapping[str, Any]) -> str:
    """The errors of a learned world on held-out rows, in words."""
    rows = "held-out rows" if quality.get("held_out", True) else "the rows that it learned from"
    said = (
        f"the learned world explains {1 - quality['unexplained']:.1%} of the movements in "
        f"{rows}, and {quality['in_interval']:.0%} of them lie in its 90 % intervals"
    )
    if (seen := quality.get("expected_ends")) is None:
        return said
    return f"{said}; where new episodes end it expects an end with a probability of {seen:.2f}"

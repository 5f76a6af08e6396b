"""Before training: do the labelled recordings hold what the demonstrations show?

The method assumes that wherever the expert goes the offline data has been, d^I(s, s') > 0 wherever
d^E(s, s') > 0. `audit` says how far that holds, and where it does not. docs/audit.md tells how to
read the answer and how well the thresholds below did on the built-in data.
"""

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from lobsdice import console
from lobsdice.data.audit.coverage import (
    FACTOR,
    SAMPLE,
    Coverage,
    Part,
    cover,
    groups,
    parts,
    stride,
)
from lobsdice.data.audit.discriminator import Discrimination, discriminate
from lobsdice.data.audit.facts import facts
from lobsdice.data.audit.rate import Rate, compare_rates
from lobsdice.data.episodes import Episodes
from lobsdice.data.prepare import count_leaked, prepare
from lobsdice.errors import LobsDICEError

__all__ = ["Audit", "Coverage", "Discrimination", "Part", "Rate", "Support", "Verdict", "audit"]

Verdict = Literal["covered", "partly covered", "not covered"]

#: Shares of uncovered transitions up to which data is covered, and from which it is not.
COVERED, NOT_COVERED = 0.10, 0.90
#: The discriminator objects to "covered" above this AUC, if there are fewer look-alikes than these;
#: and it finds nothing in common above the second AUC, with fewer look-alikes than the second.
SEPARABLE, FEW_LOOKALIKES = 0.99, 0.01
DISJOINT, NO_LOOKALIKES = 0.999, 0.001


@dataclass(frozen=True)
class Support:
    """An offline episode, and how many of the demonstrated transitions are nearest to it."""

    episode: int
    source: str
    transitions: int
    median_ratio: float


@dataclass(frozen=True, eq=False)
class Audit:
    """All that was found out."""

    verdict: Verdict
    reason: str
    """The numbers that decide, and the thresholds that they are held against."""
    uncovered_share: float
    uncovered: list[Part]
    """Stretches of the demonstrations without offline data nearby, longest first."""
    leaked: int
    """Demonstrated pairs that are, to the last bit, also offline pairs."""
    rate: Rate | None
    """What speaks for recordings of different rates, if anything does."""
    closest: list[Support]
    """Offline episodes, those that support most of the demonstrations first."""
    sources: dict[str, float]
    """The share of demonstrated transitions whose nearest offline pair is of each source."""
    coverage: Coverage
    discrimination: Discrimination
    expert: dict[str, Any]
    offline: dict[str, Any]

    @property
    def warns(self) -> bool:
        """Whether there is something to mend before training."""
        return self.verdict != "covered" or self.leaked > 0 or self.rate is not None

    def report(self) -> dict[str, Any]:
        """Everything as plain numbers, text, lists and dictionaries."""
        coverage = self.coverage
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "uncovered_share": self.uncovered_share,
            "leaked_pairs": self.leaked,
            "rate": self.rate and {**asdict(self.rate), "remark": self.rate.remark},
            "uncovered": [asdict(part) for part in self.uncovered],
            "closest": [asdict(support) for support in self.closest],
            "sources": self.sources,
            "coverage": {
                "transitions": len(coverage.distance),
                "every": coverage.every,
                "median_distance": float(np.median(coverage.distance)),
                "median_spacing": float(np.median(coverage.spacing)),
                "median_ratio": float(np.median(coverage.ratio)),
            },
            "discriminator": asdict(self.discrimination),
            "expert": self.expert,
            "offline": self.offline,
        }


def audit(expert: Episodes, offline: Episodes) -> Audit:
    """Hold demonstrations (their actions are ignored) against labelled recordings."""
    with console.waiting("Looking at the files"):
        ours, theirs, leaked = _pairs(expert, offline)
        described = facts(expert), facts(offline)
    looked_at = -(-len(ours) // stride(len(ours)))
    # Spacings are asked for two samples and for the neighbours found, at most.
    with console.progress("Comparing transitions", 2 * (looked_at + SAMPLE)) as advance:
        coverage = cover(ours, expert, theirs, offline, advance)
    grouped = (ours, groups(expert), theirs, groups(offline))
    with console.waiting("Telling demonstrations from logs"):
        discrimination = discriminate(*grouped)
    with console.waiting("Comparing rates"):
        rate = compare_rates(*grouped)
    share = float(coverage.uncovered.mean())
    verdict, reason = judge(share, discrimination)
    closest = _closest(coverage, offline)
    return Audit(
        verdict=verdict,
        reason=reason,
        uncovered_share=share,
        uncovered=parts(coverage, expert.lengths),
        leaked=leaked,
        rate=rate,
        closest=closest,
        sources=_sources(closest, offline, len(coverage.distance)),
        coverage=coverage,
        discrimination=discrimination,
        expert=described[0],
        offline=described[1],
    )


def _pairs(expert: Episodes, offline: Episodes) -> tuple[np.ndarray, np.ndarray, int]:
    """Pairs (s, s') of both as a learner sees them, and how many of the former leak."""
    data = prepare(expert, offline, allow_leak=True)
    ours, theirs = (np.concatenate([x.s, x.s_next], axis=1) for x in (data.expert, data.offline))
    for whose, pairs in {"demonstrations": ours, "recordings": theirs}.items():
        if len(pairs) < 2:
            raise LobsDICEError(f"the {whose} hold one transition: there is nothing to compare")
    return ours, theirs, count_leaked(data.expert, data.offline)


def judge(share: float, second: Discrimination) -> tuple[Verdict, str]:
    """The verdict and the numbers that it rests on."""
    reason = (
        f"{share:.1%} of the demonstrated transitions are more than {FACTOR:g} times as far from "
        "the offline data as that data is from itself"
    )
    apart = second.auc > DISJOINT and second.lookalikes < NO_LOOKALIKES
    if COVERED < share < NOT_COVERED and apart:
        return "not covered", (
            f"{reason}, and a discriminator finds no offline transition that looks demonstrated "
            f"(AUC {second.auc:.4f})"
        )
    if share > COVERED:
        verdict = "partly covered" if share < NOT_COVERED else "not covered"
        return verdict, f"{reason} (covered: up to {COVERED:.0%}; not covered: {NOT_COVERED:.0%})"
    if second.auc > SEPARABLE and second.lookalikes < FEW_LOOKALIKES:
        return "partly covered", (
            f"{reason}, but a discriminator tells the two apart (AUC {second.auc:.4f}, above "
            f"{SEPARABLE}) and finds next to no offline transition that looks demonstrated"
        )
    return "covered", f"{reason} (covered: up to {COVERED:.0%})"


def _closest(coverage: Coverage, offline: Episodes) -> list[Support]:
    episode = offline.step_episodes[coverage.neighbour]
    found = [
        Support(
            int(i),
            _source(offline, int(i)),
            int((episode == i).sum()),
            float(np.median(coverage.ratio[episode == i])),
        )
        for i in np.unique(episode)
    ]
    return sorted(found, key=lambda support: (-support.transitions, support.median_ratio))


def _source(offline: Episodes, episode: int) -> str:
    if offline.source is None:
        return "offline"
    return offline.source_names[offline.source[episode]]


def _sources(closest: list[Support], offline: Episodes, total: int) -> dict[str, float]:
    shares = dict.fromkeys(offline.source_names or ("offline",), 0.0)
    for support in closest:
        shares[support.source] += support.transitions / total
    return shares

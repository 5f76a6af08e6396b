"""The audit: a check, before training, that the offline data covers the demonstrations.

LobsDICE assumes that d^I(s, s') > 0 wherever d^E(s, s') > 0. `audit` measures where that holds.
docs/audit.md explains the results and shows how well the thresholds below work on built-in data.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from lobsdice import console
from lobsdice.data.audit.advice import Advice, Verdict, advise
from lobsdice.data.audit.coverage import FACTOR, Coverage, Part, cover, groups, parts
from lobsdice.data.audit.discriminator import Discrimination, discriminate
from lobsdice.data.audit.facts import facts
from lobsdice.data.audit.rate import Rate, compare_rates
from lobsdice.data.audit.targets import Target, targets
from lobsdice.data.copies import given_twice, shown_twice, without_copies
from lobsdice.data.ends import Endings, compare_ends
from lobsdice.data.episodes import Episodes, require_episodes
from lobsdice.data.fills import Fill, fill_values
from lobsdice.data.logged import LoggedPairs
from lobsdice.data.normaliser import Normaliser, fit_normaliser
from lobsdice.data.prepare import check_options, observations
from lobsdice.data.repeats import shared_rows
from lobsdice.data.units import Unit, different_units
from lobsdice.errors import LobsDICEError, plain, plural

__all__ = [
    "Advice",
    "Audit",
    "Coverage",
    "Discrimination",
    "Part",
    "Rate",
    "Support",
    "Verdict",
    "audit",
]

#: Of more offline steps, all are compared with the demonstrations, in blocks, and looked at for
#: leaks. The discriminator and the tests of rates and ends see evenly spaced episodes with about
#: so many steps.
WHOLE = 2_000_000
#: Data is covered up to the first share of uncovered transitions, and not covered from the second.
COVERED, NOT_COVERED = 0.10, 0.90
#: Covered data becomes partly covered if the discriminator's AUC is above the first number and its
#: `lookalikes` are below the second.
SEPARABLE, FEW_LOOKALIKES = 0.99, 0.01
#: In the same way, partly covered data becomes not covered.
DISJOINT, NO_LOOKALIKES = 0.999, 0.001


@dataclass(frozen=True)
class Support:
    """An offline episode, and the number of demonstrated transitions that are nearest to it."""

    episode: int
    name: str
    """The user's name of the episode."""
    source: str
    transitions: int
    median_ratio: float


@dataclass(frozen=True, eq=False, repr=False)
class Audit:
    """The results of an audit."""

    verdict: Verdict
    reason: str
    """The numbers that decide the verdict, and their thresholds."""
    uncovered_share: float
    uncovered: list[Part]
    """The uncovered parts of the demonstrations, longest first."""
    leaked: int
    """The number of demonstrated pairs (s, s') that also occur in the offline data."""
    copies: list[str]
    """Sentences on files that hold the same episodes, up to rounding."""
    rate: Rate | None
    """The evidence for different sampling rates, if there is any."""
    closest: list[Support]
    """Offline episodes by the number of demonstrated transitions nearest to them, largest first."""
    sources: dict[str, float]
    """The share of demonstrated transitions whose nearest offline pair is of each source."""
    coverage: Coverage
    discrimination: Discrimination
    ends: Endings
    """The ends of demonstrations and logs, and what is suspicious about them."""
    units: list[Unit]
    """The features whose units seem to differ between demonstrations and logs."""
    fills: list[Fill]
    """The values that seem to stand for missing measurements."""
    targets: list[Target]
    """The columns of actions that are states."""
    advice: Advice
    """The methods to begin with."""
    expert: dict[str, Any]
    offline: dict[str, Any]

    def __repr__(self) -> str:
        lines = (*self.findings, f"METHOD: {self.advice.sentence}", self.conclusion)
        return "\n  ".join(("Audit", *map(plain, lines)))

    @property
    def conclusion(self) -> str:
        """The verdict and its numbers."""
        return f"{self.verdict.upper()}: {self.reason}"

    @property
    def findings(self) -> list[str]:
        """A sentence on each thing that may be wrong, apart from the verdict."""
        count = plural(self.leaked, "demonstrated transition")
        leak = [f"LEAK: {count} occur in the offline data, with their actions"]
        return [
            *(leak if self.leaked else []),
            *(f"COPIES: {sentence}" for sentence in self.copies),
            *([f"RATES: {self.rate.remark}"] if self.rate else []),
            *(f"ENDS: {sentence}" for sentence in self.ends.warnings),
            *(f"UNITS: {unit.remark}" for unit in self.units),
            *(f"FILL VALUES: {fill.remark}" for fill in self.fills),
            *(f"ACTIONS: {target.remark}" for target in self.targets),
        ]

    @property
    def warns(self) -> bool:
        """True if something should be mended before training."""
        copied = any(target.when == "this" for target in self.targets)
        mistakes = (self.leaked, self.copies, self.rate, self.ends.warnings, self.units, self.fills)
        return self.verdict != "covered" or copied or any(map(bool, mistakes))

    def report(self) -> dict[str, Any]:
        """All results as numbers, texts, lists and dictionaries, for JSON."""
        coverage = self.coverage
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "uncovered_share": self.uncovered_share,
            "leaked_pairs": self.leaked,
            "copies": self.copies,
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
            "ends": asdict(self.ends),
            "units": [{**unit._asdict(), "remark": unit.remark} for unit in self.units],
            "fills": [{**fill._asdict(), "remark": fill.remark} for fill in self.fills],
            "targets": [{**target._asdict(), "remark": target.remark} for target in self.targets],
            "advice": {**self.advice._asdict(), "sentence": self.advice.sentence},
            "expert": self.expert,
            "offline": self.offline,
        }


def audit(expert: Episodes, offline: Episodes) -> Audit:
    """Compare demonstrations (their actions are ignored) with offline data."""
    require_episodes(expert=expert, offline=offline)
    with console.waiting("Looking at the files"):
        normaliser, leaked = _checked(expert, offline)
        copies = [*given_twice(offline), *([] if leaked else shown_twice(expert, offline))]
        judged, numbers = without_copies(offline)
        some = judged.spread(WHOLE)
        ours, theirs = (observations(e, normaliser=normaliser).pairs for e in (expert, some))
        fills = fill_values(expert, offline)
        described = facts(expert, offline, fills)
    logged = theirs if some is judged else LoggedPairs(judged, normaliser)
    coverage = cover(ours, expert, logged, judged)
    grouped = (ours, groups(expert), theirs, groups(some))
    with console.waiting("Telling demonstrations from offline data"):
        discrimination = discriminate(*grouped)
        alike = discrimination.lookalikes * judged.steps / some.steps
        discrimination = replace(discrimination, lookalikes=alike)
    with console.waiting("Comparing sampling rates"):
        rate = compare_rates(*grouped)
    with console.waiting("Comparing ends"):
        ends = compare_ends(expert, some, whole=offline)
    units = different_units(expert, offline)
    share = float(coverage.uncovered.mean())
    verdict, reason = judge(share, discrimination)
    closest = _closest(numbers[judged.episode_of(coverage.neighbour)], coverage, offline)
    return Audit(
        verdict=verdict,
        reason=reason,
        uncovered_share=share,
        uncovered=parts(coverage, expert),
        leaked=leaked,
        copies=copies,
        rate=rate,
        closest=closest,
        sources=_sources(closest, offline, len(coverage.distance)),
        coverage=coverage,
        discrimination=discrimination,
        ends=ends,
        units=units,
        fills=fills,
        targets=targets(offline),
        advice=advise(verdict, offline, uncovered=share, mistaken=bool(units or rate)),
        expert=described[0],
        offline=described[1],
    )


def _checked(expert: Episodes, offline: Episodes) -> tuple[Normaliser, int]:
    """The normaliser, and the number of expert pairs that leak; raises if no audit is possible."""
    check_options(expert, offline)
    for name, episodes in {"demonstrations have": expert, "offline data has": offline}.items():
        if episodes.steps < 2:
            raise LobsDICEError(f"the {name} only one transition; an audit needs at least two")
    shared = shared_rows(observations(expert).pairs, offline.pair_blocks())
    return fit_normaliser(offline), int(shared.sum())


def judge(share: float, second: Discrimination) -> tuple[Verdict, str]:
    """The verdict for this share of uncovered transitions, and the numbers that decide it."""
    reason = (
        f"{share:.1%} of the demonstrated transitions are uncovered: they are farther from the "
        f"offline data than {FACTOR:g} times its local spacing"
    )
    apart = second.auc > DISJOINT and second.lookalikes < NO_LOOKALIKES
    if COVERED < share < NOT_COVERED and apart:
        return "not covered", (
            f"{reason}; in addition, a discriminator finds no offline transition that looks "
            f"demonstrated (AUC {second.auc:.4f})"
        )
    if share > COVERED:
        verdict = "partly covered" if share < NOT_COVERED else "not covered"
        limits = f"covered: up to {COVERED:.0%}; not covered: from {NOT_COVERED:.0%}"
        return verdict, f"{reason} ({limits})"
    if second.auc > SEPARABLE and second.lookalikes < FEW_LOOKALIKES:
        return "partly covered", (
            f"{reason}; but a discriminator tells the two apart (AUC {second.auc:.4f}, above "
            f"{SEPARABLE}) and finds hardly any offline transition that looks demonstrated"
        )
    return "covered", f"{reason} (covered: up to {COVERED:.0%})"


def _closest(
    episode: Int64[np.ndarray, " n"], coverage: Coverage, offline: Episodes
) -> list[Support]:
    """The episodes of the neighbours of the demonstrated transitions."""
    found = [
        Support(
            int(i),
            offline.episode_names[i] if offline.episode_names else str(i),
            "offline" if offline.source is None else offline.source_names[offline.source[i]],
            int((episode == i).sum()),
            float(np.median(coverage.ratio[episode == i])),
        )
        for i in np.unique(episode)
    ]
    return sorted(found, key=lambda support: (-support.transitions, support.median_ratio))


def _sources(closest: list[Support], offline: Episodes, total: int) -> dict[str, float]:
    shares = dict.fromkeys(offline.source_names or ("offline",), 0.0)
    for support in closest:
        shares[support.source] += support.transitions / total
    return shares

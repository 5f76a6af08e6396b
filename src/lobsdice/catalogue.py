"""What there is to train with: one line an algorithm, without importing any of them.

The command line, the table of classes in `algorithms/` and the documentation's tests read this.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """One algorithm: `class_name` in `lobsdice.algorithms.<name>`."""

    class_name: str
    summary: str
    citation: str
    needs: str
    """What data it learns from."""


STATES = "demonstrations (s, s'); recordings (s, a, s')"

CATALOGUE: dict[str, Entry] = {
    "lobsdice": Entry(
        "LobsDICE",
        "Match the expert's state transitions (the paper).",
        "Kim et al. 2022, arXiv:2202.13536",
        STATES,
    ),
    "lobsdice_mu": Entry(
        "LobsDICEMu",
        "The same with a network for each multiplier.",
        "Kim et al. 2022, arXiv:2202.13536, appendices B and F",
        STATES,
    ),
    "bc": Entry(
        "BC",
        "Clone the behaviour in the recordings.",
        "Pomerleau 1991",
        "recordings (s, a), or labelled demonstrations (s, a)",
    ),
    "bco": Entry(
        "BCO",
        "Clone the actions that an inverse model infers.",
        "Torabi et al. 2018, arXiv:1805.01954",
        STATES,
    ),
    "demodice": Entry(
        "DemoDICE",
        "Match the expert's states and actions.",
        "Kim et al. 2022, ICLR",
        "labelled demonstrations (s, a); recordings (s, a, s')",
    ),
    "demodicefo": Entry(
        "DemoDICEfO",
        "DemoDICE with actions that an inverse model infers.",
        "Kim et al. 2022, arXiv:2202.13536",
        STATES,
    ),
    "smodice": Entry(
        "SMODICE",
        "Match the expert's states, by an upper bound.",
        "Ma et al. 2022, arXiv:2202.02433",
        "demonstrations (s); recordings (s, a, s')",
    ),
    "opolo": Entry(
        "OPOLO",
        "Match the expert's state transitions, by an upper bound and a saddle point.",
        "Zhu et al. 2020, arXiv:2102.13185",
        STATES,
    ),
    "iqlearn": Entry(
        "IQLearn",
        "Inverse soft Q-learning; needs labels to learn anything of the expert.",
        "Garg et al. 2021, arXiv:2106.12142",
        "labelled demonstrations (s, a, s'), or demonstrations (s, s')",
    ),
    "rce": Entry(
        "RCE",
        "Reach the expert's states, as examples of success.",
        "Eysenbach et al. 2021, arXiv:2103.12656",
        "demonstrations (s); recordings (s, a, s')",
    ),
}

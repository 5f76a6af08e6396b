"""The error about a leak names the logged episodes, and says when equal pairs are harmless."""

from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.prepare import prepare
from lobsdice.errors import LobsDICEError, for_the_shell


def recorded(values, name: str) -> Episodes:
    count = len(values) // 11
    return Episodes.from_arrays(
        np.asarray(values, np.float32).reshape(-1, 1),
        lengths=[10] * count,
        actions=np.linspace(-1, 1, 10 * count),
        episode_names=[f"{name}{i}" for i in range(count)],
    )


def said(expert: Episodes, offline: Episodes) -> str:
    with pytest.raises(LobsDICEError) as caught:
        prepare(expert, offline)
    return for_the_shell(str(caught.value))


def test_a_leak_names_the_logged_episodes_and_the_option():
    random = np.random.default_rng(0)
    demonstration, logs = (
        recorded(random.normal(size=n), name) for n, name in ((11, "D"), (88, "T"))
    )
    sentence = said(demonstration, concatenate([logs, replace(demonstration, valid=True)]))
    assert sentence.startswith("10 of the 10 demonstrated pairs (s, s') occur in the logs, to the")
    assert "they are in the logged episodes D0: remove these, or set --allow-leak" in sentence
    assert "chance" not in sentence


def test_for_rounded_states_it_explains_when_equal_pairs_are_harmless():
    random = np.random.default_rng(0)
    walks = (recorded(random.integers(0, 3, n), name) for n, name in ((11, "D"), (880, "T")))
    sentence = said(*walks)
    assert (
        "but only 9 of 800 logged pairs differ from each other, as with rounded sensors" in sentence
    )
    assert "arise by chance: set --allow-leak if the logs were recorded apart from" in sentence

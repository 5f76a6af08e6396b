"""The part of a report about rewards: read from the run folder, for each logged episode."""

from dataclasses import replace

import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import SEABO, NearestTrajectory
from lobsdice.data.prepare import prepare
from lobsdice.errors import LobsDICEError
from lobsdice.report.rewards import rate, section
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet, learn
from lobsdice.training.folder import RunFolder
from lobsdice.training.scores import SCORES, kept_scores

LOGS = noise(80)
DATA = prepare(noise(40, seed=1), LOGS)


@pytest.mark.parametrize("algorithm", [SEABO(), NearestTrajectory()])
def test_each_episode_is_shown_with_the_mean_and_the_sum_of_its_steps(algorithm, tmp_path):
    fleet = Fleet((Member(algorithm),), (DATA,))
    kept_scores(tmp_path, fleet.members, fleet.datas, learn)
    found = rate(RunFolder(tmp_path), fleet, LOGS, "logs.npz")
    assert fleet.noted is not None
    if isinstance(algorithm, SEABO):
        steps, what = fleet.noted.notes.reward[:80], "mean reward"
    else:
        w = np.exp(fleet.noted.notes[:80])
        steps, what = w / w.mean(), "mean weight"
    np.testing.assert_allclose(found.share, np.reshape(steps, (8, 10)).mean(axis=1), rtol=1e-4)
    text = str(section(found))
    best = int(found.order[0])
    assert what in text and f"largest in logs.npz {best}" in text and text.count("<tr") == 9


def test_a_missing_file_is_named(tmp_path):
    fleet = Fleet((Member(SEABO()),), (replace(DATA),))
    with pytest.raises(LobsDICEError, match=f"{SCORES} is missing or damaged"):
        rate(RunFolder(tmp_path), fleet, LOGS, None)

"""Episodes from the user's own files, used like the built-in ones."""

from dataclasses import replace

import numpy as np
import pytest
from made_runs import make_policy
from worlds import noise

from lobsdice.data.episodes import Episodes
from lobsdice.data.formats import write
from lobsdice.environments.evaluate import evaluate
from lobsdice.environments.tasks.table import SOURCES, spec_of
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control import fleet
from lobsdice.experiments.control.data import make_data
from lobsdice.experiments.control.episodes import BuiltIn, make_source
from lobsdice.experiments.control.grid import Plan, Trial


def episodes(count: int, width: int, each: float, seed: int) -> Episodes:
    """Episodes of two steps whose return is `each`."""
    random = np.random.default_rng(seed)
    return Episodes.from_arrays(
        random.normal(size=(3 * count, width)),
        lengths=[2] * count,
        actions=random.uniform(-1, 1, (2 * count, 8)),
        rewards=np.full(2 * count, each / 2),
    )


@pytest.fixture
def folder(tmp_path):
    """Files of an Ant with its contact forces, named like D4RL's."""
    returns = {"expert": 500.0, "medium": 200.0, "random": 100.0}
    for seed, (name, each) in enumerate(returns.items()):
        write(tmp_path / f"ant_{name}-v2.hdf5", episodes(6, 111, each, seed))
    return tmp_path


def test_files_are_found_by_their_names_and_scored_by_their_own_returns(folder):
    source = make_source(f"d4rl:{folder}")
    assert source.normalised("ant", 500.0) == pytest.approx(100)
    assert source.normalised("ant", 200.0) == pytest.approx(25)
    found = source.episodes("ant", {"expert": 3, "random": 1})
    assert set(found) == {"expert", "random"} and found["expert"].state_size == 27


def test_a_mixture_has_the_episodes_that_are_asked_for(folder):
    data = make_data(
        Trial("bc", "ant", (3, 2, 1), 0, demonstrations=2),
        make_source(f"d4rl:{folder}").episodes("ant", dict.fromkeys(SOURCES, 5)),
    )
    assert len(data.expert.s) == 4 and len(data.offline.s) == 12 and len(data.init) == 6
    assert np.bincount(data.source).tolist() == [6, 4, 2]
    assert data.labelled is None


def test_a_pattern_names_any_other_files(tmp_path):
    write(tmp_path / "hopper.expert.npz", replace(noise(20, width=11, actions=3), rewards=None))
    source = make_source(str(tmp_path / "{env}.{source}.npz"))
    assert len(source.episodes("hopper", {"expert": 1})["expert"]) == 2
    with pytest.raises(LobsDICEError, match="no rewards to score with"):
        source.normalised("hopper", 1.0)


@pytest.mark.parametrize("name", ["d4rl", "d4rl:", "elsewhere", "{env}.npz"])
def test_what_is_no_source_is_a_sentence(name):
    with pytest.raises(LobsDICEError, match="none of built-in, d4rl:FOLDER"):
        make_source(name)


def test_too_few_numbers_in_an_observation_are_a_sentence(tmp_path):
    write(tmp_path / "ant_expert-v2.hdf5", episodes(2, 11, 1.0, 0))
    with pytest.raises(LobsDICEError, match="have 11 numbers; 27 are needed"):
        make_source(f"d4rl:{tmp_path}").episodes("ant", {"expert": 1})


def test_too_few_episodes_in_a_file_are_a_sentence(folder):
    trial = Trial("bc", "ant", (5, 1, 1), 0, demonstrations=2)
    found = make_source(f"d4rl:{folder}").episodes("ant", dict.fromkeys(SOURCES, 1))
    with pytest.raises(LobsDICEError, match="needs 7 expert episodes, but there are only 6; ask"):
        make_data(trial, found)


def test_built_in_scores_are_the_references():
    spec = BuiltIn()
    assert spec.normalised("hopper", 3466.0) == pytest.approx(100, abs=0.5)


def test_policies_from_d4rls_recordings_are_scored_in_the_version_that_has_their_rewards(folder):
    """In v2 to v4 a step in which the robot falls has its reward for being healthy."""
    source = make_source(f"d4rl:{folder}")
    places = [source.place(name) for name in ("hopper", "walker2d", "halfcheetah", "ant")]
    assert places == ["Hopper-v4", "Walker2d-v4", "HalfCheetah-v4", "Ant-v4"]
    assert BuiltIn().place("ant") == make_source("minari:mujoco").place("ant") == "ant"

    hopper = [make_policy(spec_of("hopper").action_space, width=11)]
    theirs, ours = (evaluate(hopper, name, episodes=2, workers=1) for name in (places[0], "hopper"))
    np.testing.assert_allclose(theirs, ours + 1, rtol=1e-6)

    ant = [make_policy(spec_of("ant").action_space, width=27)]
    score = fleet.evaluation([Trial("bc", "ant", (1, 1, 1), 0)], Plan(episodes=1), source, 1)
    theirs = evaluate(ant, "Ant-v4", episodes=1, workers=1).item()
    assert score(ant)[0]["return"] == pytest.approx(theirs)
    assert score(ant)[0]["score"] == pytest.approx(100 * (theirs - 100) / 400)

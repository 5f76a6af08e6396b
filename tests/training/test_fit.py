"""`LobsDICE().fit(...)`: recordings in, a run out."""

from dataclasses import replace
from typing import Any

import pytest
from worlds import noise

from lobsdice.algorithms import ALGORITHMS, BC, BCO, DemoDICE
from lobsdice.data.episodes import mixture
from lobsdice.data.formats import write
from lobsdice.data.prepare import prepare
from lobsdice.errors import LobsDICEError
from lobsdice.training.train import Run, train

DEMOS, LOGS = noise(40, seed=1), noise(80)
SMALL: dict[str, Any] = {"steps": 2, "every": 2, "batch_size": 4}


def same(a: Run, b: Run) -> bool:
    return a.rows == b.rows and a.policy.to_bytes() == b.policy.to_bytes()


@pytest.fixture(scope="module")
def trained() -> Run:
    return train(BC(width=4), prepare(DEMOS, LOGS), **SMALL)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_it(name):
    assert callable(getattr(ALGORITHMS[name](), "fit", None))


def test_it_trains_as_prepare_and_train_do(trained):
    assert same(BC(width=4).fit(DEMOS, LOGS, **SMALL), trained)


def test_files_stand_for_their_episodes(tmp_path, trained):
    demos, logs, more = (tmp_path / f"{name}.npz" for name in ("demos", "logs", "more"))
    write(demos, DEMOS.without_actions())
    write(logs, LOGS)
    write(more, noise(80, seed=7))
    assert same(BC(width=4).fit(demos, str(logs), **SMALL), trained)
    both = prepare(DEMOS, mixture({"logs": LOGS, "more": noise(80, seed=7)}))
    assert same(BC(width=4).fit(demos, [logs, more], **SMALL), train(BC(width=4), both, **SMALL))


def test_actions_of_demonstrations_are_used_where_an_algorithm_needs_them():
    algorithm = BC(width=4, from_labelled=True)
    found = algorithm.fit(DEMOS, LOGS, **SMALL)
    data = prepare(DEMOS, LOGS, labelled=DEMOS)
    assert same(found, train(algorithm, data, **SMALL))
    assert same(found, algorithm.fit(DEMOS.without_actions(), LOGS, labelled=DEMOS, **SMALL))
    with pytest.raises(LobsDICEError, match="DemoDICE learns from demonstrations with actions"):
        DemoDICE().fit(DEMOS.without_actions(), LOGS, **SMALL)


HINTS = {
    "seed": "did you mean 'seeds'?",
    "evalute": "did you mean 'evaluate'?",
    "env": "did you mean 'evaluate'?",
    "callback": "did you mean 'callbacks'?",
    "epochs": "did you mean 'steps'?",
    "output": "did you mean 'out'?",
    "obs_columns": "did you mean 'observation_columns'?",
    "alow_leak": "did you mean 'allow_leak'?",
    "width": r"it belongs to the algorithm: ld.BC\(width=...\)",
    "alpha": r"it belongs to the algorithm: ld.LobsDICE\(alpha=...\)",
    "xyz": r"there are: seeds, steps, .*, callbacks, .*, episode_column.*ld.LobsDICE\(alpha=...\)",
}


@pytest.mark.parametrize("name", HINTS)
def test_an_unknown_option_gets_the_right_name(name):
    with pytest.raises(LobsDICEError, match=f"training has no option '{name}'; {HINTS[name]}"):
        BC(width=4).fit(DEMOS, LOGS, **{name: 1}, **SMALL)


def test_a_hint_of_train_names_only_its_own_options():
    with pytest.raises(LobsDICEError, match=r"no option 'obs_columns'; there are: seeds"):
        train(BC(width=4), prepare(DEMOS, LOGS), obs_columns="x", **SMALL)


def test_one_callback_and_one_logger_may_stand_for_lists(trained):
    seen = []
    found = BC(width=4).fit(DEMOS, LOGS, callbacks=seen.append, loggers=seen.append, **SMALL)
    assert len(seen) == 2 and same(found, trained)


def test_preparation_has_the_names_of_the_command_line(trained):
    found = BC(width=4).fit(DEMOS, LOGS, subsample=4, **SMALL)
    assert same(found, train(BC(width=4), prepare(DEMOS, LOGS, every=4), **SMALL))
    assert found.rows != trained.rows
    leaking = replace(DEMOS, observations=LOGS.observations[: len(DEMOS.observations)])
    with pytest.raises(LobsDICEError, match="leak"):
        BCO().fit(leaking, LOGS, **SMALL)
    assert BC(width=4).fit(leaking, LOGS, allow_leak=True, **SMALL).policy


def test_options_of_reading_may_be_keywords(tmp_path, trained):
    for name, episodes in {"demos": DEMOS.without_actions(), "logs": LOGS}.items():
        write(tmp_path / f"{name}.csv", episodes)
        text = (tmp_path / f"{name}.csv").read_text()
        (tmp_path / f"{name}.csv").write_text(text.replace("episode", "trip", 1))
    files = (tmp_path / "demos.csv", tmp_path / "logs.csv")
    found = BC(width=4).fit(*files, episode_column="trip", **SMALL)
    assert found.rows == trained.rows  # the policies differ in the names of features

"""Tasks: the choice of episodes, the cache, the errors."""

import subprocess
import sys

import numpy as np
import pytest

from lobsdice.data.episodes import mixture
from lobsdice.environments.gym import versions
from lobsdice.environments.tasks import task
from lobsdice.environments.tasks.collect import collect, collect_ranges
from lobsdice.environments.tasks.table import SOURCES, TASKS
from lobsdice.environments.tasks.task import Task, load
from lobsdice.errors import LobsDICEError

#: Episodes of a random Hopper last some twenty steps.
SMALL = {"expert": 1, "random": 3}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _cached(monkeypatch, cache):
    monkeypatch.setenv("LOBSDICE_CACHE", str(cache))


@pytest.fixture
def hopper(_cached) -> Task:
    return load("hopper", expert=1, offline=SMALL, seed=1, workers=1)


@pytest.fixture
def ranges(monkeypatch) -> list[dict[str, range]]:
    """The ranges that are collected from now on."""
    seen, original = [], collect_ranges

    def spy(name, wanted, **options):
        seen.append(wanted)
        return original(name, wanted, **options)

    monkeypatch.setattr(task, "collect_ranges", spy)
    return seen


def test_demonstrations_have_no_actions_and_offline_episodes_have_labels(hopper):
    assert hopper.expert.actions is None and hopper.expert.action_space is None
    assert hopper.offline.source_names == ("expert", "random")
    assert hopper.offline.source is not None and hopper.offline.source.tolist() == [0, 1, 1, 1]
    assert hopper.offline.action_space == hopper.spec.action_space
    assert hopper.spec is TASKS["hopper"] and hopper.name == "hopper"


def test_no_demonstration_is_among_the_offline_episodes(hopper):
    labelled = hopper.offline.without_actions()
    assert not len(mixture({"demonstrations": hopper.expert, "offline": labelled}).repeated)


def test_demonstrations_come_first_and_offline_episodes_after_them(hopper):
    expert = collect("hopper", {"expert": 2}, seed=1, workers=1)["expert"]
    assert (hopper.expert.observations == expert.first(1).observations).all()
    second = expert.first(1, skip=1)
    assert (hopper.offline.observations[: len(second.observations)] == second.observations).all()


def test_the_second_time_nothing_is_collected(hopper, ranges):
    again = load("hopper", expert=1, offline=SMALL, seed=1)
    assert ranges == []
    assert again.offline.observations.tobytes() == hopper.offline.observations.tobytes()
    assert (again.offline.rewards == hopper.offline.rewards).all()
    assert (again.offline.terminated == hopper.offline.terminated).all()


def test_more_episodes_extend_the_cache_and_leave_the_earlier_ones(hopper, ranges):
    more = load("hopper", expert=1, offline={**SMALL, "random": 5}, seed=1, workers=1)
    assert ranges == [{"random": range(3, 5)}]
    rows = len(hopper.offline.observations)
    assert (more.offline.observations[:rows] == hopper.offline.observations).all()
    fresh = collect("hopper", {"random": 5}, seed=1, workers=1)["random"]
    assert (more.offline.observations[-len(fresh.observations) :] == fresh.observations).all()


def test_fewer_episodes_are_a_part_of_what_is_kept(hopper, ranges):
    less = load("hopper", expert=1, offline={"random": 2}, seed=1)
    assert ranges == [] and less.offline.source_names == ("random",)


def test_a_damaged_file_in_the_cache_is_collected_anew(hopper, ranges, cache):
    [path] = cache.glob("tasks/hopper-*/random.npz")
    path.write_bytes(path.read_bytes()[:100])
    again = load("hopper", expert=1, offline=SMALL, seed=1, workers=1)
    assert ranges == [{"random": range(0, 3)}]
    assert again.offline.observations.tobytes() == hopper.offline.observations.tobytes()


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="not kept for another time: cannot write"):
        assert len(load("grid", expert=1, offline={"random": 1}).offline) == 1


def test_two_processes_may_fill_the_same_cache_at_once(ranges, tmp_path, monkeypatch):
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path))
    code = (
        "from lobsdice import load;"
        "load('hopper', expert=1, offline={'random': 30}, seed=2, workers=1)"
    )
    both = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    kept = load("hopper", expert=1, offline={"random": 30}, seed=2)
    assert ranges == [] and len(kept.offline) == 30
    assert len(list(tmp_path.rglob("*.*"))) == 2  # nothing half written is left


def test_the_fingerprint_changes_with_the_seed_the_policy_and_the_versions(monkeypatch, tmp_path):
    spec, seen = TASKS["hopper"], set()
    seen.add(task.fingerprint(spec, 0))
    seen.add(task.fingerprint(spec, 1))
    seen.add(task.fingerprint(TASKS["ant"], 0))
    monkeypatch.setattr(task, "versions", lambda spec: {**versions(spec), "mujoco": "0"})
    seen.add(task.fingerprint(spec, 0))
    (tmp_path / "other").write_bytes(b"weights")
    monkeypatch.setattr(task, "files_of", lambda spec: [tmp_path / "other"])
    seen.add(task.fingerprint(spec, 0))
    assert len(seen) == 5


def test_a_task_prepares_its_data_once(hopper):
    assert hopper.data is hopper.data
    assert len(hopper.data.offline.s) == hopper.offline.steps
    assert hopper.data.labelled is None


def test_labels_are_the_actions_of_the_demonstrations(hopper):
    expert, labelled = hopper.labelled_data.expert, hopper.labelled_data.labelled
    np.testing.assert_array_equal(labelled.s, expert.s)
    np.testing.assert_array_equal(labelled.s_next, expert.s_next)
    np.testing.assert_array_equal(labelled.a, hopper.labelled.actions)  # Hopper's are in [-1, 1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "humanoid"}, "no task 'humanoid'; the tasks are hopper, walker2d"),
        ({"offline": {"replay": 1}}, f"sources are {', '.join(SOURCES)}"),
        ({"expert": 0}, "at least one demonstration"),
        ({"offline": {"random": 0}}, "one offline episode"),
    ],
)
def test_a_wrong_argument_is_named(options, message):
    with pytest.raises(LobsDICEError, match=message):
        load(**{"name": "hopper", **options})

"""Collection with real environments is correct and reproducible."""

import subprocess
import sys

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes
from lobsdice.environments.gym import make
from lobsdice.environments.tasks.collect import collect, collect_ranges, episode_seed, save
from lobsdice.environments.tasks.table import TASKS
from lobsdice.errors import LobsDICEError

#: Short episodes of every source, so that there are enough jobs for three processes.
FEW = {"medium": 2, "random": 9}


@pytest.fixture(scope="module")
def hopper() -> dict[str, Episodes]:
    return collect("hopper", FEW, seed=3, workers=1)


def same(a: Episodes, b: Episodes) -> bool:
    fields = ("observations", "actions", "rewards", "lengths", "terminated")
    return all(getattr(a, f).tobytes() == getattr(b, f).tobytes() for f in fields)


@pytest.mark.parametrize("workers", [2, 3])
def test_the_number_of_workers_does_not_change_a_byte(hopper, workers, tmp_path):
    paths = save(tmp_path / "one", hopper)
    more = save(tmp_path / "more", collect("hopper", FEW, seed=3, workers=workers))
    assert [path.name for path in paths] == ["medium.npz", "random.npz"]
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in more]


def test_an_episode_does_not_depend_on_how_many_are_asked_for_or_where_one_starts(hopper):
    assert same(
        collect("hopper", {"random": 4}, seed=3, workers=1)["random"], hopper["random"].first(4)
    )
    late = collect_ranges("hopper", {"random": range(5, 9)}, seed=3, workers=1)["random"]
    assert same(late, hopper["random"].first(4, skip=5))


def test_seeds_sources_and_episodes_differ(hopper):
    other = collect("hopper", {"random": 9}, seed=4, workers=1)["random"]
    starts = [part.observations[part.starts] for part in (*hopper.values(), other)]
    assert len(np.unique(np.concatenate(starts), axis=0)) == 2 + 9 + 9


@pytest.mark.parametrize("task", ["walker2d", "ant"])
def test_episodes_have_the_sizes_of_the_table(task):
    episodes = collect(task, {"random": 2}, workers=1)["random"]
    assert episodes.state_size == TASKS[task].state_size
    assert episodes.action_space == TASKS[task].action_space
    assert len(episodes.observations) == episodes.steps + 2


def test_the_hopper_expert_hops():
    returns = collect("hopper", {"expert": 3}, workers=1)["expert"].returns()
    assert returns is not None and returns.mean() > 3000


def test_half_cheetahs_never_terminate():
    cheetah = collect("halfcheetah", {"random": 1}, workers=1)["random"]
    assert cheetah.lengths.tolist() == [1000] and not cheetah.terminated.any()


def test_hopper_terminates_exactly_when_it_falls_and_the_fallen_state_is_recorded(hopper):
    """Replay the recorded actions in a fresh environment."""
    env = make(TASKS["hopper"])
    for source, episodes in hopper.items():
        for i, start in enumerate(episodes.step_starts):
            seed = episode_seed(TASKS["hopper"], 3, source, i).generate_state(1, np.uint64)[0]
            state, _ = env.reset(seed=int(seed))
            healthy = []
            for action in episodes.actions[start : start + episodes.lengths[i]]:
                state, *_ = env.step(action)
                healthy.append(env.unwrapped.is_healthy)  # type: ignore[attr-defined]
            assert all(healthy[:-1]) and episodes.terminated[i] == (not healthy[-1])
            assert (episodes.observations[episodes.ends[i]] == state.astype(np.float32)).all()
    assert hopper["random"].terminated.all()


def test_an_episode_that_outlives_the_limit_is_truncated():
    expert = collect("walker2d", {"expert": 1}, workers=1)["expert"]
    assert expert.lengths.tolist() == [1000] and not expert.terminated.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"task": "humanoid", "counts": {"random": 1}},
            "hopper, walker2d, halfcheetah, ant, hopper-noisy",
        ),
        ({"task": "hopper", "counts": {"replay": 1}}, "expert, medium, random"),
        ({"task": "hopper", "counts": {"random": -1}}, "cannot take -1 random episodes"),
        ({"task": "hopper", "counts": {"random": 0}}, "every count is 0"),
        ({"task": "hopper", "counts": {"random": 1}, "seed": -1}, "seed must not be negative"),
        ({"task": "hopper", "counts": {"random": 1}, "workers": 0}, "at least 1 worker"),
    ],
)
def test_a_wrong_argument_is_named(arguments, message):
    with pytest.raises(LobsDICEError, match=message):
        collect(**arguments)


def test_a_worker_process_loads_neither_jax_nor_matplotlib():
    code = "import sys; from lobsdice.environments.tasks import collect; "
    code += "print({'jax', 'matplotlib'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.strip() == "set()"


def test_collecting_leaves_nothing_in_the_working_directory(tmp_path):
    code = "from lobsdice import collect; collect('halfcheetah', {'random': 1})"
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert result.stderr == b"" and not list(tmp_path.iterdir())

"""Scores of logged steps: learned or computed once, kept in the run folder, checked on resuming."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import noise, noise_data

from lobsdice.algorithms import IQL, NearestTrajectory
from lobsdice.algorithms.stage import Stage
from lobsdice.data.prepare import prepare
from lobsdice.data.steps import Transitions, store
from lobsdice.equations.ratio import calibration
from lobsdice.errors import LobsDICEError
from lobsdice.rewards import nearest
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate
from lobsdice.training.scores import SCORES, read_scores
from lobsdice.training.stages import negatives
from lobsdice.training.train import train

DATA = noise_data()
CHEAP = NearestTrajectory(width=8)
COMMON: dict[str, Any] = {"steps": 20, "every": 5, "batch_size": 4}


def contents(folder) -> dict[str, bytes]:
    """All that a run leaves, but for config.json."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "config.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def stop_at_ten(rows):
    if rows[0]["step"] == 10:
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was never interrupted."""
    out = tmp_path_factory.mktemp("whole") / "run"
    train(CHEAP, DATA, out=out, **COMMON)
    return out


def test_a_resumed_run_takes_the_kept_scores_and_ends_with_the_same_bits(
    whole, tmp_path, monkeypatch
):
    with pytest.raises(KeyboardInterrupt):
        train(CHEAP, DATA, out=tmp_path / "run", loggers=[stop_at_ten], **COMMON)

    def never(*_, **__):
        raise AssertionError("found again")

    monkeypatch.setattr(nearest, "distances", never)
    train(CHEAP, DATA, out=tmp_path / "run", resume=True, **COMMON)
    assert contents(tmp_path / "run") == contents(whole)


def test_damaged_scores_are_found_again(whole, tmp_path, capsys):
    with pytest.raises(KeyboardInterrupt):
        train(CHEAP, DATA, out=tmp_path / "run", loggers=[stop_at_ten], **COMMON)
    path = tmp_path / "run" / SCORES
    changed = bytearray(path.read_bytes())
    changed[-3] ^= 1
    path.write_bytes(changed)
    train(CHEAP, DATA, out=tmp_path / "run", resume=True, **COMMON)
    assert "damaged (its checksum is wrong)" in capsys.readouterr().err
    assert contents(tmp_path / "run") == contents(whole)


def test_a_run_does_not_go_on_with_other_rewards(tmp_path):
    algorithm = IQL(width=8)
    with pytest.raises(KeyboardInterrupt):
        train(algorithm, DATA, out=tmp_path / "run", loggers=[stop_at_ten], **COMMON)
    assert DATA.rewards is not None
    other = replace(DATA, rewards=DATA.rewards + 1)
    with pytest.raises(LobsDICEError, match="the rewards or the episodes have changed"):
        train(algorithm, other, out=tmp_path / "run", resume=True, **COMMON)


def test_runs_share_scores_and_have_notes_of_their_own():
    algorithms = [CHEAP, CHEAP, replace(CHEAP, temperature=0.2)]
    datas = (DATA, noise_data(seed=1))
    members = [Member(a, seed, 0) for seed, a in enumerate(algorithms)] + [Member(CHEAP, 0, 1)]
    fleet = Fleet(tuple(members), datas)
    assert len(fleet.scores) == 2 and fleet.noted is not None
    assert DATA.ends is not None
    rows = DATA.offline.size + len(DATA.ends.offline)
    assert fleet.noted.start.tolist() == [0, 0, rows, 2 * rows]
    first, second = fleet.noted.notes[:rows], fleet.noted.notes[rows : 2 * rows]
    np.testing.assert_allclose(first, 2 * second, rtol=1e-6)


def test_negatives_are_the_episodes_that_look_least_like_the_expert():
    logits = np.repeat(np.arange(8, dtype=np.float32)[::-1], 10) + np.tile([1, -1], 40)
    kept = negatives(DATA, logits.astype(np.float32))
    # Eight episodes; those strictly below the 0.8 quantile of 7 .. 0, which is 5.6.
    np.testing.assert_array_equal(kept.offline.s, DATA.offline.s[20:])
    equal = negatives(DATA, np.zeros(80, np.float32))
    assert len(equal.offline.s) == 80


def test_learned_ratios_tell_the_expert_apart_and_belong_to_their_seed():
    """Half of the logs are like the demonstrations, and lie apart from the other half."""
    data = noise_data()
    shift = np.where(np.arange(80) < 40, 0, 6).astype(np.float32)[:, None]
    s, a, s_next = data.offline.take(np.arange(80))
    data = replace(data, offline=store(Transitions(s + shift, a, s_next + shift)))
    algorithm = IQL(width=16, reward="unlabelled", ratio_steps=400)
    fleet = Fleet((Member(algorithm, 0), Member(algorithm, 1)), (data,))
    first, second = (found.steps for found in fleet.scores.values())
    assert not np.allclose(first, second)
    for found in (first, second):
        assert np.median(found[:40]) > np.median(found[40:]) + 0.5


def test_ratios_are_learned_from_logs_without_an_end_too():
    data = noise_data(ended=0.0)
    fleet = Fleet((Member(IQL(width=8, reward="ratio", ratio_steps=8)),), (data,))
    (found,) = fleet.scores.values()
    np.testing.assert_array_equal(found.beyond, found.steps)
    assert np.isfinite(found.steps).all()


@pytest.mark.parametrize("reward", ["ratio", "unlabelled"])
def test_learned_ratios_do_not_depend_on_the_other_runs_of_a_fleet(reward):
    few = replace(DATA, expert=store(DATA.expert.take(np.arange(15))), expert_episode=None)
    algorithm = IQL(width=8, reward=reward, ratio_steps=40)

    def scores(datas):
        fleet = Fleet(tuple(Member(algorithm, 3, i) for i in range(len(datas))), datas)
        return list(fleet.scores.values())

    others = noise_data(seed=1)
    together = scores((DATA, few, others))
    for data, found in zip((DATA, few, others), together, strict=True):
        (alone,) = scores((data,))
        np.testing.assert_allclose(found.steps, alone.steps, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found.beyond, alone.beyond, rtol=1e-4, atol=1e-5)
    assert not np.allclose(together[0].steps, together[1].steps, atol=0.01)


def test_calibrated_ratios_lie_on_the_line_that_fits_held_out_rows_best():
    data = prepare(noise(1100, seed=1), noise(1600, seed=2))
    fleet = Fleet((Member(IQL(width=8, reward="ratio", ratio_steps=40, calibrate=True)),), (data,))
    (found,) = fleet.scores.values()
    (kind,) = {case.kind for case in fleet.scores}
    stage, options = Stage(on_pairs=True, width=8), Options(steps=40, batch_size=512)
    alone = Fleet((Member(stage, 0, 0, options),), (data,))
    *_, last = iterate(alone, every=40)
    net = jax.tree.map(lambda x: x[0], last.state.nets.policy)
    logits = [np.asarray(net(jnp.asarray(part.pairs))) for part in (data.expert, data.offline)]
    # The last 32 of each 512 rows, which took no part in training.
    held = [jnp.asarray(x[np.arange(len(x)) % 512 >= 480]) for x in logits]
    slope, bias = calibration(*held)
    assert kind.calibrated and abs(slope - 1) > 0.01
    np.testing.assert_allclose(found.steps, slope * logits[1] + bias, rtol=1e-4, atol=1e-4)


def test_without_held_out_rows_ratios_are_not_corrected():
    plain, calibrated = (
        next(iter(Fleet((Member(algorithm),), (DATA,)).scores.values()))
        for algorithm in (
            IQL(width=8, reward="state-ratio", ratio_steps=20, calibrate=calibrate)
            for calibrate in (False, True)
        )
    )
    np.testing.assert_array_equal(plain.steps, calibrated.steps)


def test_the_kept_scores_can_be_read(whole):
    found = read_scores(whole / SCORES)
    assert found is not None
    steps = Fleet((Member(CHEAP),), (DATA,)).scores
    np.testing.assert_array_equal(found[1][0].steps, next(iter(steps.values())).steps)


def test_a_discriminator_of_states_sees_no_next_state():
    rows = jax.tree.map(jnp.asarray, DATA.offline.take(np.arange(3)))
    assert Stage(on_pairs=False).seen(rows).shape[1] == 3
    assert Stage(on_pairs=True).seen(rows).shape[1] == 6

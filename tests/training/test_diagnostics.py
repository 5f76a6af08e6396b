"""What can be said of a run without its environment: weights, and measures on held-out rows."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from algorithms.transcription import seven_rows
from worlds import noise, noise_data

from lobsdice.algorithms import BC, SMODICE, DemoDICE, DemoDICEfO, LobsDICE, LobsDICEMu
from lobsdice.algorithms.batch import pairs
from lobsdice.data.prepare import prepare
from lobsdice.data.steps import Observations, Transitions, store
from lobsdice.errors import LobsDICEError
from lobsdice.training import diagnostics
from lobsdice.training.diagnostics import (
    discrepancy,
    episode_weights,
    expert_distance,
    flow_residual,
    hold_out,
    infer_actions,
    masses,
    policy_distance,
    row_weights,
    shares,
    weight_measures,
)
from lobsdice.training.draws import held_out_rows
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, make_fleet

SIZE: Any = {"width": 5}
WEIGHING = [
    LobsDICE(sharpness=1.0, **SIZE),
    LobsDICE(sharpness=1.0, averaged=False, **SIZE),
    LobsDICEMu(**SIZE),
    LobsDICEMu(state_matching=True, **SIZE),
    SMODICE(**SIZE),
    SMODICE(chi2=True, **SIZE),
    DemoDICE(**SIZE),
    DemoDICEfO(**SIZE),
]
each_weighing = pytest.mark.parametrize(
    "algorithm", WEIGHING, ids=[f"{type(a).__name__}{i}" for i, a in enumerate(WEIGHING)]
)


def started(algorithm, key, data=None):
    data = data or noise_data()
    return algorithm.init(key, data.state_size, data.action_space)


@each_weighing
def test_weights_are_those_under_which_the_policy_clones(algorithm, key):
    nets, (batch, _) = started(algorithm, key), seven_rows(key)
    loss = algorithm.loss(nets, batch, key, penalised=0)[1]["policy_loss"]
    log_w = algorithm.log_weights(nets, batch.offline)
    w = np.exp(log_w - log_w.max())
    log_prob = np.asarray(nets.policy.log_prob(batch.offline.s, batch.offline.a))
    np.testing.assert_allclose(loss, -(w * log_prob).sum() / w.sum(), rtol=1e-6)


def test_row_weights_are_shares_whatever_the_size_of_the_pieces(key, monkeypatch):
    algorithm, data = LobsDICE(**SIZE), noise_data()
    nets = started(algorithm, key)
    whole = row_weights(algorithm, nets, data)
    monkeypatch.setattr(diagnostics, "ROWS_AT_ONCE", 30)  # 80 rows are no multiple of it
    np.testing.assert_allclose(row_weights(algorithm, nets, data), whole, rtol=1e-5)
    assert whole.shape == (80,) and whole.sum() == pytest.approx(1)
    rows = data.offline.take(np.arange(80))
    log_w = algorithm.log_weights(nets, jax.tree.map(jnp.asarray, rows))
    np.testing.assert_allclose(np.log(whole), log_w - jax.nn.logsumexp(log_w), rtol=1e-5)


def test_where_no_weight_is_left_all_shares_are_zero(key):
    algorithm, data = SMODICE(chi2=True, gamma=0.0, **SIZE), noise_data()
    nets = started(algorithm, key)
    # No state looks like the expert's, and ν is zero: e = r < -1 everywhere.
    nets = jax.tree.map(jnp.zeros_like, nets)._replace(r=lambda rows: jnp.full(len(rows), -5.0))
    rows = data.offline.take(np.arange(80))
    log_w = algorithm.log_weights(nets, jax.tree.map(jnp.asarray, rows))
    assert (log_w == -jnp.inf).all()
    np.testing.assert_array_equal(shares(np.asarray(log_w, np.float64)), 0)


def test_an_episode_weighs_what_its_rows_weigh():
    """Ten steps each. Ends have no weight here."""
    offline = noise(80)
    data = prepare(noise(40, seed=1), offline)
    weights = np.arange(1.0, 81.0)
    found = episode_weights(weights, data, len(offline))
    np.testing.assert_array_equal(found, weights.reshape(8, 10).sum(1))


def test_what_has_no_weights_or_no_episodes_says_so(key):
    with pytest.raises(LobsDICEError, match="BC does not weigh the offline data"):
        row_weights(BC(**SIZE), started(BC(**SIZE), key), noise_data())
    with pytest.raises(LobsDICEError, match="does not say which episode"):
        episode_weights(np.ones(80), replace(noise_data(), episode=None), 8)


# ---- Measures ----


@pytest.mark.parametrize("gamma", [0.5, 0.99, 1.0])
def test_the_flow_residual_is_zero_for_what_the_environment_can_do(gamma, key):
    leave = np.array([[0.7, 0.3], [0.3, 0.7]])
    start = np.array([0.9, 0.1])
    if gamma < 1:
        d = (1 - gamma) * np.linalg.inv(np.eye(2) - gamma * leave.T) @ start
    else:
        d = np.array([0.5, 0.5])
    rows = (np.repeat([0, 1], [9, 1]), *(x.ravel() for x in np.indices((2, 2))))
    init, s, s_next = (jnp.asarray(x, float)[:, None] for x in rows)
    offline = seven_rows(key)[0].offline._replace(s=s, s_next=s_next)
    batch = seven_rows(key)[0]._replace(init=init, offline=offline)
    assert flow_residual(jnp.asarray((d[:, None] * leave).ravel()), batch, gamma) < 1e-7
    other = jnp.asarray(((d * [1.2, 0.8])[:, None] * leave).ravel())
    assert flow_residual(other, batch, gamma) > 0.01


def test_a_discrepancy_is_that_of_the_gaussian_kernel():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 0.5
    points, mass = np.vstack([x, y]), np.repeat([1, -1], 200) / 200
    squares = ((points[:, None] - points) ** 2).sum(-1)
    exact = np.sqrt(mass @ np.exp(-squares / (2 * 3)) @ mass)
    assert discrepancy(jnp.asarray(points), jnp.asarray(mass)) == pytest.approx(exact, rel=0.2)
    assert discrepancy(jnp.asarray(points), 0 * jnp.asarray(mass)) == 0


def test_weights_are_summed_up(key):
    batch, _ = seven_rows(key)
    rows = batch.offline
    policy = started(LobsDICE(**SIZE), key).policy
    one = weight_measures(jnp.eye(7)[2], policy, batch, 0.9, key)
    assert one["effective_share"] == pytest.approx(1 / 7) and one["largest_share"] == 1
    np.testing.assert_allclose(one["action_error"], policy.error(rows.s, rows.a)[2])
    even = weight_measures(jnp.full(7, 1 / 7), policy, batch, 0.9, key)
    assert even["effective_share"] == pytest.approx(1)
    assert even["largest_share"] == pytest.approx(1 / 7)
    assert expert_distance(jnp.full(7, 1 / 7), rows, pairs(rows)) < 1e-7
    assert expert_distance(jnp.full(7, 1 / 7), rows, pairs(batch.expert)) > 0.01
    obeyed = rows._replace(a=policy.sample(rows.s, key))
    assert policy_distance(jnp.full(7, 1 / 7), policy, obeyed, key) < 1e-7 < even["policy_distance"]


def test_the_mass_of_each_source_is_that_of_its_rows():
    w = jnp.array([0.1, 0.2, 0.3, 0.4])
    found = masses(w, jnp.array([1, 0, 1, 1]), ("good", "bad", "absent"))
    expected = {"mass_good": 0.2, "mass_bad": 0.8, "mass_absent": 0.0}
    assert {k: float(v) for k, v in found.items()} == pytest.approx(expected)
    assert masses(w, jnp.zeros(4, int), ("all",)) == {}


def sourced(rows: int, names: tuple[str, ...]):
    """Noise of so many rows, of which the sources take turns."""
    data = prepare(noise(rows, seed=1), noise(rows), allow_leak=True)
    return replace(data, source=np.arange(rows) % len(names), source_names=names)


@pytest.mark.parametrize("discrete", [False, True], ids=["box", "finite"])
def test_inferred_actions_are_those_of_recordings_that_move_alike(discrete):
    """The action moves the first number of the state, and nothing moves the others."""
    rng = np.random.default_rng(0)
    data = noise_data(discrete=discrete)
    s = rng.normal(size=(80, 3)).astype(np.float32)
    s_next = s.copy()
    s_next[:, 0] += data.offline.a.reshape(80, -1)[:, 0]
    order = rng.permutation(80)
    data = replace(
        data,
        offline=store(Transitions(s, data.offline.a, s_next)),
        expert=store(Observations(s[order], s_next[order])),
    )
    inferred = infer_actions(data)
    which = np.arange(1024) * 80 // 1024  # evenly spaced, over and over
    np.testing.assert_array_equal(inferred.s, s[order][which])
    np.testing.assert_array_equal(inferred.a, data.offline.a[order][which])


def test_a_nearer_state_does_not_make_up_for_another_movement():
    data = noise_data()
    s = np.zeros((80, 3), np.float32)
    s[1::2, 0] = 0.3
    moves = np.zeros_like(s)
    moves[::2, 1], moves[1::2, 1] = 0.1, -0.1  # small beside the states, but all that differs
    shown = store(Observations(s[:2], s[:2] + moves[1::-1]))
    logged = store(Transitions(s, data.offline.a, s + moves))
    data = replace(data, offline=logged, expert=shown)
    taken = np.asarray(infer_actions(data).a)
    assert np.isin(taken[0], data.offline.a[1::2]).all()
    assert np.isin(taken[-1], data.offline.a[::2]).all()


def test_runs_are_diagnosed_on_rows_apart_and_on_sources_by_name():
    datas = [sourced(1100, ("a", "b")), sourced(2000, ("b", "c"))]
    held, names = hold_out([(data, 0.0) for data in datas])
    assert names == ("a", "b", "c")
    apart = [held_out_rows(len(data.offline.s)) for data in datas]
    assert held.batch.offline.s.shape[:2] == (2, len(apart[0]))  # as many as the smaller one has
    for i, (data, rows) in enumerate(zip(datas, apart, strict=True)):
        found = numbers(data.offline.s, held.batch.offline.s[i])
        assert np.isin(found, rows).all() and len(set(found)) == len(found)
        named = [names[number] for number in np.asarray(held.source[i])]
        assert named == [data.source_names[number] for number in data.source[found]]
        seen = numbers(data.offline.s, held.trained.rows.s[i])
        assert not np.isin(seen, [-1, *rows]).any() and len(set(seen)) == len(seen)
        named = [names[number] for number in np.asarray(held.trained.source[i])]
        assert named == [data.source_names[number] for number in data.source[seen]]
    assert len(np.unique(held.shown[0], axis=0)) == 1100  # all demonstrations
    everything, _ = hold_out([(datas[0], 0.0)], apart=False)
    np.testing.assert_array_equal(everything.batch.offline.s[0], datas[0].offline.s)


def test_discriminators_see_held_out_rows_blurred_as_in_training():
    data = sourced(600, ("a", "b"))
    noise = np.array([0.0, 0.5, 0.0], np.float32)
    datas = (data, replace(data, blur=noise))
    cases = [(data, 0.0) for data in datas]
    assert hold_out(cases[:1])[0].batch.blur is None
    blur = np.asarray(hold_out(cases)[0].batch.blur)
    np.testing.assert_array_equal(blur, [0 * noise, noise])
    fleet = Fleet(tuple(Member(LobsDICE(**SIZE), 0, i) for i in range(2)), datas)
    loss = fleet.diagnosis()(fleet.begin())["held_out_ratio_loss"]
    assert loss[0] != loss[1]


def test_the_held_out_dual_is_that_of_the_rows_apart_and_zero_if_logs_are_demonstrations():
    algorithm = LobsDICE(averaged=False, blur=0.0, ratio_floor=0.0, **SIZE)
    data = prepare(noise(1100, seed=1, ended=0), noise(1100, ended=0))
    fleet = Fleet((Member(algorithm),), (data,))
    state = fleet.begin()
    nets = jax.tree.map(lambda x: x[0], state.nets)
    diagnosis = fleet.diagnosis()
    found = float(diagnosis(state)["held_out_nu_loss"][0])
    rows = jax.tree.map(jnp.asarray, data.offline.take(held_out_rows(1100)))
    r = nets.r(jnp.concatenate([rows.s, rows.s_next], axis=1))
    e = np.asarray(r + algorithm.gamma * nets.nu(rows.s_next) - nets.nu(rows.s), np.float64)
    held, _ = hold_out([(data, 0.0)])
    first = (1 - algorithm.gamma) * np.mean(nets.nu(held.batch.init[0]))
    power = 1 + algorithm.alpha
    expected = float(first) + power * np.log(np.mean(np.exp(e / power)))
    assert found == pytest.approx(expected, abs=1e-4)
    # Logs that are demonstrations have the ratio 1. Both divergences are 0 then, and so is the
    # least value of the dual, which a constant ν reaches.
    nothing = jax.tree.map(jnp.zeros_like, state.nets)
    state = state._replace(nets=state.nets._replace(r=nothing.r, nu=nothing.nu))
    assert float(diagnosis(state)["held_out_nu_loss"][0]) == pytest.approx(0, abs=1e-6)


def ending(rows: int, **options):
    """Noise in episodes of ten steps, all of which terminate, in one order of two sources."""
    offline = replace(noise(rows), terminated=np.ones(rows // 10, bool))
    shown = replace(noise(rows, seed=1), terminated=np.ones(rows // 10, bool))
    data = prepare(shown, offline, labelled=shown, allow_leak=True, **options)
    first, second = np.zeros(rows // 2, int), np.ones(rows // 2, int)
    source = np.concatenate([first, second])
    ends = data.ends and data.ends._replace(source=source[::10])
    return replace(data, source=source, source_names=("a", "b"), ends=ends)


def test_weights_are_measured_on_rows_of_training_as_well():
    """On all rows if none is held out."""
    data = sourced(600, ("a", "b"))
    options = Options(steps=1, hold_out=False, terminal="keep")
    fleet = make_fleet(LobsDICE(**SIZE), data, 1, options)
    found = fleet.diagnosis()(fleet.begin())
    for name in ("effective_share", "mass_a", "mass_b"):
        np.testing.assert_allclose(found[f"trained_{name}"], found[name])


def numbers(states, found) -> np.ndarray:
    """The place of each found state among the states, -1 if it is not among them."""
    where = {row.tobytes(): number for number, row in enumerate(states)}
    return np.array([where.get(np.asarray(row).tobytes(), -1) for row in found])


@pytest.mark.parametrize("apart", [True, False], ids=["held out", "all"])
@pytest.mark.parametrize(("mass", "restart"), [(1.0, True), (9.0, False), (0.0, False)])
def test_ends_have_their_due_share_among_the_rows_that_runs_are_measured_on(mass, restart, apart):
    data = ending(6000, every=2)
    assert data.ends is not None
    held, names = hold_out([(data, mass)], restart=restart, apart=apart)
    batch = jax.tree.map(lambda x: np.asarray(x)[0], held.batch)
    shown = np.split(np.asarray(held.shown[0]), 2, axis=1)
    parts = {
        "expert": (batch.expert, 3000, 0.5 * mass, data.ends.expert),
        "offline": (batch.offline, 6000, mass, data.ends.offline),
        "labelled": (batch.labelled, 3000, 0.5 * mass, data.ends.labelled),
        "shown": (Observations(*shown), 3000, 0.5 * mass, data.ends.expert),
    }
    for name, (rows, steps, each, ends) in parts.items():
        found = numbers(ends, rows.s)
        ended = found >= 0
        share = each * 600 / (each * 600 + steps)
        assert abs(ended.sum() - share * len(ended)) <= 0.5, name
        if apart and name in ("expert", "offline"):
            assert np.isin(found[ended], held_out_rows(600)).all(), name
        if restart:
            assert (numbers(data.init, rows.s_next[ended]) >= 0).all(), name
        else:
            np.testing.assert_array_equal(rows.s_next[ended], rows.s[ended])
        if name in ("offline", "labelled"):
            np.testing.assert_array_equal(np.isnan(rows.a).all(axis=1), ended)
    np.testing.assert_array_equal(
        batch.expert_ended, numbers(data.ends.expert, batch.expert.s) >= 0
    )
    ended = numbers(data.ends.offline, batch.offline.s)
    expected = [names[data.ends.source[i]] for i in ended if i >= 0]
    assert [names[i] for i in np.asarray(held.source[0])[ended >= 0]] == expected


def test_restarts_are_from_all_initial_states_whatever_the_end():
    """Logs of two sources, which start apart."""
    data = ending(6000)
    held, _ = hold_out([(data, 1.0)], restart=True, apart=False)
    rows = jax.tree.map(lambda x: np.asarray(x)[0], held.batch.offline)
    ended = np.isnan(rows.a).all(axis=1)
    source = np.asarray(held.source[0])[ended]
    late = numbers(data.init, rows.s_next[ended]) >= 300
    assert late.mean() == pytest.approx(0.5, abs=0.01)
    assert late[source == 0].mean() == pytest.approx(0.5, abs=0.1)


def test_rows_without_an_action_do_not_count_in_measures_of_actions(key):
    """Nor do they make the policy look better."""
    batch, _ = seven_rows(key)
    policy = started(LobsDICE(**SIZE), key).policy
    known = jnp.arange(7) < 4
    a = jnp.where(known[:, None], batch.offline.a, jnp.nan)
    mixed = batch._replace(offline=batch.offline._replace(a=a))
    few = batch._replace(offline=jax.tree.map(lambda x: x[:4], batch.offline))
    ours = weight_measures(jnp.full(7, 1 / 7), policy, mixed, 0.9, key)
    error = policy.error(few.offline.s, few.offline.a).mean()
    np.testing.assert_allclose(ours["action_error"], error)
    even = jnp.where(known, 1 / 4, 0.0)
    distance = policy_distance(even, policy, batch.offline, key)
    np.testing.assert_allclose(ours["policy_distance"], distance)
    assert ours["effective_share"] == pytest.approx(1)
    nowhere = weight_measures(jnp.eye(7)[6], policy, mixed, 0.9, key)
    assert nowhere["action_error"] == nowhere["policy_distance"] == 0

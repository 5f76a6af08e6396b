"""The draw of batches: whose rows, how often, and what follows an end."""

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import ending_world, noise, noise_data

from lobsdice.algorithms import ALGORITHMS, BC, BCO, LobsDICE
from lobsdice.algorithms.base import Defaults, hyperparameters
from lobsdice.algorithms.networks import lacking
from lobsdice.algorithms.scored import Scored
from lobsdice.data.episodes import Episodes
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.prepare import Data, Ends, prepare
from lobsdice.data.spaces import Box, Discrete
from lobsdice.data.steps import Observations, Transitions, store
from lobsdice.training.diagnostics import hold_out
from lobsdice.training.draws import (
    DIVIDED,
    PERIOD,
    draw_batch,
    end_counts,
    end_mass,
    end_share,
    held_out_count,
    held_out_rows,
    learned_rows,
    numbers,
    pack,
)
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet, iterate

READINGS = ("restart", "stay", "keep")
GAMMA = 0.9
#: The mass of an end where that of a step is 1.
MASS = {"restart": 1.0, "stay": GAMMA / (1 - GAMMA), "keep": 0.0}
#: The first states of rows: of steps, of ends and of initial states. All rows differ.
STEP, END, INIT = 0, 10_000, 20_000


def numbered(
    steps: int, ends: int, *, starts: int = 5, every: int = 1, offset: int = 0, discrete=False
) -> Data:
    """Data whose every state says which row it belongs to, the same in all parts."""

    def states(kind: int, count: int) -> np.ndarray:
        return np.arange(count, dtype=np.float32)[:, None] + kind + offset

    s, final = states(STEP, steps), states(END, ends)
    actions = np.zeros(steps, np.int64) if discrete else np.zeros((steps, 2), np.float32)
    rows = store(Transitions(s, actions, s + 0.5))
    return Data(
        init=states(INIT, starts),
        expert=store(Observations(s, s + 0.5)),
        offline=rows,
        normaliser=Normaliser(np.zeros(1, np.float32), np.ones(1, np.float32)),
        action_space=Discrete(2) if discrete else Box((-1.0,) * 2, (1.0,) * 2),
        source=np.zeros(steps, np.int64),
        source_names=("offline",),
        labelled=rows,
        ends=Ends(final, final, np.zeros(ends, np.int64), final),
        every=every,
    )


def drawn(
    data: Data | list[Data], which: int = 0, *, n: int = 40_000, terminal: Any = "restart", **more
) -> Any:
    """A large batch of one of the datasets, in plain NumPy."""
    pool, slices = pack(data if isinstance(data, list) else [data])
    mine = jax.tree.map(lambda x: x[which], slices)
    mass = end_mass(LobsDICE(gamma=GAMMA), terminal)
    more = {"end_mass": mass, "restart": terminal == "restart"} | more
    return jax.tree.map(np.asarray, draw_batch(jax.random.key(0), pool, mine, n, **more))


def whole(part) -> Any:
    return part.take(np.arange(part.size))


def assert_frequencies(found: np.ndarray, expected: dict[int, float]) -> None:
    """The numbers have these frequencies, by a χ² test at five standard deviations."""
    values, counts = np.unique(found, return_counts=True)
    possible = {value: share for value, share in expected.items() if share > 0}
    assert {*values} <= {*possible}
    count = dict(zip(values, counts, strict=True))
    mean = len(found) * np.array([*possible.values()])
    assert mean.sum() == pytest.approx(len(found))
    freedom = len(mean) - 1
    chi2 = ((np.array([count.get(v, 0) for v in possible]) - mean) ** 2 / mean).sum()
    assert chi2 < freedom + 5 * np.sqrt(2 * freedom)


def even(first: int, count: int) -> dict[int, float]:
    return {first + i: 1 / count for i in range(count)}


# ---- Whose rows ----


def test_batches_hold_rows_of_the_runs_own_data_only(key):
    datas = [noise_data(seed=seed) for seed in range(2)]
    pool, slices = pack(datas)
    for i, data in enumerate(datas):
        batch = draw_batch(key, pool, jax.tree.map(lambda x, i=i: x[i], slices), 500)
        parts = {
            "init": (np.asarray(batch.init), data.init),
            "expert": (np.hstack(batch.expert), np.hstack(whole(data.expert))),
            "offline": (np.hstack(batch.offline), np.hstack(whole(data.offline))),
            "labelled": (np.hstack(batch.labelled or ()), np.hstack(whole(data.labelled))),
        }
        assert len(batch.init) == 125  # a quarter
        for name, (rows, owned) in parts.items():
            found = (rows[:, None] == owned[None]).all(axis=2)
            assert found.any(axis=1).all(), name  # each is a row of the data, whole
            assert_frequencies(found.argmax(axis=1), even(0, len(owned)))


@pytest.mark.parametrize("size, expected", [(511, []), (512, range(480, 512)), (1500, None)])
def test_rows_are_held_out_in_blocks_and_never_drawn(size, expected):
    """Of steps and of ends alike, in the middle of a pool, too; of labelled rows none."""
    if expected is None:
        expected = [*range(480, 512), *range(992, 1024)]
    others = sorted({*range(size)} - {*expected})
    batch = drawn([numbered(700, 3), numbered(700, size)], 1, hold_out=True)
    share = size / (size + 700)
    steps = [i for i in range(700) if not 480 <= i < 512]
    expected_share = {STEP + i: (1 - share) / len(steps) for i in steps}
    expected_share |= {END + i: share / len(others) for i in others}
    for part in (batch.expert, batch.offline):
        assert_frequencies(part.s[:, 0], expected_share)
    everything = {STEP + i: 1 / (size + 700) for i in range(700)}
    everything |= {END + i: 1 / (size + 700) for i in range(size)}
    assert_frequencies(batch.labelled.s[:, 0], everything)
    np.testing.assert_array_equal(held_out_rows(size), expected or range(size))
    np.testing.assert_array_equal(learned_rows(size), others)
    assert held_out_count(jnp.array([size])) == len(expected)


# ---- How often ----


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("terminal", READINGS)
def test_ends_are_drawn_as_often_as_their_mass_says(terminal, every):
    """1 for a step. Where only each n-th step of demonstrations is left, an end counts 1/n."""
    steps, ends = 60, 12
    batch = drawn(numbered(steps, ends, every=every), terminal=terminal)
    parts = [(batch.expert, every), (batch.offline, 1), (batch.labelled, every)]
    for rows, kept in parts:
        mass = MASS[terminal] / kept
        total = steps + mass * ends
        expected = {STEP + i: 1 / total for i in range(steps)}
        expected |= {END + i: mass / total for i in range(ends)}
        assert_frequencies(rows.s[:, 0], expected)
    assert_frequencies(batch.init[:, 0], even(INIT, 5))
    np.testing.assert_array_equal(batch.expert_ended, batch.expert.s[:, 0] >= END)


@pytest.mark.parametrize("terminal", READINGS)
def test_pairs_of_states_are_drawn_as_the_exact_methods_count_them(terminal):
    """Recorded episodes, some of them truncated, and `tabular.estimate` with uniform rows."""
    world = ending_world(terminal, slip=0.3)
    batch = drawn(world.data, terminal=terminal)
    for rows, table in [(batch.expert, world.d_expert), (batch.offline, world.d_pairs)]:
        number = 9 * rows.s.argmax(1) + rows.s_next.argmax(1)
        assert_frequencies(number, dict(enumerate(table.ravel())))


def test_truncated_episodes_add_nothing():
    """Two episodes, of which the second one terminated."""
    offline = noise(20)
    ended = replace(offline, terminated=np.array([False, True]))
    data = prepare(replace(noise(20, seed=1), terminated=np.array([False, False])), ended)
    assert end_counts(data)[1:3] == [(20, 0, 1.0), (20, 1, 1.0)]
    batch = drawn(data, n=2000)
    assert not batch.expert_ended.any()
    final = data.normaliser(ended.observations[ended.ends])
    left = (batch.offline.s[:, None] == final[None]).all(axis=2).any(axis=0)
    assert left.tolist() == [False, True]
    assert (batch.expert.s[:, None] == data.expert.s[None]).all(axis=2).any(axis=1).all()


@pytest.mark.parametrize("terminal", READINGS)
def test_data_without_ends_is_drawn_alike_whatever_the_reading(terminal):
    data = numbered(60, 0)
    for other in (data, replace(data, ends=None)):
        batch, plain = (drawn(other, n=100, terminal=x) for x in (terminal, "keep"))
        assert jax.tree.all(jax.tree.map(np.array_equal, batch, plain))


def test_the_mass_of_an_end_is_that_of_the_flow():
    """A process that stays with probability γ is γ/(1-γ) times as long at an end as it entered."""
    assert [end_mass(LobsDICE(gamma=0.99), x) for x in READINGS] == [1, pytest.approx(99), 0]
    assert end_mass(LobsDICE(gamma=1.0), "restart") == 1
    np.testing.assert_allclose(end_share(60, 12, 9.0), 108 / 168)
    assert end_share(60, 0, 9.0) == end_share(0, 0, 9.0) == 0


# ---- What follows ----


@pytest.mark.parametrize("which", [0, 1])
def test_restart_leads_to_the_initial_states_of_the_same_data(which):
    starts, offset = [7, 4], [0, 1000]
    datas = [numbered(60, 12, starts=n, offset=x) for n, x in zip(starts, offset, strict=True)]
    batch = drawn(datas, which)
    for rows in (batch.expert, batch.offline, batch.labelled):
        ended = rows.s[:, 0] >= END
        assert_frequencies(rows.s_next[ended, 0], even(INIT + offset[which], starts[which]))
        np.testing.assert_array_equal(rows.s_next[~ended], rows.s[~ended] + 0.5)
    # Each part has starts of its own.
    both = (batch.expert.s[:, 0] >= END) & (batch.offline.s[:, 0] >= END)
    assert (batch.expert.s_next[both] != batch.offline.s_next[both]).any()


def test_stay_leads_to_the_end_itself():
    batch = drawn(numbered(60, 12), terminal="stay")
    for rows in (batch.expert, batch.offline, batch.labelled):
        ended = rows.s >= END
        np.testing.assert_array_equal(rows.s_next, rows.s + np.where(ended, 0, 0.5))


@pytest.mark.parametrize("terminal", ["restart", "stay"])
@pytest.mark.parametrize("discrete", [False, True], ids=["box", "finite"])
def test_ends_have_no_action_and_steps_keep_theirs(discrete, terminal):
    batch = drawn(numbered(60, 12, discrete=discrete), terminal=terminal)
    for rows in (batch.offline, batch.labelled):
        ended = rows.s[:, 0] >= END
        missing = rows.a == -1 if discrete else np.isnan(rows.a).all(axis=1)
        np.testing.assert_array_equal(missing, ended)
        np.testing.assert_array_equal(lacking(jnp.asarray(rows.a)), ended)
        assert (rows.a[~ended] == 0).all()


# ---- In training ----


class Nets(NamedTuple):
    policy: Any


@hyperparameters
class Witness(Defaults):
    """Logs the shares of ends among the rows, and of those that restart and stay."""

    goes_on: ClassVar = True
    gamma: float = GAMMA
    penalty_every: int = 1

    def init(self, key, state_size, space):
        return Nets(jnp.float32(1.0))

    def loss(self, nets, batch, key, *, penalised):
        assert batch.expert_ended is not None
        rows = batch.offline
        follows = {
            "offline": lacking(rows.a),
            "expert": batch.expert_ended,
            "restarted": lacking(rows.a) & (rows.s_next[:, 0] >= INIT),
            "stayed": lacking(rows.a) & (rows.s_next == rows.s)[:, 0],
        }
        return nets.policy, {name: jnp.mean(x, dtype=float) for name, x in follows.items()}

    def rates(self, step):
        return Nets(0.0)


@hyperparameters
class Blind(Witness):
    """An algorithm that does not need to know what follows an end."""

    goes_on: ClassVar = False


def witnessed(terminal, *members, steps=20, batch_size=500) -> dict[str, np.ndarray]:
    """What runs on two datasets with different shares of ends see of them."""
    options = Options(steps=steps, batch_size=batch_size, terminal=terminal)
    members = tuple(replace(m, options=options) for m in members)
    fleet = Fleet(members, (numbered(60, 12, every=2), numbered(60, 30)))
    (now,) = iterate(fleet, every=steps)
    return now.metrics


@pytest.mark.parametrize("terminal", READINGS)
def test_a_run_sees_ends_as_its_reading_its_data_and_its_discount_say(terminal):
    runs = [(0, 0.5), (0, 0.9), (1, 0.9)]
    seen = witnessed(terminal, *(Member(Witness(gamma=gamma), data=i) for i, gamma in runs))
    for run, (data, gamma) in enumerate(runs):
        mass = {"restart": 1, "stay": gamma / (1 - gamma), "keep": 0}[terminal]
        ends, every = [(12, 2), (30, 1)][data]
        shares = {"offline": mass * ends / (mass * ends + 60)}
        shares["expert"] = mass * ends / every / (mass * ends / every + 60)
        shares["restarted"] = shares["offline"] if terminal == "restart" else 0
        shares["stayed"] = shares["offline"] if terminal == "stay" else 0
        for name, share in shares.items():
            deviation = np.sqrt(share * (1 - share) / 10_000)
            assert abs(seen[name][run] - share) <= 5 * deviation, name


@pytest.mark.parametrize("terminal", READINGS)
def test_algorithms_that_do_not_go_on_never_see_an_end(terminal):
    seen = witnessed(terminal, Member(Blind()), steps=2)
    assert all((share == 0).all() for share in seen.values())


def test_which_algorithms_go_on():
    """Cloning alone does not need to know what follows. Scores note it with each step."""
    others = {kind for kind in ALGORITHMS.values() if not kind.goes_on}
    assert {kind for kind in others if not issubclass(kind, Scored)} == {BC, BCO}
    assert end_mass(BC(), "stay") == end_mass(BCO(), "restart") == 0


def test_rows_apart_are_the_held_out_ones_where_there_are_some():
    n = 3 * PERIOD + 500
    size = jnp.array([10, n, 100, 5])
    number = np.asarray(numbers(jax.random.key(0), size, DIVIDED, 4096, apart=True))
    assert set(number[1]) == set(held_out_rows(n))
    assert number[2].max() == 99  # too few rows to hold any out: all serve


# ---- Three states in a row ----


def recorded_in_a_row(lengths, terminated) -> Any:
    """Episodes whose states are numbered one after the other, not normalised."""
    states = int(np.sum(lengths)) + len(lengths)
    return Episodes.from_arrays(
        np.arange(states)[:, None],
        lengths=lengths,
        actions=np.zeros(int(np.sum(lengths)), np.int64),
        action_space=Discrete(2),
        terminated=terminated,
    )


#: A terminated, a truncated and a short terminated episode: states 0-3, 4-7 and 8-9.
LENGTHS, TERMINATED = [3, 3, 1], [True, False, True]


@pytest.mark.parametrize("terminal", READINGS)
def test_the_third_state_is_that_of_the_recording_or_what_follows_the_end(terminal):
    episodes = recorded_in_a_row(LENGTHS, TERMINATED)
    data = prepare(episodes, episodes, allow_leak=True)
    pool, slices = pack([data, data])  # the second one's rows come later in the pool
    mine = jax.tree.map(lambda x: x[1], slices)
    options = {"end_mass": MASS[terminal], "restart": terminal == "restart"}
    batch = draw_batch(jax.random.key(0), pool, mine, 400, ahead=terminal, **options)

    def number(x):
        found = np.asarray(x)[:, 0] * data.normaliser.scale[0] + data.normaliser.mean[0]
        return np.round(found).astype(int)

    starts, seen = {0, 4, 8}, set()
    for rows, after in ((batch.expert, batch.after_expert), (batch.offline, batch.after_offline)):
        assert after is not None
        for s, s_next, third, goes_on, known in zip(
            number(rows.s), number(rows.s_next), number(after.s), *after[1:], strict=True
        ):
            seen.add((int(s), bool(known)))
            assert known == (s_next != 7)
            assert goes_on == (terminal != "keep" or s_next not in (3, 9))
            if s in (3, 9):  # a row after an end
                aims = {s_next + 1} if terminal == "restart" else {s}
                assert s_next in (starts if terminal == "restart" else {s})
            elif s_next in (3, 9):  # the episode terminates
                aims = starts if terminal == "restart" else {s_next}
            else:
                aims = {s_next + (s_next != 7)}
            assert third in aims
    assert {(2, True), (8, True), (6, False)} <= seen
    assert terminal == "keep" or {(3, True), (9, True)} <= seen


def test_what_is_measured_has_the_same_third_states():
    episodes = recorded_in_a_row(LENGTHS, TERMINATED)
    data = prepare(episodes, episodes, allow_leak=True)
    held, _ = hold_out([(data, 1.0)], restart=True, ahead="restart")
    batch = jax.tree.map(lambda x: x[0], held.batch)
    rows, after = batch.offline, batch.after_offline
    ended = lacking(rows.a)
    table = dict(zip(data.offline.s[:, 0], data.offline.s_next[:, 0], strict=True))
    assert ended.any()
    for s_next, third in zip(rows.s_next[ended, 0], after.s[ended, 0], strict=True):
        assert third == table[np.float32(s_next)]


def test_demonstrations_with_gaps_do_not_say_how_they_go_on():
    assert noise_data(every=2).ahead is None and noise_data().ahead is not None

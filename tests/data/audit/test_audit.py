"""Results of the audit for data whose answer is known."""

from dataclasses import replace

import numpy as np
import pytest

import lobsdice as ld
from lobsdice.data.audit import Discrimination, audit, judge
from lobsdice.data.audit.advice import advise
from lobsdice.data.audit.coverage import Coverage, cover, groups, parts
from lobsdice.data.audit.discriminator import discriminate, fit
from lobsdice.data.audit.facts import facts
from lobsdice.data.audit.rate import Rate, compare_rates
from lobsdice.data.episodes import Episodes, concatenate
from lobsdice.data.neighbours import SPARSE, nearest, spacings
from lobsdice.data.normaliser import fit_normaliser
from lobsdice.data.prepare import observations
from lobsdice.errors import LobsDICEError


def walks(count: int, *, seed: int, length: int = 60, width: int = 3) -> Episodes:
    """Noisy loops that start anywhere: different episodes visit the same places."""
    random = np.random.default_rng(seed)
    time = random.uniform(0, 2 * np.pi, (count, 1)) + np.arange(length + 1) * 0.2
    angles = time[..., None] + np.arange(width)
    rows = np.sin(angles) + 0.05 * random.normal(size=angles.shape)
    return Episodes.from_arrays(
        rows.reshape(-1, width),
        lengths=[length] * count,
        actions=random.uniform(-1, 1, (count * length, 1)),
    )


def moved(episodes: Episodes, rows: slice, by: float = 5.0) -> Episodes:
    observations = episodes.observations.copy()
    observations[rows] += by
    return replace(episodes, observations=observations)


@pytest.fixture(scope="module")
def offline() -> Episodes:
    return walks(40, seed=0)


def brute(queries, points, query_groups=None, point_groups=None):
    distances = np.linalg.norm(queries[:, None].astype(float) - points[None], axis=2)
    if query_groups is not None and point_groups is not None:
        distances[query_groups[:, None] == point_groups[None]] = np.inf
    return distances


def test_an_expert_inside_the_cloud_is_covered(offline):
    found = audit(walks(4, seed=1), offline)
    assert found.verdict == "covered" and not found.warns
    assert found.uncovered_share < 0.1
    assert found.discrimination.auc < 0.7
    assert sum(found.sources.values()) == pytest.approx(1)
    assert sum(support.transitions for support in found.closest) == 240


def test_methods_are_advised_unless_the_logs_lack_what_is_shown(offline):
    """One that looks along episodes only where these are long enough; each is an algorithm."""
    from lobsdice.algorithms import ALGORITHMS

    names = advise("partly covered", offline, uncovered=0.2).methods
    assert names == ["lobsdice", "nearest_trajectory"] and set(names) <= set(ALGORITHMS)
    assert advise("covered", walks(40, seed=0, length=5), uncovered=0.0).methods == ["lobsdice"]
    mostly = advise("partly covered", offline, uncovered=0.6)
    assert mostly.methods == names and "hardly show" in mostly.reason
    nothing = advise("not covered", offline, uncovered=0.95)
    assert nothing.methods == [] and nothing.sentence.startswith("none: no method learns")
    ended = replace(offline, terminated=np.ones(len(offline), bool))
    assert "worlds that end" in advise("covered", ended, uncovered=0.0).reason
    goals = np.repeat(np.arange(len(offline)), offline.lengths + 1)  # one for each episode
    aiming = np.concatenate([offline.observations, goals[:, None]], axis=1, dtype=np.float32)
    advice = advise("covered", replace(offline, observations=aiming), uncovered=0.0)
    assert advice.methods == ["lobsdice"] and "its own goal" in advice.reason


def test_a_single_transition_cannot_be_audited(offline):
    single = walks(1, seed=1, length=1)
    with pytest.raises(LobsDICEError, match="the demonstrations have only one transition"):
        audit(single, offline)
    with pytest.raises(LobsDICEError, match="the offline data has only one transition"):
        audit(walks(4, seed=1), single)


def test_an_expert_elsewhere_is_not_covered(offline):
    expert = walks(4, seed=1)
    found = audit(moved(expert, slice(None)), offline)
    assert (found.verdict, found.uncovered_share) == ("not covered", 1.0)
    assert found.discrimination.auc > 0.999 and found.discrimination.lookalikes == 0
    assert [(p.first_step, p.last_step) for p in found.uncovered] == [(0, 59)] * 4


def test_exactly_the_part_that_was_moved_away_is_reported(offline):
    expert = walks(4, seed=1)
    # Observation 30 of episode 1 is the first that is moved: step 29 enters it.
    found = audit(moved(expert, slice(61 + 30, 61 + 61)), offline)
    longest = found.uncovered[0]
    assert (longest.episode, longest.first_step, longest.last_step) == (1, 29, 59)
    assert all(part.last_step - part.first_step < 5 for part in found.uncovered[1:])
    assert found.verdict == "partly covered"


def test_a_time_reversed_expert_is_less_covered(offline):
    expert = walks(4, seed=1)
    backwards = expert.observations.reshape(4, 61, 3)[:, ::-1].reshape(-1, 3)
    reversed_ = replace(expert, observations=np.ascontiguousarray(backwards))
    assert audit(reversed_, offline).uncovered_share > 0.9


def test_units_and_the_order_of_features_do_not_matter(offline):
    expert = moved(walks(4, seed=1), slice(61 + 30, 61 + 61))
    scale, order = np.array([1000.0, 3.0, 50.0], np.float32), [2, 0, 1]
    twin = [
        replace(x, observations=np.ascontiguousarray((x.observations * scale + 7)[:, order]))
        for x in (expert, offline)
    ]
    before, after = audit(expert, offline), audit(*twin)
    assert after.verdict == before.verdict
    # The 0.001 that normalisation adds to deviations is all that depends on the units.
    np.testing.assert_allclose(after.coverage.ratio, before.coverage.ratio, rtol=0.05)


def test_repeated_offline_episodes_change_nothing_but_are_counted(offline):
    expert = walks(4, seed=1)
    twice = audit(expert, concatenate([offline, offline]))
    assert twice.offline["repeated_episodes"] == 40
    assert twice.verdict == "covered"
    once = audit(expert, offline)
    assert abs(twice.uncovered_share - once.uncovered_share) < 0.03


def test_a_leak_is_counted_and_warned_of(offline):
    found = audit(concatenate([walks(3, seed=1), offline.first(1)]), offline)
    assert (found.verdict, found.leaked, found.warns) == ("covered", 60, True)


def test_other_units_are_mended_before_other_logs_are_recorded(offline):
    metres = walks(4, seed=1)
    millimetres = replace(metres, observations=1000 * metres.observations)
    assert "first bring both to the same units" in audit(millimetres, offline).advice.sentence


def test_an_audit_is_shown_in_a_few_lines(offline):
    shown = repr(audit(concatenate([walks(3, seed=1), offline.first(1)]), offline)).splitlines()
    assert shown[:2] == [
        "Audit",
        "  LEAK: 60 demonstrated transitions occur in the offline data, with their actions",
    ]
    assert shown[-1].startswith("  COVERED: ") and len(shown) < 6


@pytest.mark.parametrize("count", [1, 2])
def test_a_few_long_recordings_are_enough(count):
    offline = walks(count, seed=0, length=2000)
    assert audit(walks(1, seed=1, length=200), offline).verdict == "covered"
    assert audit(moved(walks(1, seed=1), slice(None)), offline).verdict == "not covered"


def test_every_nth_transition_of_long_demonstrations(offline, monkeypatch):
    monkeypatch.setattr("lobsdice.data.audit.coverage.MOST_EXPERT", 100)
    found = audit(moved(walks(4, seed=1, length=61), slice(None)), offline)
    assert found.coverage.every == 3 and len(found.coverage.distance) == 82
    first = [part.first_step for part in found.uncovered]
    assert sorted(first) == [0, 0, 1, 2] and {part.last_step for part in found.uncovered} == {60}


def test_widths_must_agree_and_actions_be_there(offline):
    with pytest.raises(LobsDICEError, match="observations of 4 numbers"):
        audit(walks(1, seed=1, width=4), offline)
    with pytest.raises(LobsDICEError, match="no actions"):
        audit(walks(1, seed=1), offline.without_actions())


def thinned(episodes: Episodes, every: int) -> Episodes:
    """Only every n-th state of each episode, which must be of one length; actions are of no use."""
    states = episodes.observations.reshape(len(episodes), -1, episodes.state_size)[:, ::every]
    return Episodes.from_arrays(
        states.reshape(-1, episodes.state_size), lengths=[states.shape[1] - 1] * len(episodes)
    )


def rate(expert: Episodes, offline: Episodes) -> Rate | None:
    pairs = [
        observations(one, normaliser=fit_normaliser(offline)).pairs for one in (expert, offline)
    ]
    return compare_rates(pairs[0], groups(expert), pairs[1], groups(offline))


@pytest.mark.parametrize("every", [2, 5, 10])
def test_recordings_that_leave_states_out_are_told_by_how_many(offline, every):
    demonstrations = walks(8, seed=1)
    found = rate(thinned(demonstrations, every), offline)
    assert found is not None and (found.demonstrated, found.logged) == (1, every)
    found = rate(demonstrations, thinned(offline, every))
    assert found is not None and (found.demonstrated, found.logged) == (every, 1)


def test_transitions_of_one_rate_are_of_one_rate_however_few_are_kept(offline):
    expert = walks(8, seed=1)
    ends = np.stack([expert.step_rows[::20], expert.step_rows[::20] + 1], axis=1)
    kept = Episodes.from_arrays(expert.observations[ends.ravel()], lengths=[1] * len(ends))
    assert rate(expert, offline) is rate(kept, offline) is None


def test_one_long_recording_of_each_kind_is_enough_to_compare_rates():
    expert, offline = walks(1, seed=1, length=400), walks(1, seed=0, length=2000)
    assert rate(expert, offline) is None
    found = rate(thinned(expert, 2), offline)
    assert found is not None and (found.demonstrated, found.logged) == (1, 2)


def of_one_length(states: np.ndarray) -> Episodes:
    """Episodes from [episode, row, feature]."""
    count, rows, width = states.shape
    return Episodes.from_arrays(states.reshape(-1, width), lengths=[rows - 1] * count)


def circles(count: int, speed: float = 1.0) -> np.ndarray:
    """Positions and speeds, as [episode, row, feature]."""
    random = np.random.default_rng(count)
    turns = 0.05 * speed * random.uniform(0.8, 1.2, (count, 1, 1))
    angle = random.uniform(0, 6, (count, 1, 1)) + turns * np.arange(101)[:, None]
    parts = [np.cos(angle), np.sin(angle), -turns * np.sin(angle), turns * np.cos(angle)]
    return np.concatenate(parts, axis=2)


@pytest.mark.parametrize("speed", [0.5, 2.0, 3.0])
def test_an_expert_that_is_faster_or_slower_is_of_the_same_rate_if_states_hold_speeds(speed):
    """On the same circle: going twice as fast is not leaving out every second state."""
    logs = of_one_length(circles(40))
    assert rate(of_one_length(circles(5, speed)), logs) is None
    assert rate(thinned(of_one_length(circles(5)), 2), logs) is not None


@pytest.mark.parametrize(("times", "noise"), [(2, 0), (5, 0), (5, 1e-4)])
def test_sensors_that_hold_their_values_are_of_one_rate(times, noise):
    def held(count: int) -> Episodes:
        states = np.repeat(circles(count)[..., :2], times, axis=1)
        states += noise * np.random.default_rng(0).normal(size=states.shape)
        return of_one_length(states)

    assert rate(held(5), held(30)) is None


def test_rounded_positions_are_of_one_rate():
    expert, logs = (of_one_length(circles(n)[..., :2].round(1)) for n in (5, 30))
    assert rate(expert, logs) is None
    assert rate(thinned(expert, 2), logs) is not None


def test_walks_on_a_small_grid_are_of_one_rate():
    """Mostly towards the far corner; each of the 25 places is a state."""

    def steps(count: int) -> Episodes:
        random = np.random.default_rng([count, 1])
        place, places = random.integers(0, 5, (count, 2)), []
        for _ in range(51):
            places.append(place)
            move = np.eye(2, dtype=int)[random.integers(0, 2, count)]
            back = random.random((count, 1)) < 0.1
            place = np.clip(place + np.where(back, -move, move), 0, 4)
        return of_one_length(np.stack(places, axis=1))

    assert rate(steps(5), steps(30)) is None


@pytest.mark.parametrize(("demonstrated", "logged"), [(1.0, 4.0), (4.0, 1.0)])
def test_a_weaker_or_stronger_controller_is_of_the_same_rate(demonstrated, logged):
    """Several weak steps look like a strong one where paths from rest to rest cross."""

    def controlled(count: int, gain: float) -> Episodes:
        place = np.random.default_rng([count, 0]).uniform(-1, 1, (count, 2))
        speed, states = np.zeros_like(place), []
        for _ in range(101):
            states.append(np.concatenate([place, speed], axis=1))
            speed = speed - 0.1 * (gain * place + np.sqrt(gain) * speed)
            place = place + 0.1 * speed
        return of_one_length(np.stack(states, axis=1))

    assert rate(controlled(5, demonstrated), controlled(30, logged)) is None


def test_neighbours_are_those_of_brute_force(monkeypatch):
    monkeypatch.setattr("lobsdice.data.neighbours.POINTS", 64)
    monkeypatch.setattr("lobsdice.data.neighbours.QUERIES", 16)
    random = np.random.default_rng(0)
    queries, points = (random.normal(size=(n, 5)).astype(np.float32) for n in (50, 300))
    group, own = np.sort(random.integers(0, 7, 300)), random.integers(0, 9, 50)
    expected = brute(queries, points)
    distance, index = nearest(queries, points)
    np.testing.assert_array_equal(index, expected.argmin(axis=1))
    np.testing.assert_allclose(distance, expected.min(axis=1))
    distance, _ = nearest(queries, points, excluded=(own, group))
    np.testing.assert_allclose(distance, brute(queries, points, own, group).min(axis=1))
    distance, _ = nearest(points[:2], points, excluded=(np.zeros(2, int), np.zeros(300, int)))
    assert np.isinf(distance).all()


def test_spacings_are_leave_one_episode_out_distances(offline):
    states = fit_normaliser(offline)(offline.observations)
    rows = offline.step_rows[:1500]
    pairs, group = np.concatenate([states[rows], states[rows + 1]], axis=1), groups(offline)[:1500]
    alone = brute(pairs, pairs, group, group).min(axis=1)
    asked = np.arange(0, 1500, 7)
    spacing, sparse = spacings(pairs, group, asked)
    assert sparse == pytest.approx(np.quantile(alone, SPARSE, method="higher"))
    np.testing.assert_allclose(spacing, alone[asked])


def test_sparse_is_what_either_side_calls_so_within_a_quarter():
    """Demonstrations that lie close together, are nearly copies, or lie far apart."""

    def episodes(positions):
        pair = np.stack([positions, positions], axis=1)[..., None].repeat(2, axis=2)
        return Episodes.from_arrays(pair.reshape(-1, 2), lengths=[1] * len(positions))

    def sparse(expert, offline):
        pairs = [np.repeat(x, 4)[:, None].reshape(-1, 4) for x in (expert, offline)]
        return cover(pairs[0], episodes(expert), pairs[1], episodes(offline)).sparse

    far = 8.0 * np.arange(20, dtype=np.float32)
    assert sparse(3 * far[:6] / 8, far) == pytest.approx(6)
    assert sparse(far[:6] / 800, far) == pytest.approx(4)
    assert sparse(10 * far[:6], far) == pytest.approx(16)


def test_few_episodes_are_cut_into_pieces(offline):
    assert len(np.unique(groups(offline))) == 40
    one = groups(offline.first(1))
    assert len(np.unique(one)) == 5 and (np.diff(one) >= 0).all()


def test_parts_end_with_their_episode():
    n = np.zeros(6)
    ratio = np.array([1.0, 9, 9, 9, 1, 9])
    episode, step = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 1, 2, 0, 1, 2])
    coverage = Coverage(episode, step, ratio, n + 1, n.astype(int), 1, 1.0)
    two = Episodes.from_arrays(np.zeros((8, 1)), lengths=[3, 3], episode_names=["T7", "T9"])
    found = parts(coverage, two)
    assert [(p.episode, p.name, p.first_step, p.last_step) for p in found] == [
        (0, "T7", 1, 2),
        (1, "T9", 0, 0),
        (1, "T9", 2, 2),
    ]


def test_the_discriminator_of_equal_distributions_is_a_coin():
    random = np.random.default_rng(0)
    expert, offline = (random.normal(size=(n, 6)).astype(np.float32) for n in (2000, 6000))
    found = discriminate(expert, np.arange(2000) // 100, offline, np.arange(6000) // 100)
    assert found.auc == pytest.approx(0.5, abs=0.03)
    assert found.overlap > 0.9 and found.calibration_error < 0.05


def test_an_episode_is_not_recognised_by_its_own_transitions():
    """Every episode has a place of its own: only a leak across folds tells the classes apart."""
    random = np.random.default_rng(0)
    group = np.arange(2000) // 50
    expert, offline = (
        (random.normal(size=(40, 6))[group] + 0.01 * random.normal(size=(2000, 6))).astype(
            np.float32
        )
        for _ in range(2)
    )
    assert abs(discriminate(expert, group, offline, group).auc - 0.5) < 0.2


def test_the_fit_is_the_known_log_ratio_of_two_gaussians():
    random = np.random.default_rng(0)
    rows = [np.stack([np.ones(20_000), random.normal(m, 1, 20_000)], axis=1) for m in (1, -1)]
    np.testing.assert_allclose(fit(*rows), [0, 2], atol=0.06)


def test_the_discriminator_can_make_a_verdict_worse_by_one():
    apart, mixed = Discrimination(0.995, 0.0, 0.0, 0.0), Discrimination(0.8, 1.0, 0.5, 0.0)
    disjoint = Discrimination(0.9999, 0.0, 0.0, 0.0)
    assert judge(0.05, mixed)[0] == "covered"
    assert judge(0.05, apart)[0] == judge(0.05, disjoint)[0] == "partly covered"
    assert judge(0.5, apart)[0] == judge(0.5, mixed)[0] == "partly covered"
    assert judge(0.5, disjoint)[0] == judge(0.95, mixed)[0] == "not covered"


def test_ends_that_look_wrong_are_worth_a_warning(offline):
    expert = walks(4, seed=1)
    ended = replace(expert, terminated=np.ones(4, bool))
    assert not audit(expert, offline).warns
    found = audit(ended, offline)
    assert found.verdict == "covered" and found.warns
    assert found.report()["ends"]["warnings"] == found.ends.warnings
    assert found.report()["ends"]["expert"]["terminated"] == 4


def test_facts_remark_on_odd_features(offline):
    observations = offline.observations.copy()
    observations[:, 0] = 7
    observations[:, 1] *= 1e-5
    observations[0, 2] = 1e6
    odd = replace(offline, observations=observations)
    remarks = " ".join(facts(offline, odd, [])[1]["remarks"])
    assert "constant in column 0" in remarks
    assert "feature 1 is nearly constant after normalisation" in remarks
    assert "feature 2 has values" in remarks
    assert facts(offline, offline, [])[0]["remarks"] == []


def test_demonstrations_are_also_judged_by_the_scale_of_the_logs(offline):
    observations = offline.observations[:61].copy()
    observations[:20, 2] = np.linspace(5e3, 6e3, 20)
    odd = Episodes.from_arrays(observations, lengths=[60])
    (remark,) = facts(odd, offline, [])[0]["remarks"]
    assert "feature 2 has values" in remark and "standard deviations of the logs" in remark


def test_fill_values_make_the_audit_warn_and_are_named_instead_of_outliers(offline):
    observations = offline.observations.copy()
    observations[::400, 2] = -9999
    found = audit(walks(3, seed=5), replace(offline, observations=observations))
    (fill,) = found.fills
    assert found.warns and (fill.feature, fill.value, fill.where) == ("2", -9999, "the logs")
    assert [fill.remark] == [r for r in found.offline["remarks"] if "feature 2" in r]
    assert found.report()["fills"][0]["remark"] == fill.remark


@pytest.mark.parametrize(
    ("offline", "verdict"),
    [
        ({"expert": 10, "medium": 20, "random": 20}, "covered"),
        ({"medium": 20, "random": 20}, "not covered"),
        ({"random": 100}, "not covered"),
    ],
    ids=["standard", "without expert", "random"],
)
def test_built_in_data(offline, verdict):
    task = ld.load("hopper", expert=3, offline=offline, workers=1)
    found = ld.audit(task.expert, task.offline)
    assert (found.verdict, found.rate) == (verdict, None)

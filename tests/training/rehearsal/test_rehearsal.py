"""Policies in a learned world, beside demonstrations, where the truth is known."""

from dataclasses import replace
from functools import partial
from math import comb

import numpy as np
import pytest
from line_world import EDGE, SAME, SPACE, demonstrations, going, made_world, walks

from lobsdice.data.prepare import prepare
from lobsdice.environments.learned import Mixture, Rehearsal, load_world
from lobsdice.errors import LobsDICEError
from lobsdice.training.draws import end_counts
from lobsdice.training.engine import Member, Options
from lobsdice.training.fleet import Fleet
from lobsdice.training.rehearsal import dynamics
from lobsdice.training.rehearsal.comparison import Comparison, Shown, sliced
from lobsdice.training.rehearsal.dynamics import (
    APART,
    END_MASS,
    Dynamics,
    learn_world,
    mass_of_ends,
    with_bends,
    without_some_ends,
)
from lobsdice.training.rehearsal.folders import succeeded
from lobsdice.training.rehearsal.following import following
from lobsdice.training.rehearsal.quality import ends_of, miscalibration, quantiles
from lobsdice.training.rehearsal.rehearse import rehearse_policies
from lobsdice.training.rehearsal.rollouts import _in_turn, first_states, roll_out
from lobsdice.training.rehearsal.verdict import (
    answer,
    objections,
    quality_sentence,
    recommended,
    score_of,
)


@pytest.fixture(scope="module")
def learned():
    """A world learned from wandering logs, most of which fall into the pit."""
    random = np.random.default_rng(0)
    actions, starts = random.uniform(-1, 1, 150), random.uniform(-0.5, 0.5, 150)
    logs = walks(actions, starts, noise=0.5)
    data = prepare(demonstrations(), logs)
    return learn_world(data, members=3, steps=1000, batch_size=64, width=32)


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_world_that_cannot_be_learned_is_a_sentence(monkeypatch):
    monkeypatch.setattr(dynamics, "Dynamics", partial(dynamics.Dynamics, rate=1e300))
    data = prepare(demonstrations(), walks(np.zeros(9), np.zeros(9), noise=0.5))
    sentence = r"the world of the logs could not be learned: a network stopped at step"
    with pytest.raises(LobsDICEError, match=sentence) as caught:
        learn_world(data, members=1, steps=40, batch_size=8, width=8)
    assert "alpha" not in str(caught.value)


def test_a_policy_that_does_as_demonstrated_works_and_others_do_not():
    found = rehearse_policies(made_world(), [going(0.8), going(-0.8), going(0.0)], demonstrations())
    good, wrong, still = (one.verdict for one in found)
    assert good.works and good.finished == good.starts == 100 and good.failed == 0
    assert not wrong.works and wrong.failed == 100 and wrong.finished == 0
    assert not still.works and still.failed == still.finished == 0
    assert good.score > still.score and good.score > wrong.score
    assert good.sentence == (
        "of 100 rehearsed starts 100 stay with the demonstrations, half of them for "
        f"{good.trusted} steps or more; 100 end as the demonstrations do"
    )
    assert "100 end as no demonstration ends" in wrong.sentence
    assert (
        answer([wrong, still])
        == "none of these reliably reaches the demonstrated end in rehearsal: do not deploy"
    )
    assert answer([good, wrong]).startswith("the first does what was demonstrated: of 100")


def test_nothing_is_said_of_what_follows_the_point_where_the_members_disagree():
    world, policy = made_world(unsure_from=0.5), going(0.8)
    (found,) = rehearse_policies(world, [policy], demonstrations())
    assert found.verdict.guessing == 100 and found.verdict.finished == 0
    assert "100 stop where the model is guessing" in found.verdict.sentence
    last = found.comparison.rollouts.states[:, -1, 0]
    assert (last > 0.4).all() and (last < 0.65).all()
    episode = Rehearsal(world, 40)
    episode.reset(seed=0)
    while not any((stopped := episode.step(np.array([0.8], np.float32)))[2:4]):
        pass
    assert episode.why == "the model is guessing" and stopped[2] is False


def test_a_few_episodes_of_which_nothing_is_known_do_not_speak_against_a_policy():
    facts = {"starts": 100, "shared_ends": 1.0, "apart": 1.0, "near": 0.8}
    facts |= {"following": 0.8, "explained": 0.0}
    assert recommended(facts | {"guessing": 20, "arrived": 0.75})
    assert not recommended(facts | {"guessing": 20, "arrived": 0.70})  # 70 of 80 arrive
    unknown = facts | {"guessing": 26, "arrived": 0.74}
    assert objections(unknown) == ["the model is guessing in too many episodes"]
    assert not recommended(facts | {"guessing": 20, "arrived": 0.75, "near": 0.7})


def test_a_policy_that_does_no_better_than_standing_still_is_not_recommended():
    # Demonstrations that differ much are near whatever a policy does.
    facts = {"starts": 100, "guessing": 0, "shared_ends": 1.0, "apart": 0.2, "near": 0.95}
    facts |= {"arrived": 1.0}
    idle = facts | {"following": 0.55, "explained": 0.1}
    assert objections(idle) == ["it hardly acts as demonstrated"]
    assert recommended(facts | {"following": 0.55, "explained": 0.3})
    assert recommended(facts | {"following": 0.8, "explained": 0.0})


def test_without_a_logged_success_no_policy_is_recommended():
    """However near it is: the logs show that being near is not enough."""
    (found,) = rehearse_policies(made_world(), [going(0.8)], demonstrations())
    assert found.verdict.works and found.verdict.succeeded is None
    world = made_world()
    for share, works in ((0.0, False), (0.1, True)):
        known = replace(world, about=world.about | {"succeeded": share})
        (found,) = rehearse_policies(known, [going(0.8)], demonstrations())
        assert found.verdict.works == works
    logs = walks([-0.8] * 4, np.zeros(4))
    assert succeeded(logs) is None
    assert succeeded(replace(logs, success=np.array([-1, -1, -1, -1]))) is None
    assert succeeded(replace(logs, success=np.array([1, 0, -1, 0]))) == 1 / 3


def test_actions_count_however_bad_the_learned_world_is():
    facts = {"following": 0.2, "arrived": 0.0, "shared_ends": 1.0}
    far, near = facts | {"apart": 50.0}, facts | {"apart": 40.0}
    assert score_of(far | {"explained": 0.8}) > score_of(near | {"explained": 0.5})


def test_a_policy_of_which_nothing_is_known_from_the_start_has_a_score_near_0():
    (found,) = rehearse_policies(made_world(unsure_from=-1), [going(-0.8)], demonstrations())
    assert found.verdict.guessing == 100 and found.verdict.trusted == 0
    assert found.verdict.sentence.startswith(
        "of 100 rehearsed starts none stays with the demonstrations; "
    )
    assert 0 <= found.verdict.score < 0.2 and not found.verdict.works


def test_rollouts_follow_the_world_and_stop_at_its_ends():
    world = made_world()
    (found,) = roll_out(world, [going(1.0)], first_states(world, demonstrations(), 20), 40)
    assert found.ended.all() and not found.guessing.any()
    steps = np.diff(found.states[0, : found.steps[0] + 1, 0])
    np.testing.assert_allclose(steps, 0.1, atol=0.01)
    assert (np.abs(found.states[:, -1, 0]) >= EDGE - 0.01).all()
    assert (found.states[0, found.steps[0] :] == found.states[0, -1]).all()


def test_first_states_are_those_of_demonstrations_and_logs():
    world = made_world(starts=(0.3, 0.4))
    found = first_states(world, demonstrations(), 40)[:, 0]
    shown = demonstrations()
    assert set(found[:10]) == set(shown.observations[shown.starts][:, 0])
    assert set(found[10:].tolist()) == {np.float32(0.3), np.float32(0.4)}


@pytest.mark.parametrize(("shown", "members"), [(5, 5), (3, 5), (4, 2), (1, 3), (6, 4)])
def test_each_demonstrated_start_meets_each_member(shown, members):
    n = shown * members
    starts = _in_turn(n, shown, members)
    assert len({(start, i % members) for i, start in enumerate(starts)}) == n
    # Also of a part of them, starts are taken about equally often.
    counts = np.bincount(_in_turn(n // 2 + 1, shown, members), minlength=shown)
    assert counts.max() - counts.min() <= 1 + (np.lcm(shown, members) < n)


def test_an_episode_stays_until_most_of_what_follows_is_away():
    world = made_world()
    rollouts = roll_out(world, [going(0.0)], first_states(world, demonstrations(), 6), 5)[0]
    found = Comparison(Shown(demonstrations(), world), rollouts)
    near = [
        [0, 1, 1, 1, 1],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0],
        [1, 1, 1, 1, 1],
        [1, 0, 1, 1, 0],
        [1, 1, 0, 1, 1],
    ]
    found.__dict__["near"] = np.array(near, bool)
    found.__dict__["taken"] = np.ones((6, 5), bool)
    assert found.stay().tolist() == [5, 2, 0, 5, 4, 5]
    # What follows after an episode has stopped does not count.
    found.__dict__["taken"] = np.arange(5) < np.array([[5], [2], [1], [3], [4], [2]])
    rollouts.steps[:] = [5, 2, 1, 3, 4, 2]
    assert found.stay().tolist() == [5, 2, 0, 3, 4, 2]


def test_the_nearest_pair_decides_what_is_near():
    world, shown = made_world(), Shown(demonstrations(), made_world())
    found = Comparison(
        shown, roll_out(world, [going(0.8)], first_states(world, demonstrations(), 8), 5)[0]
    )
    brute = np.array([np.linalg.norm(shown.pairs - pair, axis=1).min() for pair in found.pairs])
    np.testing.assert_allclose(found.distances[found.taken], brute, atol=1e-4)
    assert shown.ending and len(shown.finals) == 5


def test_demonstrations_that_never_end_are_met_by_episodes_that_do_not_end():
    expert = walks([0.02] * 4, [-0.1, 0.0, 0.1, 0.2], noise=0.2, longest=30).without_actions()
    found = rehearse_policies(made_world(), [going(0.02), going(-1.0)], expert)
    staying, falling = (one.verdict for one in found)
    assert not staying.ending and staying.finished == 100 and staying.failed == 0
    assert falling.failed == 100 and falling.score < staying.score


def test_one_demonstration_that_fails_does_not_vouch_for_policies_that_always_fail():
    expert = walks([0.8] * 4 + [-0.8], [-0.1, -0.05, 0.0, 0.05, 0.1], noise=0.1, seed=1)
    shown = Shown(expert.without_actions(), made_world())
    # Four ends are at the goal and one is in the pit, which is not their usual distance.
    assert shown.final_reach < 0.5 and shown.shared_ends == 0.8
    assert sorted(np.bincount(shown.places)) == [1, 4]
    # Clopper and Pearson: P(at most k of 5 | limit) = 0.05.
    limits = sorted(shown.most_often)
    for k, p in zip((1, 4), limits, strict=True):
        assert sum(comb(5, i) * p**i * (1 - p) ** (5 - i) for i in range(k + 1)) == pytest.approx(
            0.05
        )
    found = rehearse_policies(made_world(), [going(0.8), going(-0.8)], shown.episodes)
    good, wrong = (one.verdict for one in found)
    assert good.works and good.arrived == pytest.approx(limits[1])
    assert wrong.finished == 100 and wrong.arrived == pytest.approx(limits[0]) and not wrong.works


def test_a_policy_follows_demonstrations_as_far_as_it_moves_with_them():
    expert = walks([0.8] * 5, np.linspace(-0.1, 0.1, 5)).without_actions()
    shown = Shown(expert, made_world())
    same, still, back = (following(shown, going(a)) for a in (0.8, 0.0, -0.8))
    assert same > 0.98  # the learned world is a little noisy
    assert still == pytest.approx(1 / 2, abs=0.01)  # as far away as the demonstration has moved
    assert back == pytest.approx(1 / 3, abs=0.01)  # twice as far
    once = walks([0.8], [0.7]).without_actions()  # fewer steps than a short episode has
    assert following(Shown(once, made_world()), going(0.8)) > 0.98


def test_the_sliced_distance_of_two_points_is_the_mean_length_of_their_projections():
    here, there = np.zeros((1, 2), np.float32), np.array([[3.0, 4.0]], np.float32)
    mass = np.ones(1)
    assert sliced((here, mass), (here, mass)) == 0
    # The mean of |cos| over directions of the plane is 2/π.
    assert sliced((here, mass), (there, mass)) == pytest.approx(5 * 2 / np.pi, rel=0.1)


def test_ends_that_are_held_out_are_not_learned_from():
    data = prepare(demonstrations(), walks([-0.8] * 40, np.linspace(-0.1, 0.1, 40), noise=0.3))
    rest, apart = without_some_ends(data)
    assert data.ends is not None and rest.ends is not None
    assert len(data.ends.offline) == 40 and len(apart) == 40 // APART
    together = np.concatenate([rest.ends.offline, apart])
    assert sorted(together.ravel()) == sorted(data.ends.offline.ravel())
    assert len(rest.ends.source) == len(rest.ends.offline)
    assert rest.offline is data.offline and end_counts(rest)[2][1] == 40 - len(apart)


def test_the_network_of_ends_begins_with_bends_at_final_states():
    data = prepare(demonstrations(), walks([-0.8] * 40, np.linspace(-0.1, 0.1, 40), noise=0.3))
    member = Member(Dynamics(width=8, move_scale=(1.0,)), 0, 0, Options(terminal="stay"))
    fresh = Fleet((member, replace(member, seed=1)), (data,)).begin()
    finals = ends_of(data)
    begun = with_bends(fresh, finals)
    net = begun.nets.policy.end
    units = np.einsum("es,msw->mew", finals, net.weights[0]) + net.biases[0][:, None]
    np.testing.assert_allclose(np.abs(units).min(axis=1), 0, atol=1e-4)
    assert begun.average.end is net and begun.nets.policy.move is fresh.nets.policy.move
    # Without an end in the logs nothing is known of where to bend.
    assert with_bends(fresh, finals[:0]) is fresh


def test_ends_that_are_held_out_do_not_make_ends_less_likely():
    data = prepare(demonstrations(), walks([-0.8] * 40, np.linspace(-0.1, 0.1, 40), noise=0.3))
    rest, apart = without_some_ends(data)
    assert mass_of_ends(data, rest) == pytest.approx(END_MASS * (40 - len(apart)) / 40)
    assert mass_of_ends(replace(data, ends=None), replace(data, ends=None)) == END_MASS


def test_a_world_is_learned_from_the_logs_and_knows_its_errors(learned):
    quality = learned.about["quality"]
    assert quality["unexplained"] < 0.02 and quality["end_error"] < 0.1
    assert 0.8 < quality["expected_ends"] < 1 and quality["held_out"]
    assert quality_sentence(quality).endswith(
        f"expects an end with a probability of {quality['expected_ends']:.2f}"
    )
    assert "in the rows that it learned from" in quality_sentence(quality | {"held_out": False})
    assert 0.8 < quality["in_interval"] <= 1 and quality["miscalibration"] < 0.25
    good, wrong = rehearse_policies(
        learned, [going(0.8), going(-0.8)], demonstrations(), episodes=40
    )
    assert good.verdict.finished > 20 and wrong.verdict.failed > 30
    assert good.verdict.score > wrong.verdict.score + 0.3 and not wrong.verdict.works


def test_a_world_is_the_same_after_it_was_written_and_read(learned, tmp_path):
    learned.save(tmp_path / "world.safetensors")
    again = load_world(tmp_path / "world.safetensors")
    s, a = np.zeros((4, 1), np.float32), np.linspace(-1, 1, 4, dtype=np.float32)[:, None]
    random = [np.random.default_rng(0) for _ in range(2)]
    member = np.arange(4) % learned.members
    one, other = (w.step(s, a, member, r) for w, r in zip((learned, again), random, strict=True))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_array_equal(x, y)
    assert again.about == learned.about and again.limit == learned.limit
    contents = bytearray((tmp_path / "world.safetensors").read_bytes())
    contents[-3] ^= 1
    (tmp_path / "world.safetensors").write_bytes(contents)
    with pytest.raises(LobsDICEError, match=r"not a learned world that lobsdice wrote .*checksum"):
        load_world(tmp_path / "world.safetensors")
    with pytest.raises(LobsDICEError, match="there is no such file"):
        load_world(tmp_path / "none")


def test_quantiles_of_draws_from_the_mixture_are_uniform():
    random = np.random.default_rng(0)
    n, shares = 4000, np.array([0.3, 0.7])
    means, stds = np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    part = random.choice(2, n, p=shares)
    moved = (means[part] + stds[part] * random.normal(size=n))[:, None].astype(np.float32)

    def spread(values):
        return np.broadcast_to(values[None, None, :, None], (1, n, 2, 1)).astype(np.float32)

    log_share = np.broadcast_to(np.log(shares), (1, n, 2)).astype(np.float32)
    right = quantiles(Mixture(log_share, spread(means), spread(stds)), moved)
    assert np.mean(np.abs(right - 0.5) <= 0.45) == pytest.approx(0.9, abs=0.015)
    assert miscalibration(right) < 0.02
    sure = quantiles(Mixture(log_share, spread(means), spread(stds / 4)), moved)
    assert miscalibration(sure) > 0.05


def test_a_policy_with_other_states_is_refused_with_a_sentence():
    policy = replace(going(0.8), normaliser=SAME._replace(mean=np.zeros(2, np.float32)))
    with pytest.raises(LobsDICEError, match="takes observations of 2 numbers"):
        rehearse_policies(made_world(), [policy], demonstrations())
    assert SPACE.size == 1

"""What every algorithm owes the training loop, and the skeleton in the docs too."""

import re
from dataclasses import fields, replace
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import beginning, noise_data

from lobsdice.algorithms import ALGORITHMS
from lobsdice.algorithms.base import Algorithm
from lobsdice.algorithms.batch import Batch
from lobsdice.algorithms.networks import lacking
from lobsdice.equations.terminal import Terminal
from lobsdice.errors import LobsDICEError
from lobsdice.rewards.scores import Scores, layout
from lobsdice.training.draws import draw_batch
from lobsdice.training.engine import Member, Options, run_chunk
from lobsdice.training.fleet import Fleet, iterate

DOCS = Path(__file__).parents[2] / "docs"


def skeleton() -> type[Algorithm]:
    """The algorithm that docs/adding_an_algorithm.md shows."""
    text = (DOCS / "adding_an_algorithm.md").read_text()
    code = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(code) == 1
    module = ModuleType("skeleton")
    exec(code[0], vars(module))
    return ALGORITHMS.pop("skeleton")


def small(kind) -> Algorithm:
    """Small networks, and penalties in every step: one kind of step is half the compilation."""
    sizes = {"width": 8, "penalty_every": 1, "ratio_steps": 10}
    return kind(**{f.name: sizes[f.name] for f in fields(kind) if f.name in sizes})


def own(kind) -> bool:
    """False for an algorithm that is another one with other defaults, such as SEABO."""
    return not any(base in ALGORITHMS.values() for base in kind.__mro__[1:])


SMALL = [small(kind) for kind in [*filter(own, ALGORITHMS.values()), skeleton()]]
#: All tests of an algorithm run in one process, and share what it has compiled.
each_algorithm = pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(a, id=type(a).__name__, marks=pytest.mark.xdist_group(type(a).__name__))
        for a in SMALL
    ],
)


def outcome(*members, datas):
    """The networks of a fleet after two chunks of steps."""
    # Where a unit of ν is active at all rows of a batch, its bias has the slope 0 but for rounding,
    # and Adam makes steps of any sign of that. So batches are not too small.
    options = Options(steps=8, batch_size=16)
    fleet = Fleet(tuple(replace(m, options=options) for m in members), tuple(datas))
    fleet.pool()  # what is found before training may need programs of its own
    before = programs()
    *_, last = iterate(fleet, every=4, begin=(0, beginning(fleet)))
    assert programs() - before <= 1, "one compiled program serves all chunks"
    return last.state.nets


def programs() -> int:
    """How many versions of the training program have been compiled."""
    program: Any = run_chunk
    return program._cache_size()


def equal(x, y):
    return jax.tree.map(jnp.shape, x) == jax.tree.map(jnp.shape, y) and all(
        map(jnp.array_equal, jax.tree.leaves(x), jax.tree.leaves(y))
    )


def changed(field):
    """Another value of a hyperparameter than its default."""
    value = field.default
    _, high = field.metadata.get("bounds", (None, None))
    match value:
        case bool():
            return not value
        case str():
            return next(word for word in field.metadata["choices"] if word != value)
        case int():
            return value + 2
        case float():
            return value / 2 if high is None else (value + high) / 2
    raise TypeError(value)


def all_reals_changed(algorithm):
    reals = [f for f in fields(algorithm) if isinstance(f.default, float)]
    return replace(algorithm, **{field.name: changed(field) for field in reals})


@each_algorithm
def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not(algorithm):
    datas = [noise_data()]
    first = outcome(Member(algorithm, seed=3), datas=datas)
    assert equal(first, outcome(Member(algorithm, seed=3), datas=datas))
    assert not equal(first, outcome(Member(algorithm, seed=4), datas=datas))
    assert all(jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(first))


@each_algorithm
def test_a_run_that_is_continued_ends_with_the_same_bits(algorithm):
    options = Options(steps=8, batch_size=16)
    fleet = Fleet((Member(algorithm, options=options),), (noise_data(),))
    middle, end = iterate(fleet, every=4, begin=(0, beginning(fleet)))
    (again,) = iterate(fleet, every=4, begin=(middle.step, middle.state))
    assert middle.step == 4 and equal(again.state, end.state)


# What follows is asked for again and again, and is the same each time.


def shapes(algorithm):
    """The shapes of an algorithm's networks."""
    return [leaf.shape for leaf in jax.tree.leaves(started(algorithm))]


@cache
def rates(algorithm):
    """Its learning rates in the first steps."""
    return [jax.tree.map(float, algorithm.rates(jnp.int32(step))) for step in range(4)]


#: With a feature that discriminators see blurred.
DATA = replace(noise_data(), blur=np.array([0, 0, 1], np.float32))
#: Data whose episodes have all ended, by the kind of actions.
ENDED = {name: noise_data(discrete=name == "finite", ended=1.0) for name in ("box", "finite")}


@cache
def pool_of(algorithm, kind: str):
    """All rows of the data, with what the algorithm notes about them."""
    pool, slices = Fleet((Member(algorithm),), (ENDED.get(kind, DATA),)).pool()
    return pool, jax.tree.map(lambda x: x[0], slices)


_draw = jax.jit(draw_batch, static_argnames=("n", "restart", "ahead"))


@cache
def rows(
    algorithm,
    n: int,
    kind: str = "",
    ahead: Terminal = "stay",
    *,
    end_mass: float = 0.0,
    restart: bool = False,
) -> Batch:
    """Rows of the data, with what the algorithm notes about them and what follows them."""
    options = {"ahead": ahead, "end_mass": end_mass, "restart": restart}
    return _draw(jax.random.key(0), *pool_of(algorithm, kind), n=n, **options)


@cache
def started(algorithm, seed: int = 0, kind: str = ""):
    data = ENDED.get(kind, DATA)
    return algorithm.init(jax.random.key(seed), data.state_size, data.action_space)


def losses(algorithm, batch, nets):
    """All that is logged, and the sum of the losses."""
    total, metrics = algorithm.loss(nets, batch, jax.random.key(1), penalised=1)
    return metrics | {"total": total}


#: The slope of each of them in each network; compiled once for all real hyperparameters.
_slopes = jax.jit(
    lambda algorithm, nets, batch: jax.jacrev(partial(losses, algorithm, batch))(nets)
)


@cache
def slopes(algorithm, of):
    """At the networks `of` an algorithm."""
    return _slopes(algorithm, started(of), rows(algorithm, 16))


@cache
def program(algorithm) -> str:
    """What is computed, as text."""
    nets = started(algorithm)
    return str(jax.make_jaxpr(partial(losses, algorithm))(rows(algorithm, 16), nets))


@cache
def after(algorithm):
    """Where a step's hook takes networks that have moved a little; targets are among them."""
    moved = jax.tree.map(lambda x: x + 1, started(algorithm))
    apart = zip(moved, started(algorithm, seed=1), strict=True)
    nets = type(moved)(*(one if i % 2 else other for i, (one, other) in enumerate(apart)))
    return algorithm.after_step(nets)


@cache
def refreshed(algorithm):
    """The networks after a look at other rows."""
    return algorithm.refresh(started(algorithm), rows(algorithm, 64), jax.random.key(0))


@cache
def noted(algorithm):
    """What the algorithm makes of some scores."""
    assert DATA.rewards is not None
    some = Scores(np.abs(DATA.rewards), np.abs(DATA.rewards[::-1]), unit=0.5)
    return algorithm.scored_by and algorithm.notes(some, layout(DATA))


def variants(algorithm) -> list[Any]:
    """The algorithm and, if it has a choice of rewards, those with other rewards."""
    if not hasattr(algorithm, "reward"):
        return [algorithm]
    return [algorithm, *(replace(algorithm, reward=kind) for kind in ("nearest", "ratio"))]


@each_algorithm
def test_every_hyperparameter_matters(algorithm):
    """In the networks' shapes, the rates, the hooks, the draws, scores, or slopes of the losses."""
    for field in fields(algorithm):
        kinds = [(a, replace(a, **{field.name: changed(field)})) for a in variants(algorithm)]
        if any(a.scored_by != b.scored_by or not equal(noted(a), noted(b)) for a, b in kinds):
            continue
        other = replace(algorithm, **{field.name: changed(field)})
        seen = shapes(other) != shapes(algorithm) or rates(other) != rates(algorithm)
        seen = seen or not equal(after(algorithm), after(other))
        seen = seen or not equal(refreshed(algorithm), refreshed(other))
        seen = seen or algorithm.draws != other.draws or algorithm.stretch != other.stretch
        if seen or field.name in ("penalty_every", "refresh_every"):  # which the loop looks at
            continue
        if isinstance(field.default, float):
            assert not equal(slopes(algorithm, algorithm), slopes(other, algorithm)), field.name
        else:
            assert program(algorithm) != program(other), field.name


@each_algorithm
def test_one_compiled_program_serves_all_chunks_and_real_hyperparameters(algorithm):
    datas = [noise_data()]
    outcome(Member(algorithm), datas=datas)
    before = programs()
    outcome(Member(all_reals_changed(algorithm), seed=1), datas=datas)
    assert programs() == before


@each_algorithm
def test_every_number_has_declared_bounds_and_every_word_its_choices(algorithm):
    for field in fields(algorithm):
        declared = {"choices"} if isinstance(field.default, str) else {"bounds", "above"}
        assert isinstance(field.default, bool) or declared & set(field.metadata), field.name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_has_a_page_that_names_its_options_and_their_defaults(name):
    page = (DOCS / "algorithms" / f"{name}.md").read_text()
    for field in fields(ALGORITHMS[name]):  # pyright: ignore[reportArgumentType]
        assert f"| `{field.name}` | {field.default} |" in page, field.name


@each_algorithm
def test_each_loss_moves_only_its_own_network(algorithm):
    owners = set()
    for name, slope in slopes(algorithm, algorithm).items():
        if name == "total":
            continue
        moved = [
            net
            for net, part in slope._asdict().items()
            if any(jnp.any(leaf != 0) for leaf in jax.tree.leaves(part))
        ]
        assert len(moved) == 1, (name, moved)
        owners.add(moved[0])
    assert "policy" in owners


@each_algorithm
def test_penalties_count_for_as_many_steps_as_they_stand_for(algorithm, key):
    loss = jax.jit(algorithm.loss, static_argnames="penalised")
    arguments = (started(algorithm), rows(algorithm, 16), key)
    (plain, _), (total, metrics) = (loss(*arguments, penalised=n) for n in (0, 3))
    penalties = sum(value for name, value in metrics.items() if name.endswith("_penalty"))
    np.testing.assert_allclose(total - plain, 3 * penalties, rtol=1e-3, atol=1e-5)


@each_algorithm
def test_metrics_have_the_same_names_in_penalised_and_plain_steps(algorithm, key):
    nets, batch = started(algorithm), rows(algorithm, 16)
    names = [
        set(jax.eval_shape(partial(algorithm.loss, penalised=penalised), nets, batch, key)[1])
        for penalised in (1, 0)
    ]
    assert names[0] == names[1]


@each_algorithm
def test_every_loss_is_measured_on_rows_held_out_and_all_that_is_measured_is_finite(algorithm, key):
    fleet = Fleet((Member(algorithm),), (DATA,))
    measures = fleet.diagnosis()(beginning(fleet))
    _, logged = jax.eval_shape(
        partial(algorithm.loss, penalised=0), started(algorithm), rows(algorithm, 16), key
    )
    names = {name for name in logged if name.endswith("_loss")}
    assert names and {f"held_out_{name}" for name in names} <= set(measures)
    assert not set(measures) & set(logged)
    assert all(value.shape == (1,) and np.isfinite(value) for value in measures.values())


@each_algorithm
def test_a_fleet_gives_what_its_runs_give_alone(algorithm):
    """Runs that differ in seed, data and every real hyperparameter, together and one by one."""
    datas = [noise_data(), noise_data(seed=1)]
    members = [Member(algorithm, seed=0, data=0), Member(all_reals_changed(algorithm), 5, 1)]
    together = outcome(*members, datas=datas)
    for i, member in enumerate(members):
        alone = outcome(replace(member, data=0), datas=[datas[member.data]])
        for x, y in zip(jax.tree.leaves(together), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(x[i], y[0], rtol=1e-5, atol=1e-7)


# ---- Ends ----


def with_ends(algorithm, kind: str, terminal: Terminal) -> Batch:
    """Rows of which about every fourth follows an end."""
    restart = terminal == "restart"
    batch = rows(algorithm, 40, kind, terminal, end_mass=3.0, restart=restart)
    for ended in (batch.expert_ended, lacking(batch.offline.a)):
        assert ended is not None and 0 < jnp.mean(ended) < 1
    return batch


def moved(batch: Batch) -> Batch:
    """The batch with other states where an end is."""

    def part(rows, ended):
        return rows._replace(s=jnp.where(ended[:, None], rows.s + 5, rows.s))

    assert batch.labelled is not None
    return batch._replace(
        expert=part(batch.expert, batch.expert_ended),
        offline=part(batch.offline, lacking(batch.offline.a)),
        labelled=part(batch.labelled, lacking(batch.labelled.a)),
    )


#: Algorithms whose policy does more than clone.
SEEKING = ("OPOLO", "RCE", "IQLearn")


@each_algorithm
@pytest.mark.parametrize("kind", ENDED)
def test_ends_leave_numbers_finite_and_nothing_is_cloned_there(algorithm, kind):
    nets = started(algorithm, kind=kind)
    slope = jax.jit(jax.grad(partial(algorithm.loss, penalised=0), has_aux=True))
    restarted, batch = with_ends(algorithm, kind, "restart"), with_ends(algorithm, kind, "stay")
    for rows in (restarted, batch):
        found = slope(nets, rows, jax.random.key(1))
        assert all(jnp.isfinite(x).all() for x in jax.tree.leaves(found))
    if type(algorithm).__name__ in SEEKING:
        return
    # Other networks are left out, because weights depend on the ends.
    alone = jax.tree.map(jnp.zeros_like, nets)._replace(policy=nets.policy)
    here, there = (slope(alone, x, jax.random.key(1))[0].policy for x in (batch, moved(batch)))
    assert equal(here, there)
    assert any((leaf != 0).any() for leaf in jax.tree.leaves(here))


@each_algorithm
def test_staying_for_ever_without_a_discount_is_refused(algorithm):
    """By a sentence when the fleet is made, if the algorithm has a discount."""
    options = Options(terminal="stay")
    if not hasattr(algorithm, "gamma"):
        assert Fleet((Member(algorithm, options=options),), (DATA,))
        return
    member = Member(replace(algorithm, gamma=1.0), options=options)
    with pytest.raises(LobsDICEError, match="with gamma = 1, episodes that stay at their ends"):
        Fleet((member,), (DATA,))
    for other in ("restart", "keep"):
        assert Fleet((replace(member, options=Options(terminal=other)),), (DATA,))


def test_every_algorithm_has_a_page_with_its_source_its_objective_and_when_to_use_it():
    for name, kind in ALGORITHMS.items():
        page = (DOCS / "algorithms" / f"{name}.md").read_text()
        head, _, body = page.partition("\n## Objective\n")
        assert f"`lobsdice train {name}`, `lobsdice.{kind.__name__}`" in head, name
        assert all(paper in page for paper in re.findall(r"\d{4}\.\d{5}", kind.citation)), name
        for heading in ("When to use it", "Options", "Where we differ"):
            assert f"\n## {heading}" in body, (name, heading)


def test_all_parts_of_a_policy_of_several_gaussians_learn():
    for name in ("opolo", "lobsdice"):
        made: Any = small(ALGORITHMS[name])
        algorithm = replace(made, components=2)
        before, after_it = started(algorithm), outcome(Member(algorithm), datas=[noise_data()])
        last = before.policy.net.biases[-1]
        assert last.shape == (2 * (2 * DATA.action_space.feature_size + 1),)
        moved = np.asarray(after_it.policy.net.biases[-1][0]) != np.asarray(last)
        assert moved.all(), name  # means, deviations and shares

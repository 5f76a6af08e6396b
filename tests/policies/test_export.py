"""Exported policies act like the policy, whatever its actions, or are not written."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import onnx
import onnxruntime
import pytest

from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.agreement import AGREEMENT, ENOUGH, difference, likely_observations, some_of
from lobsdice.policies.numpy import export_numpy, to_source
from lobsdice.policies.onnx import export_onnx
from lobsdice.policies.policy import Policy

BOX = Box.of([-2.0, 0.1, -1e-3], [2.0, 10.7, 5e-3])
NAMES = ("hip", "knee", "größe 🦿")
MOMENTS = (np.array([1, -2, 30], np.float32), np.array([2, 1, 1e-3], np.float32))
NORMALISER = Normaliser(*MOMENTS, names=NAMES)

SPACES = {"box": BOX, "discrete": Discrete(5), "one number": Box.of([3], [3.5])}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))


def make(space: ActionSpace = BOX, *, hidden=(32, 32), gain=1.0, seed=0, components=1) -> Policy:
    """A policy with random weights; `gain` widens its outputs."""
    random = np.random.default_rng(seed)
    outputs = 2 * space.size if isinstance(space, Box) else space.n
    if components > 1:
        outputs = components * (outputs + 1)
    sizes = (3, *hidden, outputs)
    weights = [random.normal(size=pair) / pair[0] ** 0.5 for pair in zip(sizes, sizes[1:])]  # noqa: B905, RUF007
    weights[-1] *= gain
    return Policy(
        tuple(weight.astype(np.float32) for weight in weights),
        tuple(random.normal(size=n).astype(np.float32) for n in sizes[1:]),
        NORMALISER,
        space,
    )


@pytest.fixture(params=[2, 5], ids=["two Gaussians", "five"])
def mixture(request) -> Policy:
    return make(components=request.param)


def session(path) -> onnxruntime.InferenceSession:
    return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])


def agree(policy: Policy, actions, expected) -> None:
    assert actions.shape == np.shape(expected) and actions.dtype == expected.dtype
    if isinstance(policy.action_space, Discrete):
        return np.testing.assert_array_equal(actions, expected)
    unit = np.subtract(policy.action_space.high, policy.action_space.low)
    np.testing.assert_allclose(actions / unit, expected / unit, atol=AGREEMENT)


@every_space
@pytest.mark.parametrize("gain", [1.0, 20.0], ids=["inside", "at the bounds"])
def test_the_graph_acts_like_the_policy(tmp_path, space, gain):
    policy = make(space, gain=gain)
    rows = likely_observations(policy, 300)
    assert export_onnx(policy, tmp_path / "p.onnx", rows) <= AGREEMENT
    run = session(tmp_path / "p.onnx").run
    for n in (1, 7, 300):
        agree(policy, run(None, {"observation": rows[:n]})[0], policy(rows[:n]))


@every_space
def test_the_same_noise_gives_the_same_draw(tmp_path, space):
    policy = make(space)
    rows = likely_observations(policy, 300)
    export_onnx(policy, tmp_path / "p.onnx", rows, stochastic=True)
    random, again = np.random.default_rng(7), np.random.default_rng(7)
    if isinstance(space, Box):
        noise = random.standard_normal((300, space.size), np.float32)
    else:
        noise = random.gumbel(size=(300, space.n)).astype(np.float32)
    (actions,) = session(tmp_path / "p.onnx").run(None, {"observation": rows, "noise": noise})
    agree(policy, actions, policy(rows, again))
    assert np.any(actions != policy(rows))


@pytest.mark.parametrize("hidden", [(), (8,), (8, 8, 8)], ids=str)
def test_networks_of_any_depth(tmp_path, hidden):
    policy = make(hidden=hidden)
    rows = likely_observations(policy)
    assert export_onnx(policy, tmp_path / "p.onnx", rows, stochastic=True) <= AGREEMENT
    file = {}
    exec(to_source(policy), file)
    agree(policy, file["predict"](rows), policy(rows))


@pytest.mark.parametrize("stochastic", [False, True], ids=["likeliest", "drawn"])
@every_space
def test_the_graph_says_what_it_takes(tmp_path, space, stochastic):
    policy = make(space)
    export_onnx(policy, tmp_path / "p.onnx", likely_observations(policy), stochastic=stochastic)
    found = session(tmp_path / "p.onnx")
    size = space.size if isinstance(space, Box) else space.n
    inputs = {x.name: (x.type, x.shape) for x in found.get_inputs()}
    assert inputs.pop("observation") == ("tensor(float)", ["batch", 3])
    assert inputs == ({"noise": ("tensor(float)", ["batch", size])} if stochastic else {})
    (action,) = found.get_outputs()
    if isinstance(space, Box):
        assert (action.type, action.shape) == ("tensor(float)", ["batch", size])
    else:
        assert (action.type, action.shape) == ("tensor(int64)", ["batch"])
    facts = found.get_modelmeta().custom_metadata_map
    assert facts["observation_size"] == "3" and facts["lobsdice_version"]
    assert json.loads(facts["observation_names"]) == list(NAMES)
    wanted = {"n": 5} if isinstance(space, Discrete) else {"low": list(space.low)}
    assert wanted.items() <= json.loads(facts["action_space"]).items()
    onnx.checker.check_model(tmp_path / "p.onnx", full_check=True)


def test_the_graph_of_a_mixture_acts_like_the_policy(tmp_path, mixture):
    rows = likely_observations(mixture, 300)
    assert export_onnx(mixture, tmp_path / "p.onnx", rows) <= AGREEMENT
    run = session(tmp_path / "p.onnx").run
    for n in (1, 7, 300):
        agree(mixture, run(None, {"observation": rows[:n]})[0], mixture(rows[:n]))


def test_the_noise_of_a_mixture_is_normal_and_then_gumbel(tmp_path, mixture):
    rows = likely_observations(mixture, 300)
    export_onnx(mixture, tmp_path / "p.onnx", rows, stochastic=True)
    found, random = session(tmp_path / "p.onnx"), np.random.default_rng(7)
    normal = random.standard_normal((300, 3), np.float32)
    gumbel = random.gumbel(size=(300, mixture.components)).astype(np.float32)
    noise = np.concatenate([normal, gumbel], axis=1)
    (actions,) = found.run(None, {"observation": rows, "noise": noise})
    agree(mixture, actions, mixture(rows, np.random.default_rng(7)))
    (still,) = found.run(None, {"observation": rows, "noise": 0 * noise})
    agree(mixture, still, mixture(rows))  # no noise: the likeliest component's mean
    facts = found.get_modelmeta().custom_metadata_map
    assert facts["noise"] == "3 standard normal, then standard Gumbel"


def test_the_python_file_of_a_mixture_acts_like_the_policy(tmp_path, mixture):
    rows = likely_observations(mixture, 20)
    assert export_numpy(mixture, tmp_path / "mine.py", rows) <= AGREEMENT
    file = {}
    exec((tmp_path / "mine.py").read_text(), file)
    agree(mixture, file["predict"](rows[0]), mixture(rows[0]))
    drawn = (act(rows, np.random.default_rng(3)) for act in (file["predict"], mixture))
    agree(mixture, *drawn)


def test_components_that_are_level_may_act_either_way_but_nothing_between_may():
    """Two components 2 apart with equal shares, and one that is far behind."""
    outputs = [0.5, -0.5, 0.0, 0, 0, 0, 3.0, 3.0, 1.0]  # means, log deviations, log shares
    policy = replace(
        make(Box.of([-1], [1])),
        weights=(np.zeros((3, 9), np.float32),),
        biases=(np.array(outputs, np.float32),),
    )
    rows = likely_observations(policy, 1)
    for action, wanted in [(0.5, 0), (-0.5, 0), (0.0, 0.23), (0.5 + 0.02, 0.008)]:
        found = difference(policy, rows, np.tanh(np.array([[action]], np.float32)), None)
        assert found == pytest.approx(wanted, abs=0.002)
    assert difference(policy, rows, np.array([0.5], np.float32), None) == np.inf


def in_a_fresh_interpreter(code: str, folder) -> list[str]:
    command = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path.insert(0, {str(folder)!r}); {code}",
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return result.stdout.splitlines()


@every_space
def test_the_numpy_acts_alone(tmp_path, space):
    policy = make(space)
    rows = likely_observations(policy, 20)
    assert export_numpy(policy, tmp_path / "mine.py", rows) <= AGREEMENT
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import numpy as np; from mine import predict; "
        f"x = np.load({str(tmp_path / 'rows.npy')!r}); "
        "print(predict(x).tolist()); print(predict(x[0]).tolist()); print(predict(x[0].tolist())); "
        "print(predict(x, np.random.default_rng(3)).tolist()); "
        "print({name.partition('.')[0] for name in sys.modules} - sys.stdlib_module_names)"
    )
    many, one, _, drawn, modules = in_a_fresh_interpreter(code, tmp_path)
    kind = np.int64 if isinstance(space, Discrete) else np.float32
    agree(policy, np.array(json.loads(many), kind), policy(rows))
    agree(policy, np.array(json.loads(one), kind), policy(rows[0]))
    agree(policy, np.array(json.loads(drawn), kind), policy(rows, np.random.default_rng(3)))
    assert "numpy" in modules and not any(x in modules for x in ("lobsdice", "jax", "safetensors"))


def test_the_numpy_refuses_what_it_cannot_act_on_and_holds_no_pickle(tmp_path):
    policy = make()
    export_numpy(policy, tmp_path / "mine.py", likely_observations(policy))
    text = (tmp_path / "mine.py").read_text()
    assert text.isascii() and "pickle" not in text and max(map(len, text.splitlines())) <= 100
    file = {}
    exec(text, file)
    with pytest.raises(ValueError, match="observations of 3 numbers, not of shape"):
        file["predict"](np.zeros(4))
    with pytest.raises(ValueError, match=r"the policy takes finite numbers, not .*nan"):
        file["predict"]([0, 0, np.nan])
    assert file["OBSERVATION_NAMES"] == list(NAMES)
    assert file["OBSERVATION_SIZE"] == 3 and file["ACTION_SPACE"]["low"] == list(BOX.low)


WRITERS = {"onnx": export_onnx, "numpy": export_numpy}
every_writer = pytest.mark.parametrize("module", list(WRITERS))


@every_writer
@pytest.mark.parametrize("wrong", [1.001, np.nan], ids=["off", "nan"])
@pytest.mark.parametrize("before", [None, "what was there"], ids=["new", "replaced"])
def test_a_file_that_acts_otherwise_is_not_left(tmp_path, monkeypatch, module, wrong, before):
    """The weights are spoilt on their way into the file."""
    policy, path = make(), tmp_path / "policy.py"
    if before is not None:
        path.write_text(before)
    spoilt = [(w * np.float32(wrong), b) for w, b in policy.layers()]
    monkeypatch.setattr(Policy, "layers", lambda _: spoilt)
    with pytest.raises(LobsDICEError, match=r"policy\.py was not written: its actions differ"):
        WRITERS[module](policy, path, likely_observations(policy))
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["policy.py"])
    assert before is None or path.read_text() == before


def test_a_python_file_that_does_not_run_is_not_left(tmp_path, monkeypatch):
    home = importlib.import_module("lobsdice.policies.numpy")
    monkeypatch.setattr(home, "DISCRETE", "def _action(output, random):\n    return nothing\n\n\n")
    policy = make(Discrete(4))
    with pytest.raises(LobsDICEError, match="does not run: NameError: name 'nothing'"):
        export_numpy(policy, tmp_path / "p.py", likely_observations(policy))
    assert not list(tmp_path.iterdir())


@every_writer
@pytest.mark.parametrize("shape", [(5, 4), (3,), (0, 3)], ids=str)
def test_observations_of_another_shape_are_a_sentence(tmp_path, module, shape):
    with pytest.raises(
        LobsDICEError, match="takes observations of 3 numbers, but those for the check"
    ):
        WRITERS[module](make(), tmp_path / "p", np.zeros(shape))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_a_sentence(tmp_path, monkeypatch, package):
    policy = make()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(LobsDICEError, match=rf"needs {package}, .* 'lobsdice\[onnx\]'"):
        export_onnx(policy, tmp_path / "p.onnx", likely_observations(policy))
    assert not list(tmp_path.iterdir())


def test_a_tie_of_scores_may_go_either_way_but_nothing_else():
    weights = np.zeros((3, 4), np.float32)
    policy = replace(
        make(Discrete(4)), weights=(weights,), biases=(np.array([1, 3, 3, 2], np.float32),)
    )
    rows = likely_observations(policy, 2)
    for action, wanted in [(1, 0), (2, 0), (3, 1 / 3), (4, np.inf), (-1, np.inf)]:
        found = difference(policy, rows, np.array([1, action]), None)
        assert found == pytest.approx(wanted)
    assert difference(policy, rows, np.array([1.0, 1.0]), None) == np.inf
    assert difference(policy, rows, np.array([[1], [1]]), None) == np.inf


def test_neighbouring_numbers_are_equal_in_a_box_far_from_zero(tmp_path):
    policy = make(Box.of([1e6], [1e6 + 1]))
    rows = likely_observations(policy)
    assert export_onnx(policy, tmp_path / "p.onnx", rows) <= AGREEMENT
    shifted = np.asarray(policy(rows)) + np.float32(0.25)
    assert difference(policy, rows, shifted, None) == pytest.approx(0.125)


def test_wild_observations_do_not_veto_an_export(tmp_path):
    """Far from the data rounding alone makes a difference of more than 1e-5."""
    policy = make(Box.of([-1] * 6, [1] * 6), hidden=(256, 256))
    rows = likely_observations(policy)
    wild = NORMALISER.mean + 100 * (rows - NORMALISER.mean)
    assert export_onnx(policy, tmp_path / "p.onnx", np.concatenate([rows, wild])) <= AGREEMENT
    assert difference(policy, wild, np.asarray(policy(wild)) + np.float32(1e-2), None) > AGREEMENT
    wrong = np.asarray(policy(rows)) + np.float32(1e-4)
    assert difference(policy, rows, wrong, None) > AGREEMENT


def test_of_many_observations_enough_are_looked_at():
    policy = make()
    rows = likely_observations(policy, 3 * ENOUGH + 1)
    assert ENOUGH / 2 <= len(some_of(policy, rows)) <= ENOUGH
    assert len(some_of(policy, rows[:5])) == 5


def test_likely_observations_look_like_the_data():
    rows = likely_observations(make(), 20_000)
    np.testing.assert_allclose(rows.mean(0), NORMALISER.mean, atol=0.05)
    np.testing.assert_allclose(rows.std(0), NORMALISER.scale, rtol=0.05)

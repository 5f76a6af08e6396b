"""A saved policy acts like the network that was trained, in the user's units, without JAX."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from safetensors.numpy import load_file, save_file
from worlds import noise

from lobsdice.algorithms.networks import Categorical, TanhGaussian, TanhMixture, make_policy
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.prepare import prepare
from lobsdice.data.spaces import ActionSpace, Box, Discrete
from lobsdice.errors import LobsDICEError
from lobsdice.policies.policy import FACTS, Policy, load_policy

BOX = Box.of([-2.0, 0.0], [2.0, 10.0])
NORMALISER = Normaliser(np.array([1, -2, 3], np.float32), np.array([2, 1, 0.5], np.float32))


def pair(space: ActionSpace = BOX, normaliser=NORMALISER, *, gain: float = 1.0):
    """A network, and the policy made of it; `gain` widens its outputs."""
    size = len(normaliser.mean)
    random = np.random.default_rng(1)
    net = make_policy(jax.random.key(1), size, space, 32)
    net = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape) / 4, jnp.float32), net)
    net.net.weights[-1] = net.net.weights[-1] * jnp.float32(gain)
    weights, biases = (tuple(map(np.asarray, x)) for x in (net.net.weights, net.net.biases))
    return net, Policy(weights, biases, normaliser, space)


def observations(n: int = 200, seed: int = 0):
    return np.random.default_rng(seed).normal(size=(n, 3)).astype(np.float32) * 5


def expected(net, policy, s):
    """What the trained network says, by JAX."""
    states = jnp.asarray(policy.normaliser(s))
    if isinstance(net, Categorical):
        return np.asarray(net.net(states)).argmax(-1)
    return policy.action_space.decode(np.asarray(np.tanh(net.moments(states)[0])))


@pytest.mark.parametrize("space", [BOX, Discrete(5)], ids=["box", "discrete"])
@pytest.mark.parametrize("gain", [1.0, 10.0], ids=["inside", "at the bounds"])
def test_the_likeliest_action_is_the_networks(space, gain):
    net, policy = pair(space, gain=gain)
    s = observations()
    unit = (np.array(BOX.high) - BOX.low) / 2 if space is BOX else 1
    np.testing.assert_allclose(policy(s) / unit, expected(net, policy, s) / unit, atol=1e-5)


@pytest.mark.parametrize("space", [BOX, Discrete(5)], ids=["box", "discrete"])
def test_one_observation_or_many_or_more_axes(space):
    _, policy = pair(space)
    s = observations(6)
    many = np.asarray(policy(s))
    for row, action in zip(s, many, strict=True):
        assert np.shape(policy(row)) == np.shape(action)
        np.testing.assert_allclose(policy(row), action, atol=1e-5)
        np.testing.assert_allclose(policy(row.tolist()), action, atol=1e-5)
    again = np.reshape(policy(s.reshape(2, 3, 3)), np.shape(many))
    np.testing.assert_allclose(again, many, atol=1e-5)


def test_random_actions_have_the_networks_moments():
    net, policy = pair()
    assert isinstance(net, TanhGaussian)
    s, n = observations(1), 100_000
    mean, log_std = (np.asarray(x)[0] for x in net.moments(jnp.asarray(policy.normaliser(s))))
    actions = policy(np.repeat(s, n, axis=0), np.random.default_rng(0))
    inner = BOX.encode(np.asarray(actions)).astype(np.float64)
    inside = (np.abs(inner) < 1).all(axis=1)  # float32 rounds the outermost to the bound
    assert inside.mean() > 0.99
    # Quantiles rather than moments, for rounding near the bounds moves the tails.
    low, middle, high = np.quantile(np.arctanh(np.clip(inner, -1 + 1e-9, 1 - 1e-9)), (
        0.158655, 0.5, 0.841345), axis=0)  # fmt: skip
    np.testing.assert_allclose(middle, mean, atol=5 * np.exp(log_std).max() * 1.25 / n**0.5)
    np.testing.assert_allclose((high - low) / 2, np.exp(log_std), rtol=0.02)


def test_random_discrete_actions_have_the_networks_probabilities():
    net, policy = pair(Discrete(5))
    s, n = observations(1), 100_000
    actions = policy(np.repeat(s, n, axis=0), np.random.default_rng(0))
    p = np.asarray(jax.nn.softmax(net.net(jnp.asarray(policy.normaliser(s)))))[0]
    found = np.bincount(np.asarray(actions), minlength=5) / n
    np.testing.assert_allclose(found, p, atol=5 * np.sqrt(0.25 / n))


def mixed(components: int = 3):
    """A mixture, and the policy made of it."""
    random = np.random.default_rng(1)
    net = make_policy(jax.random.key(1), 3, BOX, 32, components)
    net = jax.tree.map(lambda x: jnp.asarray(random.normal(size=x.shape) / 4, jnp.float32), net)
    weights, biases = (tuple(map(np.asarray, x)) for x in (net.net.weights, net.net.biases))
    return net, Policy(weights, biases, NORMALISER, BOX)


def test_the_likeliest_action_of_a_mixture_is_the_networks():
    net, policy = mixed()
    assert isinstance(net, TanhMixture) and policy.components == 3
    s = observations()
    inner = np.asarray(net.likeliest(jnp.asarray(policy.normaliser(s))))
    unit = (np.array(BOX.high) - BOX.low) / 2
    np.testing.assert_allclose(policy(s) / unit, BOX.decode(inner) / unit, atol=1e-5)
    assert policy(s[0]).shape == (2,) and policy(s.reshape(2, 50, 2, 3)).shape == (2, 50, 2, 2)


def test_random_actions_of_a_mixture_have_the_networks_moments():
    net, policy = mixed()
    s, n = observations(1), 50_000
    drawn = BOX.encode(np.asarray(policy(np.repeat(s, n, axis=0), np.random.default_rng(0))))
    states = jnp.asarray(np.repeat(policy.normaliser(s), n, axis=0))
    wanted = np.asarray(net.sample(states, jax.random.key(0)))
    for power in (1, 2):
        np.testing.assert_allclose((drawn**power).mean(0), (wanted**power).mean(0), atol=0.02)


def test_a_mixture_is_the_same_after_saving_and_a_wrong_number_of_outputs_is_refused(tmp_path):
    _, policy = mixed()
    policy.save(tmp_path / "mine.policy")
    again = load_policy(tmp_path / "mine.policy")
    assert again.components == 3
    np.testing.assert_array_equal(again(observations()), policy(observations()))
    cut = [(*x[:-1], x[-1][..., :-1]) for x in (policy.weights, policy.biases)]
    replace(policy, weights=cut[0], biases=cut[1]).save(tmp_path / "cut.policy")
    with pytest.raises(LobsDICEError, match="do not fit each other"):
        load_policy(tmp_path / "cut.policy")


def test_the_same_generator_gives_the_same_action():
    _, policy = pair()
    draws = [policy(np.ones(3), np.random.default_rng(seed)) for seed in (0, 0, 1)]
    assert (draws[0] == draws[1]).all() and (draws[0] != draws[2]).any()


def test_predict_is_that_of_stable_baselines3():
    _, policy = pair()
    action, state = policy.predict(np.ones(3))
    assert state is None and (action == policy(np.ones(3))).all()
    assert (policy.predict(np.ones(3), deterministic=False)[0] != action).any()
    memory = (np.zeros(1),)
    assert policy.predict(np.ones(3), memory, np.array([True]))[1] is memory


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("deterministic", [True, False], ids=["likeliest", "drawn"])
def test_predictions_lie_in_gymnasiums_space(seed, deterministic):
    """Even at the bounds, where rounding could put them a last digit outside."""
    random = np.random.default_rng(seed)
    low = (10 * random.normal(size=2)).astype(np.float32)
    theirs = spaces.Box(low, low + random.exponential(size=2).astype(np.float32))
    _, policy = pair(Box.of(theirs.low, theirs.high), gain=100.0)
    many = np.asarray(policy.predict(observations(), deterministic=deterministic)[0])
    assert all(row in theirs for row in many)
    assert (many - theirs.low < 1e-3 * (theirs.high - theirs.low)).any()
    one, _ = policy.predict(observations(1)[0], deterministic=deterministic)
    assert one in theirs


def test_discrete_predictions_lie_in_gymnasiums_space():
    _, policy = pair(Discrete(5))
    many = np.asarray(policy.predict(observations(), deterministic=False)[0])
    assert many.shape == (200,) and all(action in spaces.Discrete(5) for action in many)
    assert policy.predict(np.ones(3))[0] in spaces.Discrete(5)


@pytest.mark.parametrize("space", [BOX, Discrete(5)], ids=["box", "discrete"])
def test_a_saved_policy_acts_alike(tmp_path, space):
    _, policy = pair(space)
    policy.save(tmp_path / "new" / "policy.safetensors")
    again = load_policy(tmp_path / "new" / "policy.safetensors")
    s = observations()
    assert (again(s) == policy(s)).all() and again.action_space == space


def test_a_file_of_an_earlier_version_acts_as_before(tmp_path):
    """Its network has one more input, which was 0 for all observations."""
    mean, scale = (np.append(x, np.float32(1)) for x in NORMALISER[:2])
    net, policy = pair(normaliser=Normaliser(mean, scale))
    path = tmp_path / "p.safetensors"
    policy.save(path)
    moments = {"mean": NORMALISER.mean, "scale": NORMALISER.scale}
    facts = {"indicator": True, "action_space": BOX.to_json()}
    save_file(load_file(path) | moments, path, metadata={FACTS: json.dumps(facts)})
    s = observations()
    states = np.concatenate([NORMALISER(s), np.zeros((len(s), 1), np.float32)], axis=1)
    middle = np.asarray(np.tanh(net.moments(jnp.asarray(states))[0]))
    np.testing.assert_allclose(load_policy(path)(s), BOX.decode(middle), atol=1e-5)


def test_a_policy_knows_what_its_observations_are_called(tmp_path):
    named = replace(noise(80), observation_names=("hip", "knee", "größe"))
    path = tmp_path / "p.safetensors"
    _, policy = pair(normaliser=prepare(noise(40, seed=1), named).normaliser)
    policy.save(path)
    assert load_policy(path).normaliser.names == named.observation_names
    replace(policy, normaliser=policy.normaliser._replace(names=("hip",))).save(path)
    refused(path)


def test_loading_and_acting_needs_no_jax(tmp_path):
    _, policy = pair()
    policy.save(tmp_path / "p.safetensors")
    code = (
        "import sys, lobsdice; print(*lobsdice.load_policy(sys.argv[1])([1, 2, 3])); "
        "print([m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'equinox')])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "p.safetensors")]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    action, modules = result.stdout.splitlines()
    np.testing.assert_allclose(np.array(action.split(), float), policy([1, 2, 3]), rtol=1e-6)
    assert modules == "[]"


@pytest.mark.parametrize("shape", [(), (2,), (4,), (3, 2)])
def test_an_observation_of_the_wrong_size_is_a_sentence(shape):
    _, policy = pair()
    with pytest.raises(LobsDICEError, match="takes observations of 3 numbers, not of shape"):
        policy(np.zeros(shape))


@pytest.mark.parametrize("space", [BOX, Discrete(5)], ids=["box", "discrete"])
def test_an_observation_that_is_not_finite_is_a_sentence(space):
    _, policy = pair(space)
    with pytest.raises(LobsDICEError, match=r"finite 32-bit numbers, but observation\[1\] is nan"):
        policy([0.0, np.nan, 0.0])
    with pytest.raises(LobsDICEError, match=r"but observation\[4, 2\] is -inf"):
        policy.predict(np.where(np.arange(15).reshape(5, 3) == 14, -np.inf, 0))


def refused(path):
    with pytest.raises(LobsDICEError, match="not a policy that lobsdice wrote") as caught:
        load_policy(path)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_a_missing_file_is_a_sentence(tmp_path):
    with pytest.raises(LobsDICEError, match="there is no such file"):
        load_policy(tmp_path / "nowhere.safetensors")
    with pytest.raises(LobsDICEError, match="the folder has no policy; name a run folder"):
        load_policy(tmp_path)


def test_a_cut_or_garbled_file_is_a_sentence(tmp_path):
    path = tmp_path / "p.safetensors"
    pair()[1].save(path)
    whole = path.read_bytes()
    for part in (b"", whole[:4], whole[:100], whole[:-1], whole[::-1], b"{}" + whole):
        path.write_bytes(part)
        refused(path)


def test_a_foreign_file_is_a_sentence(tmp_path):
    path = tmp_path / "p.safetensors"
    save_file({"weight_0": np.zeros((3, 4), np.float32)}, path)
    refused(path)


ODD = {
    "layers that do not chain": {"weight_1": np.zeros((5, 32), np.float32)},
    "a bias of the wrong size": {"bias_0": np.zeros(31, np.float32)},
    "too few actions": {"weight_2": np.zeros((32, 3), np.float32), "bias_2": np.zeros(3, "f4")},
    "a bias without a size": {"bias_0": np.zeros((), np.float32)},
    "a scale of another size": {"scale": np.ones(2, np.float32)},
    "whole numbers": {"weight_0": np.zeros((3, 32), np.int32)},
    "not finite": {"bias_1": np.full(32, np.nan, np.float32)},
    "a mean that is not finite": {"mean": np.full(3, np.nan, np.float32)},
    "a layer too many": {"weight_9": np.zeros((3, 3), np.float32)},
    "a scale of 0": {"scale": np.zeros(3, np.float32)},
    "a scale below 0": {"scale": np.full(3, -1, np.float32)},
    "a scale without end": {"scale": np.full(3, np.inf, np.float32)},
    "weights whose sums have no end": {
        f"weight_{i}": np.full(s, 1e30, "f4") for i, s in enumerate([(3, 32), (32, 32), (32, 4)])
    },
}


@pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
def test_arrays_that_do_not_fit_are_a_sentence(tmp_path, odd):
    path = tmp_path / "p.safetensors"
    pair()[1].save(path)
    facts = {"action_space": BOX.to_json()}
    save_file(load_file(path) | odd, path, metadata={FACTS: json.dumps(facts)})
    refused(path)


DEEP = "[" * 200_000 + "]" * 200_000
SPACE = '"action_space": {"low": [0, 0], "high": [1, 1]}'
FOREIGN_FACTS = {
    "no JSON": "hello",
    "nested deeply": DEEP,
    "a space that is nested deeply": f'{{"action_space": {DEEP}}}',
    "a list": "[]",
    "no object": "null",
    "a huge bound": f'{{"action_space": {{"low": [0, 0], "high": [1, 1{"0" * 400}]}}}}',
    "a bound of many digits": f'{{"action_space": {{"low": [0, 0], "high": [1, 1{"0" * 9999}]}}}}',
    "bounds that are texts": '{"action_space": {"low": ["a", "b"], "high": ["c", "d"]}}',
    "bounds that are nested": '{"action_space": {"low": {"a": 1}, "high": [[1], [2, 3]]}}',
    "a bound that is NaN": '{"action_space": {"low": [0, 0], "high": [1, NaN]}}',
    "a huge number of actions": f'{{"action_space": {{"n": 1{"0" * 400}}}}}',
    "half an action": '{"action_space": {"n": 4.0}}',
    "a space that is a text": '{"action_space": "n"}',
    "a space that is a number": '{"action_space": 4}',
    "names that are a text": f'{{{SPACE}, "observation_names": "abc"}}',
    "names that are numbers": f'{{{SPACE}, "observation_names": [1, 2, 3]}}',
}


@pytest.mark.parametrize("facts", FOREIGN_FACTS.values(), ids=list(FOREIGN_FACTS))
def test_facts_of_other_types_are_a_sentence(tmp_path, facts):
    path = tmp_path / "p.safetensors"
    pair()[1].save(path)
    save_file(load_file(path), path, metadata={FACTS: facts})
    refused(path)


def test_a_file_without_layers_is_a_sentence(tmp_path):
    path = tmp_path / "p.safetensors"
    arrays = {"mean": np.zeros(4, np.float32), "scale": np.ones(4, np.float32)}
    save_file(arrays, path, metadata={FACTS: json.dumps({"action_space": BOX.to_json()})})
    refused(path)


def test_a_pipe_or_a_device_is_a_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", "/dev/zero"):
        refused(path)


def test_the_policy_sees_what_training_saw():
    """Recorded observations come out as the states of the data."""
    offline = noise(80)
    data = prepare(noise(40, seed=1), offline)
    _, policy = pair(data.action_space, data.normaliser)
    seen = replace(policy, weights=(np.eye(3, dtype="f4"),), biases=(np.zeros(3, "f4"),))
    rows = seen._network(offline.observations[offline.starts])
    np.testing.assert_allclose(rows, data.init, atol=1e-6)

"""A policy as an ONNX graph: the user's units on both sides, normaliser and bounds inside.

observation  float32 [batch, width]
noise        float32 [batch, size], only for stochastic policies: standard normal for actions
             in a box, standard Gumbel (-log(-log(u)), u uniform in (0, 1)) for discrete ones;
             for a mixture of Gaussians both, a normal one for each coordinate and then a Gumbel
             one for each component
action       float32 [batch, size], or int64 [batch]
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lobsdice import __version__
from lobsdice.data.files import atomic
from lobsdice.data.spaces import LOG_STD_BOUNDS, MEAN_BOUND, Box
from lobsdice.errors import require
from lobsdice.policies.agreement import Rows, draw_noise, require_agreement, some_of
from lobsdice.policies.contract import NO_UNITS, Units, check_facts, write_contract
from lobsdice.policies.policy import Policy

#: Old enough for the runtimes of recent years, on any device.
OPSET, IR_VERSION = 17, 8


def export_onnx(
    policy: Policy,
    path: str | Path,
    observations,
    *,
    stochastic: bool = False,
    units: Units = NO_UNITS,
    rate: float | int | None = None,
) -> float:
    """Write an ONNX file; return the largest difference of its actions from the policy's.

    It is measured on `observations`, as a share of the actions' range. A file that differs by more
    than 1e-5 is not written. The contract beside it also states the `units` of the quantities, by
    their names, and the `rate`: the number of actions a second.
    """
    path = Path(path)
    check_facts(policy, units, rate)
    rows = some_of(policy, observations)
    graph = to_onnx(policy, stochastic=stochastic).SerializeToString()
    with atomic(path) as temporary:
        temporary.write_bytes(graph)
        act = Session(temporary, policy)
        found = require_agreement(path, policy, rows, act, stochastic=stochastic)
    write_contract(policy, path, units, rate)
    return found


def to_onnx(policy: Policy, *, stochastic: bool = False) -> Any:
    """The model, as an `onnx.ModelProto`."""
    onnx = _require("onnx")
    graph = Graph(onnx)
    if isinstance(policy.action_space, Box):
        _add_box(graph, policy, stochastic)
    else:
        _add_discrete(graph, policy, stochastic)
    model = onnx.helper.make_model(
        graph.finish(_inputs(onnx, policy, stochastic), _output(onnx, policy)),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="lobsdice",
        producer_version=__version__,
    )
    onnx.helper.set_model_props(model, metadata(policy, stochastic))
    onnx.checker.check_model(model, full_check=True)
    return model


def metadata(policy: Policy, stochastic: bool) -> dict[str, str]:
    """The metadata of the file."""
    kind = "standard normal" if isinstance(policy.action_space, Box) else "standard Gumbel"
    if policy.components > 1:
        kind = f"{policy.action_space.feature_size} standard normal, then standard Gumbel"
    return {
        "lobsdice_version": __version__,
        "observation_size": str(len(policy.normaliser.mean)),
        "observation_names": json.dumps(policy.normaliser.names),
        "action_space": json.dumps(policy.action_space.to_json()),
        "noise": kind if stochastic else "none",
    }


@dataclass(frozen=True)
class Session:
    """A policy that ONNX Runtime runs from a file."""

    path: Path
    policy: Policy
    """The policy that the file was made from: its action space determines the noise."""

    def __call__(self, observations: Rows, seed: int | None) -> np.ndarray:
        runtime = _require("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # no warnings about devices that it does not find
        session = runtime.InferenceSession(self.path, options, providers=["CPUExecutionProvider"])
        feed = {"observation": observations}
        if seed is not None:
            feed["noise"] = draw_noise(self.policy, seed, len(observations))
        (action,) = session.run(["action"], feed)
        return np.asarray(action)


@dataclass(frozen=True)
class Graph:
    """An ONNX graph under construction. Each value has its own name."""

    onnx: Any
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)

    def add(self, kind: str, *inputs: str, to: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [to], **attributes))
        return to

    def constant(self, name: str, value) -> str:
        array = np.ascontiguousarray(value, np.float32)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def whole(self, name: str, values: Sequence[int]) -> str:
        """A constant of whole numbers."""
        array = np.array(values, np.int64)
        self.constants.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def columns(self, x: str, first: int, stop: int, *, to: str) -> str:
        """Some of the columns of a matrix."""
        ends = (self.whole(f"{to}_{i}", [n]) for i, n in enumerate((first, stop, 1)))
        return self.add("Slice", x, *ends, to=to)

    def affine(self, x: str, weight: np.ndarray, bias: np.ndarray, *, to: str) -> str:
        names = self.constant(f"{to}_weight", weight), self.constant(f"{to}_bias", bias)
        return self.add("Gemm", x, *names, to=to)

    def clipped(self, x: str, low: float, high: float, *, to: str) -> str:
        bounds = self.constant(f"{to}_low", low), self.constant(f"{to}_high", high)
        return self.add("Clip", x, *bounds, to=to)

    def finish(self, inputs: Sequence[Any], output: Any) -> Any:
        return self.onnx.helper.make_graph(self.nodes, "policy", inputs, [output], self.constants)


def _add_hidden(graph: Graph, policy: Policy) -> str:
    """Add all layers but the last; return the name of the output."""
    mean = graph.constant("mean", policy.normaliser.mean)
    scale = graph.constant("scale", policy.normaliser.scale)
    x = graph.add("Sub", "observation", mean, to="centred")
    x = graph.add("Div", x, scale, to="state")
    for i, (weight, bias) in enumerate(policy.layers()[:-1]):
        x = graph.affine(x, weight, bias, to=f"layer_{i}")
        x = graph.add("Relu", x, to=f"hidden_{i}")
    return x


def _add_box(graph: Graph, policy: Policy, stochastic: bool) -> None:
    hidden, noise = _add_hidden(graph, policy), "noise"
    moments = _moments(graph, policy, hidden, stochastic)
    if policy.components > 1:
        moments = _chosen(graph, policy, hidden, moments, stochastic)
        if stochastic:
            noise = graph.columns("noise", 0, policy.action_space.feature_size, to="normal")
    x = graph.clipped(moments[0], -MEAN_BOUND, MEAN_BOUND, to="location_clipped")
    if stochastic:
        spread = graph.clipped(moments[1], *LOG_STD_BOUNDS, to="log_std_clipped")
        spread = graph.add("Exp", spread, to="std")
        spread = graph.add("Mul", spread, noise, to="deviation")
        x = graph.add("Add", x, spread, to="drawn")
    _add_units(graph, policy, x)


def _moments(graph: Graph, policy: Policy, hidden: str, stochastic: bool) -> list[str]:
    """The locations and, if stochastic, the log deviations of all components."""
    n = policy.action_space.feature_size * policy.components
    weight, bias = policy.layers()[-1]
    places = {"location": slice(n), "log_std": slice(n, 2 * n)}
    wanted = places if stochastic else ["location"]
    return [graph.affine(hidden, weight[:, places[x]], bias[places[x]], to=x) for x in wanted]


def _chosen(
    graph: Graph, policy: Policy, hidden: str, found: Sequence[str], stochastic: bool
) -> list[str]:
    """The entries of the component with the highest score."""
    size, count = policy.action_space.feature_size, policy.components
    weight, bias = policy.layers()[-1]
    scores = graph.affine(hidden, weight[:, -count:], bias[-count:], to="scores")
    if stochastic:
        gumbel = graph.columns("noise", size, size + count, to="gumbel")
        scores = graph.add("Add", scores, gumbel, to="noisy_scores")
    which = graph.add("ArgMax", scores, to="which", axis=-1, keepdims=1)
    shape = graph.whole("by_component", [-1, count, size])
    apart = [graph.add("Reshape", x, shape, to=f"{x}_apart") for x in found]
    return [graph.add("GatherND", x, which, to=f"{x}_chosen", batch_dims=1) for x in apart]


def _add_units(graph: Graph, policy: Policy, x: str) -> None:
    """Add the tanh, and the map to the user's units."""
    x = graph.add("Tanh", x, to="inner_action")
    bounds = policy.bounds
    x = graph.add("Mul", x, graph.constant("half", bounds.half), to="scaled")
    x = graph.add("Add", x, graph.constant("centre", bounds.centre), to="shifted")
    x = graph.add("Max", x, graph.constant("low", bounds.low), to="above_low")
    graph.add("Min", x, graph.constant("high", bounds.high), to="action")


def _add_discrete(graph: Graph, policy: Policy, stochastic: bool) -> None:
    x = graph.affine(_add_hidden(graph, policy), *policy.layers()[-1], to="scores")
    if stochastic:
        x = graph.add("Add", x, "noise", to="noisy_scores")
    graph.add("ArgMax", x, to="action", axis=-1, keepdims=0)


def _inputs(onnx: Any, policy: Policy, stochastic: bool) -> list[Any]:
    widths = {"observation": len(policy.normaliser.mean)}
    if stochastic:
        chances = policy.components if policy.components > 1 else 0
        widths["noise"] = policy.action_space.feature_size + chances
    kind = onnx.TensorProto.FLOAT
    return [
        onnx.helper.make_tensor_value_info(name, kind, ["batch", width])
        for name, width in widths.items()
    ]


def _output(onnx: Any, policy: Policy) -> Any:
    if isinstance(policy.action_space, Box):
        kind, shape = onnx.TensorProto.FLOAT, ["batch", policy.action_space.size]
    else:
        kind, shape = onnx.TensorProto.INT64, ["batch"]
    return onnx.helper.make_tensor_value_info("action", kind, shape)


_require = partial(require, needed_by="exporting to ONNX", extra="onnx")

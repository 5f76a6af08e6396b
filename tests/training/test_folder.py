"""A run's folder: what is written is read back, and what is not ours is refused."""

import json
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file
from worlds import noise_data

from lobsdice.data.spaces import Box
from lobsdice.data.steps import Observations, store
from lobsdice.errors import LobsDICEError
from lobsdice.training import folder as runs
from lobsdice.training.checkpoint import Checkpoint, named_leaves
from lobsdice.training.folder import RunFolder, fingerprint

MEMBER = {"algorithm": {"name": "BC"}, "options": {"steps": 8}, "seed": 0, "data": 0}
RUN = {"runs": [MEMBER], "data": [{"fingerprint": "ab"}], "every": 8}


class Tree(NamedTuple):
    weights: list
    steps: jax.Array


STATE = Tree([jnp.arange(6, dtype=jnp.float32).reshape(2, 3) / 7], jnp.array([3], jnp.int32))


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path / "run").begin(RUN, {"note": "x"}, resume=False)


def refused(match: str):
    return pytest.raises(LobsDICEError, match=match)


def test_a_checkpoint_comes_back_to_the_bit(folder):
    assert folder.read_checkpoint(STATE) is None
    folder.write_checkpoint(Checkpoint(8, STATE, {0: "why"}))
    step, state, failures, _ = folder.read_checkpoint(STATE)
    assert (step, failures) == (8, {0: "why"})
    assert jax.tree.structure(state) == jax.tree.structure(STATE)
    for x, y in zip(jax.tree.leaves(state), jax.tree.leaves(STATE), strict=True):
        assert x.dtype == y.dtype and (x == y).all()


def test_rows_come_back_to_the_bit(folder):
    rows = [{"step": 8, "run": i, "seed": i, "return": 0.1 * 3, "loss": -1e-9} for i in range(2)]
    rows += [{"step": 16, "run": 0, "seed": 0, "loss": float("inf")}]
    folder.write_rows(rows)
    assert folder.rows() == rows


def test_a_damaged_checkpoint_is_a_sentence(folder):
    folder.write_checkpoint(Checkpoint(8, STATE, {}))
    path = folder.path / "checkpoint.safetensors"
    whole = path.read_bytes()
    for part in (b"", whole[:50], whole[:-1]):
        path.write_bytes(part)
        with refused("checkpoint.safetensors is damaged"):
            folder.read_checkpoint(STATE)
    save_file({"x": np.zeros(3)}, path)
    with refused("checkpoint.safetensors is damaged"):
        folder.read_checkpoint(STATE)


def test_a_checkpoint_of_an_earlier_version_is_read_but_not_resumed(folder):
    """It has no checksums, and no copies of the other files."""
    arrays = {name: np.asarray(leaf) for name, leaf in named_leaves(STATE)}
    facts = {"step": 8, "failures": {"0": "why"}, "config": folder.fingerprint}
    path = folder.path / "checkpoint.safetensors"
    save_file(arrays, path, metadata={"lobsdice_checkpoint": json.dumps(facts)})
    found = RunFolder(folder.path).read_checkpoint(STATE)
    assert found is not None and (found.step, found.failures) == (8, {0: "why"})
    assert folder.failures() == {0: "why"}
    with refused("by an earlier version of lobsdice, without checksums; this version cannot"):
        folder.restore(STATE)


def test_a_checkpoint_with_other_networks_is_not_called_damaged(folder):
    folder.write_checkpoint(Checkpoint(8, STATE._replace(weights=[]), {}))
    with refused("holds other networks than this version of lobsdice"):
        folder.read_checkpoint(STATE)


def test_a_checkpoint_of_another_run_is_refused(folder, tmp_path):
    other = RunFolder(tmp_path / "other").begin(RUN | {"every": 16}, {}, resume=False)
    other.write_checkpoint(Checkpoint(8, STATE, {}))
    (other.path / "checkpoint.safetensors").rename(folder.path / "checkpoint.safetensors")
    with refused("does not belong to the run"):
        folder.read_checkpoint(STATE)


def test_a_state_of_another_shape_is_refused(folder):
    folder.write_checkpoint(Checkpoint(8, STATE, {}))
    with refused("does not belong to the run"):
        folder.read_checkpoint(STATE._replace(steps=jnp.zeros(2, jnp.int32)))


def test_a_folder_is_used_once(folder):
    with refused("already holds a run; resume it, or choose another folder"):
        folder.begin(RUN, {}, resume=False)
    folder.write_checkpoint(Checkpoint(8, STATE, {}))
    (folder.path / "config.json").unlink()
    with refused("already holds a run"):  # a checkpoint alone would be taken for the new run's
        folder.begin(RUN, {}, resume=False)
    with refused("is not a run folder"):
        folder.begin(RUN, {}, resume=True)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"run": 1}'])
def test_a_damaged_config_is_a_sentence(folder, text):
    (folder.path / "config.json").write_text(text)
    with refused("config.json cannot be read"):
        folder.begin(RUN, {}, resume=True)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a,b\n1,2\n", "some rows have no step"),
        (b"step,seed\n8,0\n", "some rows have no run"),
        (b"step,run\n8,0\n1", "some rows are longer or shorter"),
        (b"step,run\n8,0,1\n", "some rows are longer or shorter"),
        (b"step,run\n8,\xff\n", ""),
    ],
    ids=["no step", "no run", "cut", "too long", "no text"],
)
def test_damaged_metrics_are_a_sentence(folder, content, why):
    (folder.path / "metrics.csv").write_bytes(content)
    with refused(f"metrics.csv is damaged: {why}"):
        folder.rows()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").touch()
    with refused("file is a file, but runs need a folder"):
        RunFolder(tmp_path / "file").begin(RUN, {}, resume=False)
    with refused("cannot write"):
        RunFolder(tmp_path / "file" / "below").begin(RUN, {}, resume=False)
    with refused("is not a run folder"):
        RunFolder(tmp_path / "file").config()


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"every": 16}, "every: 8 before, 16 now"),
        ({"runs": [MEMBER | {"seed": 1}]}, r"runs\[0\].seed: 0 before, 1 now"),
        ({"runs": [MEMBER] * 3}, "number of runs: 1 before, 3 now"),
        ({"data": [{"fingerprint": "cd"}]}, "the data has changed"),
    ],
)
def test_another_run_is_refused_by_its_first_difference(folder, change, sentence):
    folder.begin(RUN, {}, resume=True)
    with refused(f"holds another run, which cannot be resumed as this one: {sentence}$"):
        folder.begin(RUN | change, {}, resume=True)


def test_a_run_without_an_option_of_today_is_refused_as_an_earlier_versions(folder):
    now = {"runs": [MEMBER | {"options": {"steps": 8, "terminal": "keep"}}]}
    with refused("by an earlier version of lobsdice, without the option terminal; this version"):
        folder.begin(RUN | now, {}, resume=True)


def test_other_versions_are_warned_of(folder, monkeypatch):
    monkeypatch.setattr(runs, "made_with", lambda: {"jax": "9.9"})
    with pytest.warns(UserWarning, match="bits may differ .* jax .* before, 9.9 now"):
        folder.begin(RUN, {}, resume=True)


def test_what_a_killed_process_left_is_swept_away(folder):
    policies = folder.path / "policies"
    policies.mkdir()
    ours = [
        folder.path / ".checkpoint.0123abcd.safetensors",
        policies / ".last-0.0123abcd.safetensors",
    ]
    others = [folder.path / ".hidden", policies / "last-0.safetensors"]
    for path in ours + others:
        path.touch()
    folder.begin(RUN, {}, resume=True)
    assert not any(path.exists() for path in ours) and all(path.exists() for path in others)


def test_a_run_without_policies_says_so(folder):
    with refused("holds no best policies"):
        folder.policies("best")


def test_the_fingerprint_sees_everything():
    data = noise_data()
    changed = {
        "init": data.init + np.float32(1),
        "expert": store(Observations(data.expert.s, data.expert.s_next[::-1])),
        "offline": data.offline._replace(a=-data.offline.a),
        "normaliser": data.normaliser._replace(scale=data.normaliser.scale * 2),
        "action_space": Box.of([-1, -1], [1, 2]),
    }
    prints = {fingerprint(replace(data, **{name: value})) for name, value in changed.items()}
    assert len(prints) == len(changed) and fingerprint(data) not in prints
    assert fingerprint(data) == fingerprint(noise_data())

"""`lobsdice export`: the choice of the policy, of the observations and of the files."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from made_runs import make_policy, make_run

from lobsdice.cli.commands import export
from lobsdice.data.spaces import Box, Discrete
from lobsdice.policies.policy import load_policy

BOX = Box.of([-1, 0], [1, 5])


@pytest.fixture
def folder(tmp_path, recording, demonstrations):
    """A run folder with one policy, that names two recordings."""
    files = {"offline": [str(recording)], "expert": str(demonstrations)}
    return make_run(tmp_path / "run", [make_policy(BOX)], **files)


def acts(path, rows):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"observation": rows})[0])


def test_a_policy_is_written_as_both_files(lobsdice, tmp_path, folder, recording, demonstrations):
    onnx, numpy = tmp_path / "new" / "p.onnx", tmp_path / "new" / "p.py"
    result = lobsdice("export", folder, "--onnx", onnx, "--numpy", numpy)
    assert result.code == 0, result.err
    first, second, third, last = result.out.splitlines()
    assert third.startswith(f"wrote {tmp_path / 'new' / 'p_contract.json'}: ")
    assert first.startswith(f"wrote {onnx}: agrees with the policy to ")
    assert second.startswith(f"wrote {numpy}: agrees with the policy to ")
    assert last == f"observations: {recording}, {demonstrations}"
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    file = {}
    exec(numpy.read_text(), file)
    for actions in (acts(onnx, rows), file["predict"](rows)):
        np.testing.assert_allclose(actions, make_policy(BOX)(rows), atol=1e-5)


def test_a_policy_file_can_be_exported(lobsdice, tmp_path):
    policy = make_policy(Discrete(4))
    policy.save(tmp_path / "p.policy")
    result = lobsdice("export", tmp_path / "p.policy", "--onnx", tmp_path / "p.onnx", "--json")
    assert json.loads(result.out) == {
        "differences": {str(tmp_path / "p.onnx"): 0},
        "observations": "random, for there is no recording",
        "contracts": [str(tmp_path / "p_contract.json")],
    }
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    np.testing.assert_array_equal(acts(tmp_path / "p.onnx", rows), policy(rows))


def test_a_policy_file_needs_no_jax(tmp_path):
    make_policy(BOX).save(tmp_path / "p.policy")
    words = ["export", str(tmp_path / "p.policy"), "--onnx", str(tmp_path / "p.onnx")]
    code = (
        "import sys; from lobsdice.cli import main; code = main(sys.argv[1:]); "
        "print(code, [m for m in sys.modules if m.split('.')[0] in ('jax', 'jaxlib', 'equinox')])"
    )
    command = [sys.executable, "-c", code, *words]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.splitlines()[-1] == "0 []"


def test_a_stochastic_graph_takes_noise(lobsdice, tmp_path, folder):
    assert lobsdice("export", folder, "--onnx", tmp_path / "p.onnx", "--stochastic").code == 0
    session = onnxruntime.InferenceSession(tmp_path / "p.onnx", providers=["CPUExecutionProvider"])
    assert [x.name for x in session.get_inputs()] == ["observation", "noise"]


def test_the_policy_is_of_the_first_run_that_has_one_or_of_the_run_named(lobsdice, tmp_path):
    policies = [None, make_policy(BOX, seed=1), make_policy(BOX, seed=2)]
    folder = make_run(tmp_path / "run", policies)
    rows = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    result = lobsdice("export", folder, "--onnx", tmp_path / "1.onnx")
    assert result.err.startswith(f"{folder} holds 2 runs; taking run 1, --run names another\n")
    result = lobsdice("export", folder, "--onnx", tmp_path / "2.onnx", "--run", "2")
    assert (result.code, result.err) == (0, "")
    for seed in (1, 2):
        actions = acts(tmp_path / f"{seed}.onnx", rows)
        np.testing.assert_allclose(actions, make_policy(BOX, seed=seed)(rows), atol=1e-5)
    result = lobsdice("export", folder, "--onnx", tmp_path / "0.onnx", "--run", "0")
    assert (result.code, result.err) == (
        2,
        f"error: {folder} holds no last policy of run 0, only of: 1, 2\n",
    )


def test_observations_can_be_named(lobsdice, tmp_path, folder, recording):
    words = ("export", folder, "--onnx", tmp_path / "p.onnx", "--observations", recording)
    assert lobsdice(*words).out.splitlines()[-1] == f"observations: {recording}"


def test_no_more_observations_are_loaded_than_are_checked(folder, monkeypatch):
    monkeypatch.setattr(export, "ENOUGH", 4)
    _, rows = export.Export(folder, numpy=Path("policy.py")).rows(make_policy(BOX))
    assert 2 <= len(rows) <= 2 * 4  # of two files


def test_random_observations_replace_recordings_that_are_gone(
    lobsdice, tmp_path, folder, recording
):
    recording.unlink()
    (tmp_path / "demonstrations.npz").unlink()
    result = lobsdice("export", folder, "--onnx", tmp_path / "p.onnx")
    assert result.out.splitlines()[-1] == "observations: random, for there is no recording"


def test_observations_of_another_width_are_one_line(lobsdice, tmp_path, recording):
    folder = make_run(tmp_path / "run", [make_policy(BOX, width=4)], offline=[str(recording)])
    result = lobsdice("export", folder, "--onnx", tmp_path / "p.onnx")
    assert result.code == 2 and len(result.err.splitlines()) == 1
    assert "the policy takes observations of 4 numbers, but those for the check have" in result.err
    assert not (tmp_path / "p.onnx").exists()


def test_files_are_replaced_only_with_force(lobsdice, tmp_path, folder):
    path = tmp_path / "policy.py"
    path.write_text("mine")
    result = lobsdice("export", folder, "--onnx", tmp_path / "p.onnx", "--numpy", path)
    assert (result.code, result.err) == (2, f"error: {path} exists; --force replaces it\n")
    assert path.read_text() == "mine" and not (tmp_path / "p.onnx").exists()
    assert lobsdice("export", folder, "--numpy", path, "--force").code == 0
    assert "def predict" in path.read_text()


def test_the_policy_itself_is_never_replaced(lobsdice, tmp_path):
    path = tmp_path / "p.policy"
    make_policy(BOX).save(path)
    result = lobsdice("export", path, "--onnx", path, "--force")
    assert result.code == 2 and "is an input or another output, too" in result.err
    assert load_policy(path).action_space == BOX
    twice = tmp_path / "same"
    result = lobsdice("export", path, "--onnx", twice, "--numpy", twice)
    assert (
        result.code == 2
        and "is an input or another output, too" in result.err
        and not twice.exists()
    )


PAGE = Path(__file__).parents[3] / "docs" / "deploy.md"


@pytest.mark.parametrize("space", [BOX, Discrete(3)], ids=["box", "discrete"])
def test_the_page_can_be_pasted(lobsdice, tmp_path, monkeypatch, space):
    monkeypatch.chdir(tmp_path)
    make_run(Path("runs/mine"), [make_policy(space)])
    text = PAGE.read_text()
    for line in re.findall(r"^lobsdice export .*", text, re.MULTILINE):
        assert lobsdice(*shlex.split(line, comments=True)[1:]).code == 0
    # One interpreter runs all of it, in the folder of policy.py.
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
    assert "predict" in code and "session" in code
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert Path("again.onnx").exists() and Path("again.py").exists()


HOSTILE = {
    "another ending": (
        ("--onnx", "p.onnx", "--numpy", "p.txt"),
        "--numpy writes a file that ends in .py, not p.txt",
    ),
    "nothing to write": ((), "name what to write: --onnx FILE, --numpy FILE or both"),
    "no such recording": (("--onnx", "p.onnx", "--observations", "no.npz"), "no such file"),
    "no best policy": (("--onnx", "p.onnx", "--which", "best"), "holds no best policies"),
}


@pytest.mark.parametrize("case", list(HOSTILE))
def test_a_wrong_request_is_one_line(lobsdice, tmp_path, monkeypatch, folder, case):
    monkeypatch.chdir(tmp_path)
    words, message = HOSTILE[case]
    result = lobsdice("export", folder, *words)
    assert result.code == 2 and message in result.err and len(result.err.splitlines()) == 1
    assert not (tmp_path / "p.onnx").exists()


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_extra_is_one_line(lobsdice, tmp_path, monkeypatch, folder, package):
    monkeypatch.setitem(sys.modules, package, None)
    result = lobsdice("export", folder, "--onnx", tmp_path / "p.onnx")
    assert result.code == 2 and len(result.err.splitlines()) == 1
    assert f"exporting to ONNX needs {package}" in result.err
    assert not (tmp_path / "p.onnx").exists()


def test_a_folder_without_a_run_is_one_line(lobsdice, tmp_path):
    result = lobsdice("export", tmp_path, "--onnx", tmp_path / "p.onnx")
    assert (result.code, result.err) == (2, f"error: {tmp_path} is not a run folder\n")


def test_the_contract_has_the_units_and_the_rate_that_are_named(lobsdice, tmp_path):
    make_policy(Box.of([-1], [1], ["torque"])).save(tmp_path / "p.policy")
    words = ("export", tmp_path / "p.policy", "--onnx", tmp_path / "p.onnx", "--rate", "50")
    result = lobsdice(*words, "--units", "torque=N m")
    assert result.code == 0 and "versions and checksums\n" in result.out
    contract = json.loads((tmp_path / "p_contract.json").read_text())
    bare = lobsdice(*words[:3], tmp_path / "bare.onnx").out
    known = "bare_contract.json: names, order, bounds, versions and checksums"
    assert f"{known}; --rate and --units" in bare
    assert contract["rate_hz"] == 50 and contract["action"]["components"][0]["unit"] == "N m"
    result = lobsdice(*words, "--force", "--units", "torque")
    assert result.code == 2 and "--units has 'torque'; write it as NAME=UNIT" in result.err
    result = lobsdice(*words, "--force", "--units", "force=N")
    words = "'force', which is no name of the policy; its names are: torque"
    assert result.code == 2 and words in result.err


def test_a_contract_of_another_policy_is_replaced_only_by_force(lobsdice, tmp_path):
    for seed in (0, 1):
        make_policy(BOX, seed=seed).save(tmp_path / f"{seed}.policy")
    onnx, numpy = tmp_path / "p.onnx", tmp_path / "p.py"
    assert lobsdice("export", tmp_path / "0.policy", "--onnx", onnx).code == 0
    assert lobsdice("export", tmp_path / "0.policy", "--numpy", numpy).code == 0
    numpy.unlink()
    result = lobsdice("export", tmp_path / "1.policy", "--numpy", numpy)
    assert result.code == 2 and "p_contract.json exists; --force replaces it" in result.err
    assert not numpy.exists()
    assert lobsdice("export", tmp_path / "1.policy", "--numpy", numpy, "--force").code == 0
    assert list(json.loads((tmp_path / "p_contract.json").read_text())["files"]) == ["p.py"]

"""Damaged run folders: each is resumed to the same bytes as a sound one, or refused by a sentence.

One small run is interrupted half way. Copies of its folder are damaged, opened and resumed.
"""

import json
import os
import re
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jax
import pytest
from worlds import noise

from lobsdice.algorithms import BC
from lobsdice.data.formats import write
from lobsdice.errors import LobsDICEError
from lobsdice.report.gather import Parts
from lobsdice.report.run_page import page
from lobsdice.report.run_record import read_run
from lobsdice.training.config import digest
from lobsdice.training.engine import Options
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import Recipe, read_recipe
from lobsdice.training.select import select

METRICS, CONFIG = "metrics.csv", "config.json"
NEWEST, PREVIOUS = "checkpoint.safetensors", "checkpoint-previous.safetensors"
POLICIES = [f"policies/{which}-0.safetensors" for which in ("last", "best", "selected")]

#: A function that damages a file.
Damage = Callable[[Path], Any]


class Stop(Exception):
    """Ends a training, as a power cut would."""


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a run folder but config.json."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != CONFIG]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def interrupted(recipe: Recipe, step: int) -> None:
    """Train until the rows of a step are logged, which are then not written."""

    def stop(rows):
        if rows[0]["step"] == step:
            raise Stop

    about = recipe.about(["lobsdice", "train"])
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stop):
        patch.setattr(Recipe, "loggers", lambda *_: [stop])
        recipe.train(about)


@pytest.fixture(scope="module", autouse=True)
def returns_that_fall():
    """Let returns fall while the weights of a policy grow, as they do in these runs."""
    original = Recipe.evaluation

    def evaluation(self, *arguments):
        original(self, *arguments)  # which looks at the settings
        return lambda policies: [
            {"return": -float(sum(abs(w).sum() for w in policy.weights))} for policy in policies
        ]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recipe, "evaluation", evaluation)
        yield


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> tuple[Path, dict[str, bytes]]:
    """The folder of an interrupted run, and the files that a run without interruption leaves."""
    folder = tmp_path_factory.mktemp("runs")
    for name, steps, seed in (("demos", 40, 1), ("logs", 80, 2)):
        write(folder / f"{name}.npz", noise(steps, width=4, discrete=True, seed=seed, ended=0))
    recipe = Recipe(
        out=folder / "whole",
        expert=(str(folder / "demos.npz"),),
        offline=(str(folder / "logs.npz"),),
        env="CartPole-v1",
        episodes=1,
        every=10,
        training=Options(steps=30, batch_size=4),
        algorithm=BC(width=8, policy_rate=0.1),
    )
    recipe.train(recipe.about(["lobsdice", "train"]))
    half = Recipe(**{**vars(recipe), "out": folder / "half"})
    interrupted(half, 30)
    return folder / "half", contents(folder / "whole")


def resume(folder: Path) -> None:
    """Continue as `lobsdice resume` does."""
    read_recipe(folder).train(RunFolder(folder).config()["about"] or {}, resume=True)


def ranking(folder: Path) -> list[Any]:
    return [(c.run, c.step, c.criterion) for c in select([folder], checkpoints=True)]


def look(folder: Path) -> None:
    """Open the folder as all commands do; what cannot be read must be told in a sentence."""
    run = RunFolder(folder)
    jobs = [lambda: page(Parts(read_run(folder), *["not looked at"] * 4)), run.failures]
    jobs += [lambda which=which: run.policies(which) for which in ("last", "best", "selected")]
    for job in jobs:
        with suppress(LobsDICEError):
            job()


def outcome(folder: Path) -> str | dict[str, bytes]:
    """What comes of a damaged folder that is looked at and resumed: its files, or an error."""
    look(folder)
    try:
        resume(folder)
    except LobsDICEError as error:
        assert "\n" not in str(error) and len(str(error)) < 600
        return str(error)
    return contents(folder)


def test_the_best_policy_is_older_than_the_interruption(runs):
    """So a training that forgets its return keeps another."""
    rows = RunFolder(runs[0].parent / "whole").rows()
    assert max(rows, key=lambda row: row["return"])["step"] == 10


# ---- Files that are written again from the checkpoint ----


def changed(change: Callable[[bytes], bytes]) -> Damage:
    return lambda path: path.write_bytes(change(path.read_bytes()))


def cut(share: float) -> Damage:
    return changed(lambda old: old[: int(len(old) * share)])


def flipped(share: float) -> Damage:
    """Change one bit of a byte."""

    def flip(old: bytes) -> bytes:
        place = min(int(len(old) * share), len(old) - 1)
        return old[:place] + bytes([old[place] ^ 1]) + old[place + 1 :]

    return changed(flip)


def replaced(old: bytes, new: bytes) -> Damage:
    return changed(lambda found: found.replace(old, new, 1))


DAMAGES: dict[str, Damage] = {
    "deleted": Path.unlink,
    "emptied": cut(0),
    "NULs": changed(lambda old: bytes(len(old))),
    "noise": changed(lambda old: b"\xff\xfe" * 300),
    "read-only": lambda path: path.chmod(0o444),
    **{f"cut at {share}": cut(share) for share in (0.01, 0.3, 0.6, 0.99)},
    **{f"flipped at {share}": flipped(share) for share in (0, 0.05, 0.4, 0.8, 1)},
}
LINES: dict[str, Damage] = {
    "cut at a line end": changed(lambda old: b"".join(old.splitlines(keepends=True)[:-1])),
    "header alone": changed(lambda old: old.splitlines(keepends=True)[0]),
    "a row twice": changed(lambda old: old + old.splitlines(keepends=True)[-1]),
    "absurd step": replaced(b"\n10,", b"\n" + b"9" * 5000 + b","),
    "a text": replaced(b"\n10,0,0,", b"\n10,0,0,x"),
    "another number": replaced(b"\n10,0,0,", b"\n10,0,0,1"),
    "a long field": changed(lambda old: old + b"9" * 200_000),
}
RESTORED = [
    *((file, name) for file in (METRICS, NEWEST, PREVIOUS) for name in DAMAGES),
    *((file, name) for file in POLICIES for name in list(DAMAGES)[::2]),
    *((METRICS, name) for name in LINES),
]


@pytest.mark.parametrize("file, name", RESTORED)
def test_a_damaged_file_is_restored_and_training_ends_with_the_same_bytes(
    runs, tmp_path, file, name
):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    (DAMAGES | LINES)[name](folder / file)
    with suppress(LobsDICEError):
        assert file != METRICS or ranking(folder) == ranking(runs[0])
    assert outcome(folder) == runs[1]


def test_a_damage_is_told(runs, tmp_path, capsys):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    flipped(0.9)(folder / NEWEST)
    LINES["another number"](folder / METRICS)
    resume(folder)
    said = capsys.readouterr().err
    assert f"{NEWEST} is damaged: " in said and "before it, of step 10, is used" in said
    assert f"{METRICS} is damaged or missing; the checkpoint's copy replaces it" in said


def test_a_policy_with_a_changed_number_is_not_used(runs, tmp_path):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    flipped(1)(folder / POLICIES[1])
    with pytest.raises(LobsDICEError, match=r"best-0.* \(.* differs from its checksum\)"):
        RunFolder(folder).policies("best")


def test_without_checkpoints_training_starts_anew(runs, tmp_path):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    RunFolder(folder).forget_checkpoint()
    assert outcome(folder) == runs[1]


@pytest.mark.parametrize("name", [name for name in DAMAGES if name not in ("deleted", "read-only")])
def test_two_damaged_checkpoints_are_a_sentence(runs, tmp_path, name):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    for file in (NEWEST, PREVIOUS):
        DAMAGES[name](folder / file)
    assert f"{PREVIOUS} is damaged: " in str(outcome(folder))


def forged(folder: Path, **changes: Any) -> None:
    """Change the checkpoint, with checksums that fit."""
    recipe, config = read_recipe(folder), RunFolder(folder).config()["run"]
    run = RunFolder(folder, digest(config))
    like = jax.eval_shape(recipe.fleet(recipe.recordings()).begin)
    checkpoint = run.read_checkpoint(like)
    assert checkpoint is not None
    run.write_checkpoint(checkpoint._replace(**changes))


def test_a_step_beyond_the_last_is_refused(runs, tmp_path):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    forged(folder, step=10**9)
    assert "a checkpoint of step 1000000000, but its runs have 30 steps" in str(outcome(folder))


def test_a_checkpoint_writes_no_files_but_those_of_a_run(runs, tmp_path):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    forged(folder, files={METRICS: b"", "policies/../../other-0.safetensors": b"harm"})
    (folder / PREVIOUS).unlink()
    assert "which lobsdice does not write" in str(outcome(folder))
    assert os.listdir(tmp_path) == ["run"]


# ---- config.json, of which there is one copy ----


def with_value(*keys: str | int, value: Any) -> Damage:
    """Set a value in a JSON file."""

    def change(path: Path) -> None:
        tree = inner = json.loads(path.read_text())
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value
        path.write_text(json.dumps(tree))

    return change


MEMBER, SETTINGS = ("run", "runs", 0), ("about", "settings")
WRONG: dict[tuple[str | int, ...], list[Any]] = {
    ("run",): [1, None, [], {}],
    ("run", "runs"): [1, [], "x", [3], {"0": 1}],
    ("run", "data"): [1, [], [{}], [{"fingerprint": 3}], [{"fingerprint": "ab"}]],
    ("run", "every"): [0, "x", 1e300],
    ("run", "evaluation"): [3, None, {"episodes": 1}],
    (*MEMBER, "algorithm"): [1, [], {}, {"name": 1}, {"name": "BC"}],
    (*MEMBER, "options"): [1, None, {}, {"steps": "x"}, {"steps": 10**30}, {"steps": 30}],
    (*MEMBER, "seed"): ["x", 1.5, -1, 10**30, True],
    (*MEMBER, "data"): ["x", 7, -1, 10**30],
    ("made_with",): [1, [], "x"],
    ("about",): [1, [], "x", None, {}],
    SETTINGS: [1, [], None, {}, {"name": "bc"}],
    (*SETTINGS, "name"): [[], {}, 1, "nothing"],
    (*SETTINGS, "seeds"): ["x", 0, -1, 10**12, 1.5, None],
    (*SETTINGS, "episodes"): ["x", 0, 2, 10**12, None],
    (*SETTINGS, "every"): ["x", 0, -1, 10**12],
    (*SETTINGS, "env"): [1, [], "CartPole-v0", "Acrobot-v1", "no such thing"],
    (*SETTINGS, "offline"): [1, None, [], [1], ["/nowhere"], "x"],
    (*SETTINGS, "expert"): [1, None, [], [1], ["/nowhere"], "/nowhere", "x\0y"],
    (*SETTINGS, "labelled"): [1, [1]],
    (*SETTINGS, "task"): [1, [], "no such thing"],
    (*SETTINGS, "mixture"): [1, ["x"]],
    (*SETTINGS, "training"): [1, [], {"steps": "x"}, {"steps": 10**30}, {"steps": 30, "x": 1}],
    (*SETTINGS, "preparation"): [1, [], {"subsample": "x"}, {"subsample": 0}, {"initial": "x"}],
    (*SETTINGS, "read"): [1, [], {"actions": 1}, {"x": 1}],
    (*SETTINGS, "algorithm"): [1, [], {"width": "x"}, {"width": 10**12}, {"policy_rate": None}],
}


@pytest.mark.parametrize("keys", WRONG, ids=lambda keys: ".".join(map(str, keys)))
def test_a_wrong_value_in_the_configuration_is_a_sentence(runs, tmp_path, keys):
    for i, value in enumerate(WRONG[keys]):
        folder = shutil.copytree(runs[0], tmp_path / str(i))
        with_value(*keys, value=value)(folder / CONFIG)
        assert isinstance(outcome(folder), str), value


TEXTS: dict[str, Damage] = {
    **DAMAGES,
    "deep": changed(lambda old: b"[" * 100_000),
    "deep settings": with_value(*SETTINGS, "read", value=json.loads("[" * 500 + "]" * 500)),
    "a huge number": replaced(b'"seed": 0', b'"seed": ' + b"9" * 5000),
    "no number": replaced(b'"seed": 0', b'"seed": NaN'),
    "another order": changed(lambda old: json.dumps(json.loads(old), sort_keys=True).encode()),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_damaged_configuration_is_a_sentence_or_does_no_harm(runs, tmp_path, name):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    TEXTS[name](folder / CONFIG)
    harmless = name in ("read-only", "another order") or name.startswith("flipped")
    found = outcome(folder)
    assert isinstance(found, str) or (harmless and found == runs[1])


def test_a_checkpoint_does_not_take_over_a_configuration_that_was_changed(runs, tmp_path):
    """config.json says how the run goes on, and the checkpoint how it began."""
    folder = shutil.copytree(runs[0], tmp_path / "run")
    for keys in ((*MEMBER, "algorithm"), (*SETTINGS, "algorithm")):
        with_value(*keys, "policy_rate", value=1e-3)(folder / CONFIG)
    assert "does not belong to the run" in str(outcome(folder))


# ---- Disks that cannot be written to ----


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file become larger, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("file", [NEWEST, POLICIES[0]])
def test_on_a_full_disk_the_checkpoint_survives(runs, tmp_path, file):
    folder = shutil.copytree(runs[0], tmp_path / "run")
    before = (folder / NEWEST).read_bytes()
    with small_files((folder / file).stat().st_size - 100):
        found = outcome(folder)
    assert isinstance(found, str) and found.startswith("cannot write ") and file in found
    assert (folder / NEWEST).read_bytes() == before and not list(folder.rglob(".*"))
    assert outcome(folder) == runs[1]


@contextmanager
def unprivileged() -> Iterator[None]:
    """Give up the rights of the superuser, for whom nothing is read-only."""
    user = os.geteuid()
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)


def test_a_read_only_folder_is_a_sentence(runs):
    """It lies where everybody may read it."""
    with TemporaryDirectory(dir="/tmp") as place:
        shutil.copytree(runs[0].parent, place, dirs_exist_ok=True)
        folder = Path(place) / "half"
        with_value(*SETTINGS, "expert", value=f"{place}/demos.npz")(folder / CONFIG)
        with_value(*SETTINGS, "offline", value=[f"{place}/logs.npz"])(folder / CONFIG)
        for path in (Path(place), *Path(place).rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        with unprivileged():
            found = outcome(folder)
        folder.chmod(0o755)
        os.chmod(place, 0o755)
    assert isinstance(found, str) and re.match(
        r"cannot write .*half/lock: Permission denied", found
    )

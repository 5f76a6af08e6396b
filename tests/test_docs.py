"""Every code block in the README and the documentation runs, page by page, in a folder of its own.

Only sizes differ from what is shown: `SMALL` and `SMALL_PYTHON` say how. The data is noise in the
shapes of Hopper; the tutorial makes its own. Lines that would install something, or run these tests
again, are checked in the way that `run` says.
"""

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.mujoco.hopper_v5 import HopperEnv
from gymnasium.envs.registration import EnvSpec
from worlds import noise

import lobsdice
from lobsdice.algorithms import ALGORITHMS
from lobsdice.cli.main import main
from lobsdice.cli.table import ROOT, Group
from lobsdice.data.formats import write
from lobsdice.environments.tasks.table import SOURCES, TASKS

FOLDER = Path(__file__).parents[1]
DOCS = sorted(page for page in FOLDER.glob("docs/**/*.md") if page.name != "README.md")
PAGES = [FOLDER / "README.md", FOLDER / "CONTRIBUTING.md", *DOCS]
TUTORIAL = FOLDER / "docs" / "tutorial.md"
ROBOT = FOLDER / "docs" / "tutorial_robot.md"
RUN = ("sh", "python")
#: tests/policies/test_deployment.py runs the blocks of `c` and `py`.
NOT_CODE = ("text", "json", "csv", "bibtex", "c", "py")

#: One process for all, which share compiled programs.
pytestmark = pytest.mark.xdist_group("docs")


class Block(NamedTuple):
    language: str
    code: str


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^( *)```(\w*)\n(.*?)^\1```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [
        Block(language, re.sub(f"^{indent}", "", code, flags=re.MULTILINE))
        for indent, language, code in found
    ]


def name(page: Path) -> str:
    return page.relative_to(FOLDER).as_posix()


# ---- How small ----

#: Commands are run with these options at their end, where the last word counts.
EXPERIMENT = (
    "--env hopper --seeds 1 --sizes 1 --expert 1 --steps 8 --every 8 --batch-size 16 --episodes 1"
)
SMALL = {
    "train": "--steps 16 --every 16 --batch-size 16 --width 8 --seeds 2",
    "sweep": "--steps 6 --every 2 --batch-size 16 --width 8 --settings 3 --runs 3 --rungs 2",
    "evaluate": "--episodes 1",
    "rehearse": "--steps 20 --episodes 4",
    "select": "--steps 20",
    "play": "--episodes 1",
    "report": "--no-audit --no-clip",
    "data collect": "--expert 2 --medium 1 --random 1",
    "data split": "--first 1 --force",  # the files of the pages are there before
    "data join": "--force",
    "data convert": "--force",
    "experiment random-mdp": "--seeds 2 --betas 1 --experts 10 --offlines 10 --states 6 "
    "--actions 2 --horizon 20 --workers 1",
    "experiment mujoco": f"{EXPERIMENT} --algorithms bc",
    "experiment subsampled": f"{EXPERIMENT} --algorithms bc",
    "experiment idm-error": EXPERIMENT,
    "experiment fewer-demonstrations": EXPERIMENT,
    "experiment gamma-one": EXPERIMENT,
    "experiment mixtures": f"{EXPERIMENT} --algorithms bc --conditions none fragments",
    "experiment methods": "--kinds endings --worlds grid --algorithms nearest_trajectory bc "
    "--seeds 1 --endings-steps 8 --batch-size 8 --episodes 2 --jobs 1 --set width=8",
    "experiment tuned": "--methods bco --worlds grid --seeds 1 --steps 8 --batch-size 8 "
    "--episodes 2 --jobs 1 --set width=8 --world-steps 8 --rehearsed 2",
    "experiment ablation": "--kinds endings --worlds grid --departures sharpness --places among "
    "--seeds 1 --endings-steps 8 --batch-size 8 --episodes 2 --jobs 1 --set width=8",
    "experiment endings": "--worlds grid --algorithms bc bc-successful --seeds 1 --steps 8 "
    "--every 8 --batch-size 16 --episodes 1 --no-exact --set width=8",
}
#: The tutorial's policy has to learn something in a sixth of the steps that it is shown with.
FAST = "--steps 1600 --every 800 --batch-size 64 --policy-rate 0.003 --seeds 2"
SMALL_TUTORIAL = SMALL | {
    "train lobsdice": f"{FAST} --nu-rate 0.003 --ratio-rate 0.003",
    "train bc": FAST,
}
SMALL_PYTHON = {
    r"expert=\d+": "expert=1",
    r'"(expert|medium|random)": \d+': r'"\1": 1',
    r"seeds=\d+": "seeds=2",
    r"steps=[\d_]+": "steps=16, every=16, batch_size=16",
    r"ld\.LobsDICE\(": "ld.LobsDICE(width=8, ",
}
#: 0, and 3 where the audit warns or no policy works: what they say of noise is of no account.
CODES = {"audit": (0, 3), "select": (0, 3)}


# ---- What the pages find when they start ----


@pytest.fixture(scope="module")
def desk(tmp_path_factory) -> Path:
    """The files that pages speak of."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / "datasets").mkdir()
    for seed, source in enumerate(SOURCES):
        episodes = noise(540, width=11, actions=3, seed=seed)
        rewards = np.full(episodes.steps, -seed, np.float32)
        episodes = replace(episodes, rewards=rewards, action_space=TASKS["hopper"].action_space)
        for path in (f"{source}.npz", f"{source}.hdf5", f"datasets/hopper_{source}-v2.hdf5"):
            write(folder / path, episodes)
    logs = noise(80, width=11, actions=3, seed=9)
    for path in ("logs.npz", "logs.csv"):
        write(folder / path, logs)
    write(folder / "demos.npz", noise(50, width=11, seed=8).without_actions())
    (folder / "logs").mkdir()
    for day in ("2026-03-01", "2026-03-02"):
        rows = (f"{day} 08:00:0{i},{i * i},{-i},{i / 9}" for i in range(9))
        (folder / "logs" / f"{day}.csv").write_text("\n".join(["time,x,y,u", *rows]) + "\n")
    (folder / "examples").symlink_to(FOLDER / "examples")
    return folder


class DrawnHopper(gymnasium.Env):
    """Hopper where nothing can draw it."""

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 125}  # noqa: RUF012

    def __init__(self, render_mode=None, **_):
        self.render_mode, self.hopper = render_mode, HopperEnv()
        self.observation_space = self.hopper.observation_space
        self.action_space = self.hopper.action_space

    def reset(self, *, seed=None, options=None):
        return self.hopper.reset(seed=seed, options=options)

    def step(self, action):
        return self.hopper.step(action)

    def render(self):
        return np.zeros((16, 16, 3), np.uint8) if self.render_mode == "rgb_array" else None


@pytest.fixture
def surroundings(monkeypatch, tmp_path_factory):
    """A window that needs no display, and episodes that are recorded once for all pages."""
    monkeypatch.setenv("DISPLAY", ":0")
    spec = EnvSpec("Hopper-v5", entry_point=DrawnHopper, max_episode_steps=1000)
    monkeypatch.setitem(gymnasium.registry, "Hopper-v5", spec)
    monkeypatch.setenv("LOBSDICE_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


# ---- Running them ----


def lines(code: str) -> Iterator[tuple[list[str], str]]:
    """The words of each command, and its comment."""
    for line in code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words, line.partition("#")[2]


def command(words: list[str]) -> tuple[str, ...]:
    """Which entry of the table a command line names: its path."""
    entry, path = ROOT, ()
    while isinstance(entry, Group):
        path = (*path, words[len(path)])
        entry = entry.members[path[-1]]
    return path


def shrink(words: list[str], small: dict[str, str]) -> list[str]:
    """The same command, done soon; experiments take recordings that are here."""
    path = command(words)
    more = shlex.split(small.get(" ".join(path)) or small.get(path[0], ""))
    if path[0] == "experiment" and "--sizes" in more and "--data" not in words:
        more += ["--data", "datasets/{env}_{source}-v2.hdf5"]
    return [*words, *more]


def run(words: list[str], comment: str, small: dict[str, str]) -> None:
    """One line of a shell; what is not ours to run is only looked at."""
    match words:
        case ["lobsdice", *rest]:
            found = re.search(r"exits with (\d)", comment)
            codes = (int(found[1]),) if found else CODES.get(rest[0], (0,))
            assert main(shrink(rest, small)) in codes, words
        case ["python", script, *_]:
            with patch.object(sys, "argv", words[1:]):
                runpy.run_path(script, run_name="__main__")
        case ["make", *targets]:
            subprocess.run(["make", "--dry-run", *targets], cwd=FOLDER, check=True)
        case ["pip", "install", *rest]:
            extras = re.findall(r"[a-z]+", "".join(re.findall(r"\[(.*?)\]", " ".join(rest))))
            known = tomllib.loads((FOLDER / "pyproject.toml").read_text())["project"]
            assert extras and set(extras) <= set(known["optional-dependencies"])
        case ["python3", "-m", "venv", folder]:
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        case [".", path]:
            assert Path(path).exists()
        case [".ci/run"]:
            assert os.access(FOLDER / ".ci/run", os.X_OK)
        case [".venv/bin/pre-commit", "install"]:
            assert shutil.which("pre-commit", path=Path(sys.executable).parent)
        case _:
            raise AssertionError(f"nobody knows how to try {words}")


def run_page(page: Path, small: dict[str, str]) -> None:
    """Run the blocks of a page in order; those of Python share their names."""
    names = {"__name__": "__main__"}
    for block in blocks(page):
        if block.language == "sh":
            for words, comment in lines(block.code):
                run(words, comment, small)
        elif block.language == "python":
            code = block.code
            for pattern, replacement in SMALL_PYTHON.items():
                code = re.sub(pattern, replacement, code)
            with patch.dict(ALGORITHMS):  # a page may register one
                exec(compile(code, name(page), "exec"), names)


def open_desk(desk: Path, folder: Path, page: Path, monkeypatch) -> None:
    shutil.copytree(desk, folder, symlinks=True, dirs_exist_ok=True)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)  # for `import policy`
    text = page.read_text()
    if "runs/mine" in text and "--out runs/mine" not in text:
        words = "lobsdice train lobsdice --expert demos.npz --offline logs.npz --out runs/mine"
        run(shlex.split(words), "", SMALL)


def has_code(page: Path) -> bool:
    """Of the tutorials more is asked, below."""
    return page not in (TUTORIAL, ROBOT) and any(block.language in RUN for block in blocks(page))


@pytest.mark.parametrize("page", [page for page in PAGES if has_code(page)], ids=name)
def test_the_code_of_a_page_runs(page, desk, surroundings, tmp_path, monkeypatch):
    open_desk(desk, tmp_path, page, monkeypatch)
    run_page(page, SMALL)
    for folder in tmp_path.glob("results/*"):
        assert list(folder.glob("*.csv")) and list(folder.glob("*.png")), folder


def test_the_arm_of_the_tutorial_goes_where_it_was_shown(desk, tmp_path, monkeypatch, capsys):
    open_desk(desk, tmp_path, TUTORIAL, monkeypatch)
    run_page(TUTORIAL, SMALL_TUTORIAL)
    found = re.findall(r"(\S+) +(\S+) cm from station C", capsys.readouterr().out)
    ends = {who: float(distance) for who, distance in found}
    assert ends["arm.onnx"] < 20 < 100 < ends["clone.onnx"]


def test_the_tool_of_the_second_tutorial_presses_where_it_was_shown(
    desk, tmp_path, monkeypatch, capsys
):
    open_desk(desk, tmp_path, ROBOT, monkeypatch)
    run_page(
        ROBOT,
        {
            key: f"{options} --seeds 1"
            for key, options in SMALL_TUTORIAL.items()
            if key.startswith("train ")
        },
    )
    found = re.findall(r"(\S+) +right +(\d+)%  left +(\d+)%", capsys.readouterr().out)
    right = {who: int(share) for who, share, _ in found}
    assert right["press.onnx"] > 80 > 60 > right["press_clone.onnx"]


# ---- What else a page promises ----


def test_the_first_pages_count_the_algorithms():
    assert len(ALGORITHMS) == 19
    for page in ("README.md", "docs/index.md"):
        assert "eighteen other algorithms" in (FOLDER / page).read_text().lower(), page


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_blocks_are_code_or_say_that_they_are_not(page):
    assert {block.language for block in blocks(page)} <= {*RUN, *NOT_CODE}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_to_files_lead_somewhere(page):
    for target in re.findall(r"\]\((?!http|#)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", [*PAGES, *FOLDER.glob("results/*/README.md")], ids=name)
def test_the_commands_shown_exist(page, capsys):
    for block in blocks(page):
        for words, _ in lines(block.code) if block.language == "sh" else ():
            if words[0] == "lobsdice":
                path = command(words[1:])
                main([*path, "--help"])
                options = {word for word in words if word.startswith("--")}
                assert options <= set(re.findall(r"--[a-z-]+", capsys.readouterr().out)), words


def test_the_mathematics_has_every_equation_that_the_code_cites():
    sources = "\n".join(path.read_text() for path in FOLDER.glob("src/**/*.py"))
    cited = set(re.findall(r"eq\. (\(?\w+\)?)", sources))
    page = (FOLDER / "docs/mathematics/dual.md").read_text()
    listed = re.findall(r"^\| (\(\d+\)) \|", page, re.MULTILINE)
    assert cited and cited <= set(listed)


def test_the_reference_has_every_public_name():
    pages = "\n".join(page.read_text() for page in FOLDER.glob("docs/api/*.md"))
    named = re.findall(r"^<!-- ::: lobsdice\.[\w.]*?(\w+) -->$", pages, re.MULTILINE)
    assert set(lobsdice.__all__) <= {*named, "tabular"}


def test_the_reference_says_what_the_code_says():
    """`make format` writes it."""
    reference = runpy.run_path(str(FOLDER / "docs" / "reference.py"))
    package = reference["load"]()
    for page in FOLDER.glob("docs/api/*.md"):
        assert page.read_text() == reference["rendered"](page.read_text(), package), page.name


def test_the_reference_can_be_read_in_the_repository():
    page = (FOLDER / "docs/api/training.md").read_text()
    assert "### train\n\n```py\ntrain(\n    algorithm: " in page
    assert "Train one run for each algorithm, dataset and seed" in page
    assert "- `patience: int = 5`: Evaluations without a better value" in page
    assert "#### Run.table" in page and "\n::: " not in page


def test_every_promise_has_tests_that_exist():
    page = (FOLDER / "docs/promises.md").read_text().split("## What we do not")[0]
    rows = re.findall(r"^\| (?!promise)(.+) \| (.+) \|$", page, re.MULTILINE)
    for promise, tests in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", tests)
        assert named, promise
        for file, test in named:
            assert (
                f"def {test}(" in (FOLDER / file).read_text() if test else (FOLDER / file).exists()
            )
    assert len(rows) > 15

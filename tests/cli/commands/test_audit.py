"""`lobsdice audit`, run as a user runs it."""

import json
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes, mixture
from lobsdice.data.formats import write
from lobsdice.environments.tasks.task import load

HOSTILE = "<script>alert('x')</script>&\""
POINTS = np.random.default_rng(5).normal(size=(31, 2)).tolist()


def cloud(count: int, *, seed: int, centre: float = 0.0, width: int = 2) -> Episodes:
    random = np.random.default_rng(seed)
    return Episodes.from_arrays(
        random.normal(centre, 1, (count * 31, width)),
        lengths=[30] * count,
        actions=random.uniform(-1, 1, (count * 30, 1)),
    )


@pytest.fixture
def files(tmp_path):
    """Files of logs, of demonstrations that they cover, and of others."""
    recordings = {
        "demos": cloud(3, seed=1).without_actions(),
        "far": cloud(3, seed=1, centre=50).without_actions(),
        "wide": cloud(3, seed=1, width=5).without_actions(),
        "logs": cloud(20, seed=2),
        "more": cloud(20, seed=3),
        "hostile": mixture({HOSTILE: cloud(20, seed=2)}),
    }
    paths = {name: tmp_path / f"{name}.npz" for name in recordings}
    for name, episodes in recordings.items():
        write(paths[name], episodes)
    return paths


def test_covered_data_exits_with_0(lobsdice, files):
    result = lobsdice("audit", "--expert", files["demos"], "--offline", files["logs"])
    assert result.code == 0 and not result.err
    assert result.out.splitlines()[-1].startswith("COVERED: ")


def test_a_remark_names_options_as_the_shell_does(lobsdice, files, tmp_path):
    rows = [f"{e},{x},{y},{int(i == 30)}" for e in range(3) for i, (x, y) in enumerate(POINTS)]
    path = tmp_path / "demos.csv"
    path.write_text("\n".join(["episode,obs_0,obs_1,done", *rows]) + "\n")
    result = lobsdice("audit", "--expert", path, "--offline", files["logs"])
    (line,) = [x for x in result.out.splitlines() if x.startswith("expert: every episode counts")]
    assert "name it as --terminated-column;" in line and "`" not in line


def test_uncovered_data_exits_with_3(lobsdice, files):
    result = lobsdice("audit", "--expert", files["far"], "--offline", files["logs"])
    assert result.code == 3
    assert result.out.splitlines()[-1].startswith("NOT COVERED: 100.0% of")


def test_a_leak_exits_with_3(lobsdice, files):
    result = lobsdice("audit", "--expert", files["logs"], "--offline", files["logs"])
    assert result.code == 3 and "LEAK: 600 demonstrated transitions" in result.out


def test_different_rates_exit_with_3_and_are_on_the_page(lobsdice, tmp_path):
    def loops(count: int, pace: int) -> Episodes:
        angle = np.arange(count)[:, None] + 0.1 * pace * np.arange(61)
        return Episodes.from_arrays(
            np.stack([np.sin(angle), np.cos(angle)], axis=2).reshape(-1, 2),
            lengths=[60] * count,
            actions=np.zeros((count * 60, 1)),
        )

    write(tmp_path / "demos.npz", loops(3, 5))
    write(tmp_path / "logs.npz", loops(40, 1))
    named = ("--expert", tmp_path / "demos.npz", "--offline", tmp_path / "logs.npz")
    result = lobsdice("audit", *named, "-o", tmp_path / "audit.html")
    assert result.code == 3 and "\nRATES: one demonstrated step looks like 5 logged" in result.out
    assert "one demonstrated step looks like 5 logged" in (tmp_path / "audit.html").read_text()


def test_ends_that_look_wrong_exit_with_3_and_are_on_the_page(lobsdice, tmp_path, files):
    demos = replace(cloud(3, seed=1).without_actions(), terminated=np.ones(3, bool))
    write(tmp_path / "ended.npz", demos)
    named = ("--expert", tmp_path / "ended.npz", "--offline", files["logs"])
    result = lobsdice("audit", *named, "-o", tmp_path / "audit.html")
    assert result.code == 3
    summary = "all 3 demonstrations terminated; all 20 logged episodes were truncated"
    assert f"\nends: {summary}\n" in result.out
    assert "\nENDS: demonstrations terminate, but no logged episode does;" in result.out
    page = (tmp_path / "audit.html").read_text()
    assert "demonstrations terminate, but no logged episode does;" in page
    assert summary.capitalize() in page


def test_a_recording_is_not_overwritten(lobsdice, files):
    before = files["demos"].read_bytes()
    named = ("--expert", files["demos"], "--offline", files["logs"])
    result = lobsdice("audit", *named, "-o", files["demos"])
    assert result.code == 2 and "each output needs its own name" in result.err
    assert files["demos"].read_bytes() == before


def test_another_width_is_an_error(lobsdice, files):
    result = lobsdice("audit", "--expert", files["wide"], "--offline", files["logs"])
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("error: ") and len(result.err.splitlines()) == 1


def test_another_environment_is_an_error(lobsdice, tmp_path):
    for name in ("hopper", "walker2d"):
        write(tmp_path / f"{name}.npz", load(name, expert=1, offline={"random": 2}).offline)
    words = ("--expert", tmp_path / "hopper.npz", "--offline", tmp_path / "walker2d.npz")
    result = lobsdice("audit", *words)
    assert result.code == 2 and "11 numbers" in result.err and "17" in result.err


def test_a_missing_file_is_an_error(lobsdice, files):
    assert lobsdice("audit", "--expert", "none.npz", "--offline", files["logs"]).code == 2


def test_json_is_nothing_but_json(lobsdice, files):
    words = ("--expert", files["far"], "--offline", files["logs"], files["more"], "--json")
    result = lobsdice("audit", *words)
    report = json.loads(result.out)
    assert result.code == 3 and report["verdict"] == "not covered"
    assert set(report["sources"]) == {"logs", "more"}
    assert report["uncovered"][0]["last_step"] == 29
    assert report["expert"]["episodes"] == 3 and report["offline"]["episodes"] == 40


def test_the_page_is_well_formed_and_escapes_names(lobsdice, files, tmp_path):
    out = tmp_path / "new" / "audit.html"
    words = ("--expert", files["demos"], "--offline", files["hostile"], "-o", out)
    assert lobsdice("audit", *words).code == 0
    text = out.read_text(encoding="utf-8")
    assert HOSTILE not in text and "&lt;script&gt;" in text
    root = ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    assert "".join(root.find("body/main/h1").itertext()) == "Covered"  # pyright: ignore
    assert len(list(root.iter("svg"))) == 3
    cells = {"".join(cell.itertext()) for cell in root.iter("td")}
    assert HOSTILE in cells


def test_a_page_that_cannot_be_written_is_an_error(lobsdice, files, tmp_path):
    (tmp_path / "taken").write_text("")
    words = ("--expert", files["demos"], "--offline", files["logs"])
    assert lobsdice("audit", *words, "-o", tmp_path / "taken" / "audit.html").code == 2

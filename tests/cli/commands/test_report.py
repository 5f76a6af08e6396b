"""`lobsdice report`, run as a user runs it and read in a real browser."""

import json
import shlex
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from chromium import Tab, tab
from gymnasium import spaces
from made_runs import make_policy, make_run
from worlds import beginning, noise

from lobsdice.algorithms import LobsDICE
from lobsdice.cli import main
from lobsdice.data.formats import write
from lobsdice.data.spaces import Discrete
from lobsdice.training.checkpoint import Checkpoint
from lobsdice.training.engine import Options
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import Recipe

#: A file name that contains HTML.
HOSTILE = "<script>harm=1<img src=x onerror=harm=2>&\"'"
DRAWN = "DrawnForReports-v0"
STEPS, EPISODES = 24, 4


#: All tests share one process, with one run folder and one browser.
pytestmark = pytest.mark.xdist_group("report")


class Drawn(gymnasium.Env):
    """An environment of ten steps, each brighter than the one before."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012
    observation_space = spaces.Box(-1, 1, (3,))
    action_space = spaces.Discrete(2)

    def __init__(self, render_mode=None, **_):
        self.render_mode, self.steps = render_mode, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(3, np.float32), 1.0, False, self.steps == 10, {}

    def render(self):
        return np.full((8, 8, 3), 25 * self.steps, np.uint8)


@pytest.fixture(scope="module", autouse=True)
def drawn():
    gymnasium.register(DRAWN, entry_point=Drawn)
    yield
    del gymnasium.registry[DRAWN]


@pytest.fixture(scope="module")
def world(tmp_path_factory) -> Path:
    """Demonstrations, two files of logs, and a run folder of two seeds as training leaves it."""
    folder = tmp_path_factory.mktemp("world")
    write(folder / "demos.npz", noise(40, discrete=True, seed=1).without_actions())
    write(folder / f"{HOSTILE}.npz", noise(40, discrete=True, seed=2))
    write(folder / "more.npz", noise(80, discrete=True, seed=3))
    recipe = Recipe(
        out=folder / "run",
        expert=(str(folder / "demos.npz"),),
        offline=(str(folder / f"{HOSTILE}.npz"), str(folder / "more.npz")),
        seeds=2,
        training=Options(steps=STEPS),
        algorithm=LobsDICE(width=8),
    )
    fleet = recipe.fleet(recipe.recordings())
    about = recipe.about(["lobsdice", "train", HOSTILE])
    state = beginning(fleet)
    run = RunFolder(folder / "run").begin(fleet.config(), about, resume=False)
    run.write_rows([row(step, seed) for step in (8, 16, STEPS) for seed in range(2)])
    run.write_checkpoint(Checkpoint(STEPS, state, {}))
    for seed, policy in enumerate(fleet.policies(state)):
        policy.save(run.policy_path("last", seed))
    return folder


def row(step: int, seed: int) -> dict[str, float | int]:
    """The returns of seed 0 are 108, 116, 124; those of seed 1 are ten times as large."""
    losses = {"nu_loss": -1.0, "policy_loss": 1 / step, "held_out_policy_loss": 2 / step}
    measures = {"effective_share": 0.5, "mass_more": 0.75, HOSTILE: 1.0}
    names = {"step": step, "run": seed, "seed": seed}
    return {**names, "return": (100 + step) * 10**seed, **losses, **measures}


@pytest.fixture(scope="module")
def page(world) -> Path:
    out = world / "report.html"
    assert main(["report", str(world / "run"), "-o", str(out), "--env", DRAWN]) == 0
    return out


@pytest.fixture(scope="module")
def browser():
    with tab() as opened:
        yield opened


@pytest.fixture
def report(browser, page) -> Tab:
    browser.open(page)
    return browser


def test_the_page_says_what_was_learned_from_what(report):
    said = report.text("header")
    assert "LobsDICE learned to act from 4 demonstrations (40 transitions) in demos.npz" in said
    assert f"12 logged episodes (120 transitions) in {HOSTILE}.npz, more.npz." in said
    assert "Training finished: 24 steps, 2 runs." in said
    assert "The last policies reach a return of 682 on average (95 % interval" in said


def test_the_page_tells_how_to_repeat_it(report, world):
    config = json.loads((world / "run" / "config.json").read_text())
    assert shlex.split(report.text("pre")) == config["about"]["command"]
    assert config["made_with"]["jax"] in report.text("#how-to-repeat-it")


def test_names_from_files_run_nothing_and_nothing_is_fetched(report):
    assert report.value("typeof harm") == "undefined"
    assert report.value("document.images.length") == 0
    assert report.troubles == [] and len(report.asked) == 1


def test_the_page_is_one_well_formed_file(page):
    text = page.read_text(encoding="utf-8")
    ElementTree.fromstring(text.removeprefix("<!DOCTYPE html>"))
    assert HOSTILE not in text and len(text) < 1_000_000


def plot(report: Tab, title: str) -> dict[str, float]:
    """Scroll to a chart and return its place."""
    return report.value(f"""(() => {{
      const found = [...document.querySelectorAll(".chart")].find(
        chart => chart.querySelector("b").textContent === "{title}").querySelector(".plot");
      found.scrollIntoView({{block: "center"}});
      found.focus();
      const {{x, y, width, height}} = found.getBoundingClientRect();
      return {{x, y, width, height}};
    }})()""")


def test_hovering_shows_the_values_at_that_step(report):
    box = plot(report, "Return")
    report.move(box["x"] + box["width"] * 15 / STEPS, box["y"] + box["height"] / 2)
    assert report.text(".tip") == "step 16mean638seed 0116seed 11,160"
    report.move(box["x"] + box["width"] - 1, box["y"] + 1)
    assert report.text(".tip") == "step 24mean682seed 0124seed 11,240"
    report.move(1, 1)
    assert report.value("document.querySelector('.tip')") is None


def test_arrow_keys_read_a_chart_aloud(report):
    plot(report, "Return")
    report.press("ArrowLeft")
    assert report.text(".tip").startswith("step 16")
    spoken = report.value("document.activeElement.getAttribute('aria-valuetext')")
    assert spoken == "step 16: mean 638, seed 0 116, seed 1 1,160"
    report.press("Escape")
    assert report.value("document.querySelector('.tip')") is None


def test_every_metric_has_a_chart(report):
    titles = report.value("[...document.querySelectorAll('.chart b')].map(b => b.textContent)")
    wanted = ["Return", "Effective sample size", HOSTILE.capitalize()]
    wanted += ["Weight by source, held-out rows", "Dual objective", "Policy loss"]
    assert titles[:6] == wanted


COLUMN = "[...document.querySelectorAll('.sortable tbody tr')].map(r => r.cells[{}].textContent)"


def test_a_heading_sorts_its_column(report):
    headings = report.value(
        "[...document.querySelectorAll('.sortable th')].map(h => h.textContent)"
    )
    shown = COLUMN.format(headings.index("episode"))
    click = "document.querySelectorAll('.sortable th button')[{}].click()"
    shares = [float(share[:-1]) for share in report.value(COLUMN.format(headings.index("weight")))]
    assert shares == sorted(shares, reverse=True)
    report.value(click.format(headings.index("episode")))
    assert report.value(shown) == ["7", "6", "5", "4", "3", "3", "2", "2", "1", "1", "0", "0"]
    report.value(click.format(headings.index("episode")))
    assert report.value(shown) == sorted(report.value(shown))
    report.value(click.format(headings.index("source")))
    assert report.value(COLUMN.format(0)) == [HOSTILE] * EPISODES + ["more"] * 8
    order = "document.querySelectorAll('.sortable th')[0].getAttribute('aria-sort')"
    assert report.value(order) == "ascending"


def test_weights_of_episodes_sum_to_one(report):
    column = "Number(r.querySelectorAll('[data-value]')[1].dataset.value)"
    rows = f"[...document.querySelectorAll('.sortable tbody tr')].map(r => {column})"
    assert sum(report.value(rows)) == pytest.approx(1)


def test_a_clip_can_be_stopped_and_moved(report):
    button, film = ("document.querySelector('.films button')", "document.querySelector('.film')")
    assert report.value(f"{film}.dataset.frames") == "10"
    assert report.value(f"{button}.textContent") == "Pause"
    report.value(f"{button}.click()")
    assert report.value(f"{button}.textContent") == "Play"
    assert (
        report.value("""(() => {
      const bar = document.querySelector(".films input");
      bar.value = 9;
      bar.dispatchEvent(new Event("input"));
      return document.querySelector(".film").style.backgroundPosition;
    })()""")
        == "100% 0%"
    )


@pytest.mark.parametrize("width", [320, 1200])
def test_nothing_is_wider_than_the_window(browser, page, width):
    browser.open(page, width=width)
    assert browser.value("document.documentElement.scrollWidth") == width


#: The least contrast between a text and its background, by WCAG's formula.
CONTRAST = """(() => {
  const light = colour => {
    const [r, g, b] = colour.match(/[0-9.]+/g).map(v => v / 255).map(
      v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = node => {
    const colour = getComputedStyle(node).backgroundColor;
    return colour === "rgba(0, 0, 0, 0)" ? behind(node.parentElement) : colour;
  };
  const texts = [...document.querySelectorAll("main *")].filter(
    node => [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()));
  return Math.min(...texts.map(node => {
    const [a, b] = [light(getComputedStyle(node).color), light(behind(node))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  }));
})()"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_has_enough_contrast(browser, page, dark):
    browser.open(page, dark=dark)
    paper = browser.value("getComputedStyle(document.body).backgroundColor")
    assert (max(map(int, paper[4:-1].split(","))) < 60) == dark
    assert browser.value(CONTRAST) > 4.5


def test_a_run_without_its_data_is_reported_on(lobsdice, world, browser, tmp_path):
    run = shutil.copytree(world / "run", tmp_path / "moved")
    config = json.loads((run / "config.json").read_text())
    config["about"]["settings"]["expert"] = "gone.npz"
    (run / "config.json").write_text(json.dumps(config))
    assert lobsdice("report", run).out == f"wrote {run / 'report.html'}\n"
    browser.open(run / "report.html")
    for part in ("what-it-imitates", "coverage-of-the-demonstrations"):
        assert "Not shown: the data cannot be read again: gone.npz" in browser.text(f"#{part}")
    assert "no environment was named" in browser.text("#the-policy-at-work")
    assert plot(browser, "Return")["width"] > 100


def test_other_data_is_not_taken_for_the_training_data(lobsdice, world, browser, tmp_path):
    run = shutil.copytree(world / "run", tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["about"]["settings"]["offline"] = [str(world / "more.npz")]
    (run / "config.json").write_text(json.dumps(config))
    assert lobsdice("report", run, "--no-clip").code == 0
    browser.open(run / "report.html")
    assert "no longer those that the run learned from" in browser.text("#what-it-imitates")
    assert "--no-clip" in browser.text("#the-policy-at-work")


def test_a_run_with_settings_of_another_version_is_reported_on(lobsdice, world, tmp_path):
    run = shutil.copytree(world / "run", tmp_path / "run")
    config = json.loads((run / "config.json").read_text())
    config["about"]["settings"]["algorithm"]["beta"] = 1
    (run / "config.json").write_text(json.dumps(config))
    assert lobsdice("report", run).code == 0
    assert "written by another version of lobsdice" in (run / "report.html").read_text()


def test_a_run_without_measurements_is_reported_on(lobsdice, browser, tmp_path):
    run = make_run(tmp_path / "run", [make_policy(Discrete(2))])
    config = json.loads((run / "config.json").read_text())
    described = {"algorithm": {"name": "Mine", "alpha": 1}, "options": {"steps": 10}}
    described |= {"seed": 0, "data": 0}
    config["run"] = {"runs": [described], "data": [{"fingerprint": "mine"}]}
    config["about"] = {}
    (run / "config.json").write_text(json.dumps(config))
    assert lobsdice("report", run).code == 0
    browser.open(run / "report.html")
    assert "has not reached its first evaluation" in browser.text("header")
    assert browser.troubles == []


def test_run_folders_are_compared_side_by_side(lobsdice, world, browser, tmp_path):
    other = shutil.copytree(world / "run", tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    for run in config["run"]["runs"]:
        run["algorithm"]["alpha"] = 0.5
    (other / "config.json").write_text(json.dumps(config))
    out = tmp_path / "runs.html"
    words = (world / "run", "--compare", world / "run", other, tmp_path, "-o", out)
    result = lobsdice("report", *words)
    assert result.code == 0 and result.err == f"left out: {tmp_path} is not a run folder\n"
    browser.open(out)
    assert browser.text("h1") == "2 run folders side by side"
    assert browser.text("table[aria-label='Differing settings']") == "settingrunotheralpha0.10.5"
    box = plot(browser, "Return")
    browser.move(box["x"] + box["width"] - 1, box["y"] + 1)
    assert browser.text(".tip") == "step 24run682other682"
    assert browser.troubles == []


def test_a_comparison_needs_another_run(lobsdice, world):
    result = lobsdice("report", world / "run", "--compare", world / "run")
    assert result.code == 2 and "no other run to compare" in result.err


def test_a_folder_without_a_run_is_an_error(lobsdice, tmp_path):
    result = lobsdice("report", tmp_path)
    assert result.code == 2 and result.err == f"error: {tmp_path} is not a run folder\n"

"""The parts of reports: elements, charts, tables, sentences."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from worlds import noise

from lobsdice.algorithms import LobsDICE
from lobsdice.data.episodes import mixture
from lobsdice.data.prepare import prepare
from lobsdice.environments.gym import make
from lobsdice.environments.placing import placing
from lobsdice.environments.tasks.task import load
from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.fleet import TRIALS
from lobsdice.experiments.control.grid import Trial
from lobsdice.report import compare_page
from lobsdice.report.charts import Band, Chart, Line
from lobsdice.report.curves import MEANING, charts, groups, mean, thinned
from lobsdice.report.gather import Parts
from lobsdice.report.html import Column, Html, document, number, table, tag, write_page
from lobsdice.report.run_page import page
from lobsdice.report.run_record import RunRecord, Variant, labels, read_run
from lobsdice.report.scores import scores, summarise
from lobsdice.report.sentences import learned
from lobsdice.report.weights import Weights, section, weigh
from lobsdice.training.engine import Member
from lobsdice.training.fleet import Fleet
from lobsdice.training.folder import RunFolder
from lobsdice.training.select import BESIDE, CRITERION
from lobsdice.training.settings import differences

STEPS = np.arange(0, 100, 10)


def cells(html: Html) -> list[list[str]]:
    """Return the cells of a table, without its head."""
    body = next(ElementTree.fromstring(f"<div>{html}</div>").iter("tbody"))
    return [["".join(cell.itertext()) for cell in row] for row in body]


def labelled(label: str, made: str) -> Html:
    """Return the table with this label in a page."""
    (found,) = re.findall(f'<table[^>]*label="{label}".*?</table>', made)
    return Html(found)


def test_strings_are_escaped():
    made = tag("p", "<b>", tag("i", "&"), title='"')
    assert made == '<p title="&quot;">&lt;b&gt;<i>&amp;</i></p>'


def test_sentences_show_code_and_options_of_the_shell():
    made = tag("p", "with `max_gap`, run `lobsdice data <check>` ", tag("b", "`"))
    assert made == "<p>with --max-gap, run <code>lobsdice data &lt;check&gt;</code> <b>`</b></p>"
    assert tag("pre", "echo `ls`") == "<pre>echo `ls`</pre>"


def test_the_calibration_is_drawn_only_where_the_ratio_was_calibrated():
    rows = [{"run": 0, "seed": 0, "step": i, "ratio_slope": 1.0} for i in range(3)]
    variant = Variant("lobsdice", rows, [0])
    assert "Slope" not in charts([variant], ["ratio_auc", "ratio_slope", "ratio_calibrated"])
    rows[-1]["ratio_slope"] = 0.8
    drawn = charts([variant], ["ratio_slope", "ratio_calibrated"])
    assert "Slope of the calibration" in drawn and "Calibrated" in drawn


def test_forbidden_characters_are_replaced():
    made = document("a\x00b\ud800", tag("p", "\x1b"))
    ElementTree.fromstring(made.removeprefix("<!DOCTYPE html>\n"))
    assert "a�b�" in made


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.123456, "0.1235"), (-1234.5, "−1,234"), (12345, "12,345"), (2.5e9, "2.5e+09"), (0.0, "0")],
)
def test_numbers_are_short(value, shown):
    assert number(value) == shown


def test_a_long_table_says_how_much_of_it_is_shown():
    rows = [{"n": i} for i in range(30)]
    made = table([Column("n")], rows, label="many", most=10)
    assert len(cells(made)) == 10 and "10 of 30 are shown." in made


def limits(chart: Chart) -> tuple[float, float]:
    data = json.loads(ElementTree.fromstring(chart.html()).get("data-chart") or "")
    return data["low"], data["high"]


def test_an_axis_holds_all_values_and_ranges():
    line, band = np.sin(STEPS), Band(-2 + 0.0 * STEPS, np.sin(STEPS))
    low, high = limits(Chart("x", STEPS, [Line("y", line)], bands=[band]))
    assert low < -2 and high > line.max()


def test_a_wild_beginning_is_outside_the_chart_and_the_caption_says_so():
    values = np.array([1000.0, 3, 2, 1, 2, 1, 2, 1, 2, 1])
    chart = Chart("x", STEPS, [Line("y", values)])
    assert limits(chart)[1] < 3 and "The beginning is outside the chart." in chart.html()


@pytest.mark.parametrize(
    "values", [[5.0] * 10, [0.0] * 10, [np.nan] * 10, [np.nan] * 9 + [1.0], [1e30] * 9 + [-1e30]]
)
def test_any_values_can_be_drawn(values):
    drawn = ElementTree.fromstring(Chart("x", STEPS, [Line("y", np.array(values))]).html())
    (curve,) = drawn.iter("polyline")
    places = re.findall(r"[^ ,]+", curve.get("points") or "")
    assert np.isfinite([float(place) for place in places]).all()
    assert len(places) == 2 * max(2, np.isfinite(values).sum()) * np.isfinite(values).any()


def test_one_step_can_be_drawn():
    ElementTree.fromstring(Chart("x", np.array([0]), [Line("y", np.array([1.0]))]).html())


def rows_of(values: list[list[float]], metric: str = "return") -> list[dict]:
    return [
        {"step": 10 * step, "run": run, "seed": run, metric: value}
        for run, curve in enumerate(values)
        for step, value in enumerate(curve, 1)
    ]


def test_the_summary_is_of_the_last_and_the_best_evaluations():
    variant = Variant("x", rows_of([[1.0, 5, 3], [7.0, 2, 5]]), [0, 1])
    found = summarise(variant, ["return"])
    assert found is not None
    assert (found.metric, found.last, found.best, found.runs) == ("return", 4.0, 6.0, 2)
    assert 3 <= found.low <= 4 <= found.high <= 5
    assert variant.bests("return")[1] == [20, 10]


def test_a_run_that_stopped_early_counts_until_it_stopped():
    variant = Variant("x", rows_of([[1.0, 2, 3], [5.0]]), [0, 1])
    assert mean(variant.values("return", [10, 20, 30])).tolist() == [3, 2, 3]
    assert summarise(variant, ["policy_loss"]) is None


def test_a_run_without_a_finite_return_has_no_row_of_scores():
    variant = Variant("x", rows_of([[1.0, 2], [np.nan, np.inf], [3.0, np.nan]]), [0, 1, 2])
    rows = cells(Html(scores(variant, ["return"]).partition("<p")[0]))
    assert [row[:3] for row in rows] == [["0", "2", "2"], ["2", "3", "3"], ["mean", "2.5", "2.5"]]


def test_the_measures_of_select_are_explained():
    assert all(MEANING[name][1] for name in (CRITERION, *BESIDE))


def test_metrics_are_grouped_and_held_out_losses_share_a_chart():
    names = ["return", "return_std", "nu_loss", "held_out_nu_loss", "ratio_auc", "mass_expert"]
    names += ["trained_mass_expert", "trained_effective_share"]
    assert groups(names) == {
        "In the environment": ["return"],
        "Without an environment": ["ratio_auc"],
        "Losses": ["nu_loss"],
    }


def test_thinned_steps_keep_both_ends():
    assert thinned(list(range(1000)), 4) == [0, 333, 666, 999]
    assert thinned([5, 10]) == [5, 10] and thinned([]) == []


def test_differences_are_the_settings_that_differ():
    flat = [{"alpha": 0.1, "width": 8}, {"alpha": 0.5, "width": 8}]
    assert differences(flat) == {"alpha": [0.1, 0.5]}
    assert labels(flat, "x") == ["alpha 0.1", "alpha 0.5"] and labels(flat[:1], "x") == ["x"]


def test_runs_that_differ_in_more_than_the_seed_have_labels():
    runs = [
        {"algorithm": {"name": "Mine", "alpha": alpha}, "options": {"steps": 30}, "seed": seed}
        for alpha in (0.1, 0.5)
        for seed in (0, 1)
    ]
    config = {"run": {"runs": runs, "data": []}, "made_with": {}, "about": {}}
    run = RunRecord(Path("fleet"), config, rows_of([[1.0, 2, 3]] * 4), {1: "run 1 stopped"})
    assert [(v.label, v.runs) for v in run.variants] == [
        ("alpha 0.1", [0, 1]),
        ("alpha 0.5", [2, 3]),
    ]
    made = page(Parts(run, "no data", "no data", "no data", "no data"))
    root = ElementTree.fromstring(made.removeprefix("<!DOCTYPE html>"))
    legend = next(e for e in root.iter("ul") if e.get("class") == "legend")
    assert ["".join(item.itertext()) for item in legend] == ["alpha 0.1", "alpha 0.5"]
    said = "".join(next(root.iter("header")).itertext())
    assert "run 1 stopped." in said and "they are compared below" in said
    assert "30 steps, 1 failure" in said and "failures" not in said


def fleet_of(trials: list[Trial], folder: Path) -> RunRecord:
    """Write the run folder of an experiment's fleet and read it again."""
    datasets = list(dict.fromkeys(trial.dataset for trial in trials))
    runs = [
        {"algorithm": {"name": "LobsDICE"}, "options": {"steps": 30}, "seed": trial.seed}
        | {"data": datasets.index(trial.dataset)}
        for trial in trials
    ]
    data = [{"fingerprint": f"data set {i}"} for i in range(len(datasets))]
    RunFolder(folder).begin({"runs": runs, "data": data}, {}, resume=False)
    RunFolder(folder).write_rows(rows_of([[1.0, 2, 3]] * len(trials), "score"))
    (folder / TRIALS).write_text(json.dumps([asdict(trial) for trial in trials]))
    return read_run(folder)


def test_an_experiments_fleet_says_what_each_run_learned_from(tmp_path):
    small, large = (100, 500, 500), (400, 1000, 1000)
    trials = [Trial("lobsdice", "walker2d", small, seed, demonstrations=3) for seed in (0, 1)]
    trials += [Trial("lobsdice", "halfcheetah", large, seed, demonstrations=3) for seed in (0, 1)]
    run = fleet_of(trials, tmp_path / "fleet")
    labels = ["task walker2d, mixture 100/500/500", "task halfcheetah, mixture 400/1000/1000"]
    assert [variant.label for variant in run.variants] == labels and run.environment is None
    made = page(Parts(run, *["not looked at"] * 4))
    assert "from 2 kinds of data from walker2d and halfcheetah, which are listed below." in made
    assert cells(labelled("Data", made)) == [
        *[[n, "walker2d", "3", "100", "500", "500", "1", "data set"] for n in ("0", "1")],
        *[[n, "halfcheetah", "3", "400", "1,000", "1,000", "1", "data set"] for n in ("2", "3")],
    ]


def test_a_fleet_of_one_task_is_described_in_a_sentence(tmp_path):
    trials = [Trial("lobsdice", "hopper", (100, 0, 500), seed, 50, 20) for seed in (0, 1)]
    run = fleet_of(trials, tmp_path / "fleet")
    assert run.environment == "hopper"
    assert learned(run, None, None) == (
        "LobsDICE learned to act from 50 demonstrations (one transition in 20) of hopper and its "
        "logged episodes: 100 expert, 500 random."
    )
    pieces = fleet_of([replace(trials[0], fragment=50)], tmp_path / "pieces")
    assert "100 expert in pieces of 50 steps, 500 random." in learned(pieces, None, None)
    other = fleet_of([replace(trials[0], demonstrations=5)], tmp_path / "other")
    differing = cells(labelled("Differing settings", compare_page.page([run, other])))
    assert ["demonstrations", "50", "5"] in differing


@pytest.mark.parametrize("damaged", ["", "[{}]", "[1]", "{}"])
def test_trials_that_cannot_be_read_are_ignored(tmp_path, damaged):
    folder = fleet_of([Trial("lobsdice", "hopper", (1, 1, 1), 0)], tmp_path / "fleet").path
    (folder / TRIALS).write_text(damaged)
    assert "a Python program gave it" in learned(read_run(folder), None, None)


def test_episodes_are_numbered_in_their_own_file():
    offline = mixture({"a": noise(20), "b": noise(30, seed=1)})
    weights = Weights(offline, np.array([0.1, 0.1, 0.1, 0.6, 0.1]), None, 1)
    made = section(weights)
    assert weights.half == 1 and "The heaviest: b 1, a 0, a 1." in made
    rows = cells(Html(made[made.index("By episode") :].partition("</h3>")[2]))
    assert [row[:2] for row in rows[:2]] == [["b", "1"], ["a", "0"]]
    assert [row[5] for row in rows] == ["10", "0", "10", "0", "20"]
    together = section(replace(weights, file="all.npz"))
    assert "The heaviest: b 3, a 0, a 1." in together


def test_weights_may_all_be_zero():
    weights = Weights(noise(30), np.zeros(3), "logs.npz", 1)
    assert weights.half == 3 and "No recorded transition has any weight." in section(weights)


def test_of_logs_on_the_disk_no_episode_is_weighed(tmp_path):
    logs = noise(3000)
    fleet = Fleet((Member(LobsDICE(width=4)),), (prepare(noise(40, seed=1), logs, pool=1024),))
    with pytest.raises(LobsDICEError, match="only some episodes could be weighed"):
        weigh(RunFolder(tmp_path), fleet, logs, None)


def test_recorded_states_are_rendered_only_if_they_determine_the_simulators_state():
    expert = load("hopper", expert=1, offline={"random": 1}).expert
    world = make("hopper").unwrapped  # pyright: ignore
    put = placing(world, expert.state_size)
    assert put is not None
    assert list(put(expert.observations[:5])) == [True] * 5
    before = world.data.qpos[0]
    *_, last = put(expert.observations[:50])
    assert last and world.data.qpos[0] > before  # it hops forward
    assert placing(world, 5) is None
    assert placing(make("CartPole-v1").unwrapped, 4) is None  # pyright: ignore


def test_a_page_replaces_a_page_and_no_other_file(tmp_path):
    path = tmp_path / "notes.html"
    path.write_text("<!DOCTYPE html><p>my notes</p>")
    with pytest.raises(LobsDICEError, match="exists, and is no page of lobsdice"):
        write_page(path, document("lobsdice", "first"))
    path.unlink()
    for word in ("first", "second"):
        write_page(path, document("lobsdice", word))
        assert word in path.read_text()

import subprocess
import sys

import numpy as np
import pytest

from lobsdice.algorithms import ALGORITHMS
from lobsdice.errors import LobsDICEError
from lobsdice.experiments import plots

HEADER = "beta,n_expert,n_offline,algorithm,alpha,mean,standard_error\n"
CURVES = (("BC", ""), ("OPOLO", ""), ("LobsDICE", "0.1"), ("LobsDICE", "0.001"))


@pytest.fixture
def table(tmp_path):
    rows = [
        f"{beta},{expert},{offline},{name},{alpha},{0.5 / (1 + k)},0.01\n"
        for beta in (0.1, 1.0)
        for expert in (10, 100, 1000)
        for offline in (1, 10)
        for k, (name, alpha) in enumerate(CURVES)
    ]
    path = tmp_path / "table.csv"
    path.write_text(HEADER + "".join(rows))
    return path


def test_plots_import_nothing_that_trains():
    code = "import lobsdice.experiments.plots, sys; print({'jax', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_a_panel_for_each_beta_and_number_of_experts(table):
    figure = plots.random_mdp(table)
    assert len(figure.axes) == 2 * 3
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    assert [axes.get_title() for axes in figure.axes[:3]] == [
        "10 expert trajectories", "100 expert trajectories", "1,000 expert trajectories",
    ]  # fmt: skip


def test_every_curve_of_the_table_is_drawn_with_its_own_look(table):
    drawn = plots.random_mdp(table).axes[0].get_lines()
    assert [line.get_label() for line in drawn] == [
        "BC", "OPOLO", "LobsDICE, α = 0.1", "LobsDICE, α = 0.001",
    ]  # fmt: skip
    assert len({line.get_color() for line in drawn}) == len(CURVES)
    assert np.array_equal(np.asarray(drawn[0].get_ydata()), [0.5, 0.5])


def test_the_logarithmic_figure_has_logarithmic_axes(table):
    figure = plots.random_mdp(table, logarithmic=True)
    assert all(axes.get_yscale() == "log" for axes in figure.axes)


def test_the_same_table_gives_the_same_files(table, tmp_path):
    first = plots.save(plots.random_mdp(table), tmp_path / "a")
    second = plots.save(plots.random_mdp(table), tmp_path / "b")
    assert [path.suffix for path in first] == [".png", ".svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def scores_of(path, *runs):
    """A table of scores with a row for each pair of an environment and an algorithm."""
    rows = [f"{environment},1,1,1,{algorithm},0,8,50" for environment, algorithm in runs]
    header = "environment,expert,medium,random,algorithm,seed,step,score"
    path.write_text("\n".join([header, *rows]))
    return path


def test_a_curve_that_the_first_panel_lacks_is_named_in_the_legend(tmp_path):
    table = scores_of(tmp_path / "scores.csv", ("hopper", "bc"), ("ant", "bc"), ("ant", "rce"))
    (legend,) = plots.learning_grid(table).legends
    assert [text.get_text() for text in legend.get_texts()] == ["bc", "rce"]


def test_an_algorithm_has_the_same_colour_in_every_figure(tmp_path):
    def colours(*algorithms):
        table = scores_of(tmp_path / "scores.csv", *(("ant", name) for name in algorithms))
        drawn = plots.learning_grid(table).axes[0].get_lines()
        return {str(line.get_label()): line.get_color() for line in drawn[: len(algorithms)]}

    everything = colours("unheard-of", *ALGORITHMS)
    assert len(set(everything.values())) == len(everything)
    assert colours("rce", "bco").items() <= everything.items()


def test_learning_curves_are_all_drawn_with_one_colour_for_each_label(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,run,score\n8,0,50\n16,0,60\n")
    labels = [f"run {i}" for i in range(len(plots.CURVES) + 1)]
    panels = {"all": dict.fromkeys(labels, path), "one": {labels[3]: path}}
    all_of_them, one = plots.learning_curves(panels).axes
    assert [line.get_label() for line in all_of_them.get_lines()] == labels
    assert one.get_lines()[0].get_color() == all_of_them.get_lines()[3].get_color()


def test_a_table_without_the_columns_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(LobsDICEError, match="no column algorithm, alpha"):
        plots.random_mdp(path)

import numpy as np
import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.plots.common import save
from lobsdice.experiments.plots.random_mdp import random_mdp

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


def test_a_panel_for_each_beta_and_number_of_experts(table):
    figure = random_mdp(table)
    assert len(figure.axes) == 2 * 3
    assert all(axes.get_xscale() == "log" for axes in figure.axes)
    assert [axes.get_title() for axes in figure.axes[:3]] == [
        "10 expert trajectories", "100 expert trajectories", "1,000 expert trajectories",
    ]  # fmt: skip


def test_every_curve_of_the_table_is_drawn_with_its_own_look(table):
    drawn = random_mdp(table).axes[0].get_lines()
    assert [line.get_label() for line in drawn] == [
        "BC", "OPOLO", "LobsDICE, α = 0.1", "LobsDICE, α = 0.001",
    ]  # fmt: skip
    assert len({line.get_color() for line in drawn}) == len(CURVES)
    assert np.array_equal(np.asarray(drawn[0].get_ydata()), [0.5, 0.5])


def test_the_logarithmic_figure_has_logarithmic_axes(table):
    figure = random_mdp(table, logarithmic=True)
    assert all(axes.get_yscale() == "log" for axes in figure.axes)


def test_the_same_table_gives_the_same_files(table, tmp_path):
    first = save(random_mdp(table), tmp_path / "a")
    second = save(random_mdp(table), tmp_path / "b")
    assert [path.suffix for path in first] == [".png", ".svg"]
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes()


def test_a_table_without_the_columns_is_refused(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(LobsDICEError, match="no column algorithm, alpha"):
        random_mdp(path)

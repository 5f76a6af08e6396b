from lobsdice.algorithms import ALGORITHMS
from lobsdice.experiments.plots.common import COLOURS
from lobsdice.experiments.plots.learning import learning_curves, learning_grid


def scores_of(path, *runs):
    """A table of scores with a row for each pair of an environment and an algorithm."""
    rows = [f"{environment},1,1,1,{algorithm},0,8,50" for environment, algorithm in runs]
    header = "environment,expert,medium,random,algorithm,seed,step,score"
    path.write_text("\n".join([header, *rows]))
    return path


def test_a_curve_that_the_first_panel_lacks_is_named_in_the_legend(tmp_path):
    table = scores_of(tmp_path / "scores.csv", ("hopper", "bc"), ("ant", "bc"), ("ant", "rce"))
    (legend,) = learning_grid(table).legends
    assert [text.get_text() for text in legend.get_texts()] == ["bc", "rce"]


def test_an_algorithm_has_the_same_colour_in_every_figure(tmp_path):
    def colours(*algorithms):
        table = scores_of(tmp_path / "scores.csv", *(("ant", name) for name in algorithms))
        drawn = learning_grid(table).axes[0].get_lines()
        return {str(line.get_label()): line.get_color() for line in drawn[: len(algorithms)]}

    everything = colours("unheard-of", *ALGORITHMS)
    assert len(set(everything.values())) == len(everything)
    assert colours("rce", "bco").items() <= everything.items()


def test_learning_curves_are_all_drawn_with_one_colour_for_each_label(tmp_path):
    path = tmp_path / "metrics.csv"
    path.write_text("step,run,score\n8,0,50\n16,0,60\n")
    labels = [f"run {i}" for i in range(len(COLOURS) + 1)]
    panels = {"all": dict.fromkeys(labels, path), "one": {labels[3]: path}}
    all_of_them, one = learning_curves(panels).axes
    assert [line.get_label() for line in all_of_them.get_lines()] == labels
    assert one.get_lines()[0].get_color() == all_of_them.get_lines()[3].get_color()

"""The tables of the experiment on worlds that end have the answers of made-up scores."""

from lobsdice.data.files import write_csv
from lobsdice.experiments.endings import tables
from lobsdice.experiments.plots.endings import endings

DEMONSTRATORS = {"grid": 1.0, "pointmaze-noisy": 0.8}


def scores(**successes):
    """Rows of two worlds, in each the successes of an arm's seeds; before them all failed."""
    rows = [
        {"arm": arm, "world": world, "seed": seed, "step": step, "score": 0.0}
        | dict.fromkeys(("success", "drawn_success"), found if step == 8 else 0.0)
        for arm, worlds in successes.items()
        for world, values in zip(DEMONSTRATORS, worlds, strict=True)
        for seed, found in enumerate(values)
        for step in (4, 8)
    ]
    return tables.with_shares(rows, DEMONSTRATORS)


ROWS = scores(
    bc=([0.0, 0.1, 0.2, 0.3, 0.4], [0.0] * 5),
    lobsdice=([0.5, 0.7, 0.9, 1.1, 1.3], [0.4] * 5),
)


def test_a_summary_has_the_last_policies_and_the_role_of_each_world():
    found = {(row["world"], row["arm"]): row for row in tables.summary(ROWS, DEMONSTRATORS)}
    row = found["pointmaze-noisy", "lobsdice"]
    assert (row["role"], row["share"], row["share_low"], row["share_high"]) == (
        "reporting",
        *["0.500"] * 3,
    )
    row = found["grid", "bc"]
    assert (row["role"], row["share"], row["least_share"]) == ("choosing", "0.200", "0.000")
    assert 0 < float(row["share_low"]) < 0.2 < float(row["share_high"]) < 0.4


def test_worlds_weigh_alike_in_an_aggregate():
    found = {(row["worlds"], row["arm"]): row for row in tables.aggregate(ROWS)}
    assert found["choosing", "lobsdice"]["share"] == "0.900"
    assert found["reporting", "lobsdice"]["share"] == "0.500"
    assert found["all", "lobsdice"]["share"] == "0.700" and found["all", "bc"]["count"] == 2


def test_the_lead_over_another_arm_is_paired_by_world_and_seed():
    found = {(row["measure"], row["worlds"]): row for row in tables.comparisons(ROWS)}
    assert {(row["arm"], row["other"]) for row in found.values()} == {("lobsdice", "bc")}
    row = found["share", "grid"]
    assert (row["count"], row["seeds"], row["better"], row["lead"]) == (1, 5, 5, "0.700")
    assert row["wilcoxon_p"] == "0.0625"  # the least that five pairs can give
    row = found["drawn_share", "all"]
    assert (row["lead"], row["count"], row["better"]) == ("0.600", 2, 2)
    assert (row["sign_flip_p"], row["verdict"]) == ("0.5000", "open")  # two worlds show nothing


def test_runs_without_a_partner_are_left_out_of_a_comparison():
    alone = {"arm": "lobsdice", "world": "grid", "seed": 9, "step": 8}
    more = [*ROWS, alone | dict.fromkeys(tables.SHARES, -5.0)]
    assert tables.comparisons(more) == tables.comparisons(ROWS)


def test_tables_to_read_and_the_figure_show_every_world_and_arm(tmp_path):
    solved = {"method": "exact", "terminal": "stay", "world": "grid", "seed": 0}
    solved |= {"share": "0.3000", "drawn_share": "0.9000"}
    text = tables.markdown(ROWS, DEMONSTRATORS, [solved])
    assert "| pointmaze-noisy | reporting | 0.800 | 0.000 (0.000 to 0.000) | 0.500 (" in text
    assert "| grid | stay | exact | 0.300 | 0.900 |" in text
    paths = write_csv(tmp_path / "scores.csv", ROWS), write_csv(tmp_path / "exact.csv", [solved])
    axes = endings(*paths).axes
    assert [ax.get_title() for ax in axes if ax.axison] == ["grid", "pointmaze-noisy"]
    labels = [label.get_text() for label in axes[0].get_yticklabels()]
    assert labels == ["bc", "lobsdice", "exact, stay"]

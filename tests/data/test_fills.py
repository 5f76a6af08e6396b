"""Values that stand for missing measurements are found, and rare events are not taken for them."""

import numpy as np
import pytest

from lobsdice.data.episodes import Episodes
from lobsdice.data.fills import Fill, fill_values

RANDOM = np.random.default_rng(0)
ROWS = 21 * 100


def recorded(column: np.ndarray) -> Episodes:
    """Episodes of 20 steps with a usual feature and the column."""
    rows = np.stack([np.resize(np.linspace(0, 5, 37), len(column)), column], axis=1)
    count = len(column) // 21
    return Episodes.from_arrays(
        rows.astype(np.float32),
        lengths=[20] * count,
        actions=np.zeros((20 * count, 1)) + 0.5,
        observation_names=("T", "c_A"),
    )


def moving(rows: int = ROWS) -> np.ndarray:
    return RANDOM.normal(size=rows)


def with_value(value: float, count: int, *, column: np.ndarray | None = None) -> Episodes:
    column = moving() if column is None else column.copy()
    column[RANDOM.choice(len(column), count, replace=False)] = value
    return recorded(column)


EXPERT, LOGS = recorded(moving(21 * 5)), recorded(moving())


@pytest.mark.parametrize("value", [-9999, 999, -32768, 1e30, 4321, 1000])
@pytest.mark.parametrize("count", [3, 60, 400])
def test_a_number_far_away_that_repeats_is_a_fill_value(value, count):
    (fill,) = fill_values(EXPERT, with_value(value, count))
    assert fill == Fill("c_A", float(np.float32(value)), count, "the logs")


def test_the_sentence_names_the_feature_the_value_and_the_rows():
    (fill,) = fill_values(EXPERT, with_value(-9999, 60))
    assert fill.remark == (
        "feature c_A has the value -9999 in 60 rows of the logs, far from all others: a fill value?"
    )


def test_demonstrations_are_judged_together_with_the_logs():
    shown = with_value(-9999, 1, column=moving(21 * 5))
    assert [(f.where, f.rows) for f in fill_values(shown, LOGS)] == [("the demonstrations", 1)]
    missing = recorded(np.full(21 * 5, -999.0))
    assert [(f.where, f.rows) for f in fill_values(missing, LOGS)] == [("the demonstrations", 105)]


def test_a_fill_value_at_each_side_is_found():
    column = moving()
    column[:30], column[30:50] = -9999, 9999
    assert [fill.value for fill in fill_values(EXPERT, recorded(column))] == [-9999, 9999]


def test_an_integer_limit_is_no_fill_value_where_others_come_near():
    ticks = np.append(np.linspace(-32768, 32767, ROWS - 20), np.full(20, 32767))
    assert fill_values(recorded(ticks[:: ROWS // 105][:105]), recorded(ticks)) == []


EVENTS = {
    "a flag": np.arange(ROWS) % 700 == 0,
    "a contact": np.where(np.arange(ROWS) % 300 < 4, RANDOM.uniform(50, 400, ROWS), 0),
    "a contact that saturates": np.where(np.arange(ROWS) % 300 < 4, 500.0, 0)
    + np.where(np.arange(ROWS) % 250 == 0, RANDOM.uniform(0, 2, ROWS), 0),
    "one spike": np.where(np.arange(ROWS) == 77, 1e5, moving()),
    "spikes": np.where(np.arange(ROWS) % 90 == 0, 1e4 * moving(), moving()),
    "places of a switch": np.where(np.arange(ROWS) % 500 == 0, 40.0, np.arange(ROWS) % 3),
    "a constant": np.full(ROWS, 7.0),
    "no noise": np.zeros(ROWS),
}


@pytest.mark.parametrize("name", EVENTS)
def test_rare_events_are_no_fill_values(name):
    column = EVENTS[name].astype(float)
    assert fill_values(recorded(column[:105]), recorded(column)) == []


def test_a_value_of_many_rows_is_a_place_and_no_fill_value():
    assert fill_values(EXPERT, with_value(-50, 900)) == []

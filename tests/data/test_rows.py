import numpy as np
from hypothesis import given, settings, strategies as st

from lobsdice.data.rows import column_range


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 700), st.integers(1, 600), st.integers(0, 2**32 - 1))
def test_the_range_of_columns_is_that_of_numpy(rows, width, seed):
    values = np.random.default_rng(seed).normal(size=(rows, width)).astype(np.float32)
    low, high = column_range(values)
    np.testing.assert_array_equal(low, values.min(axis=0))
    np.testing.assert_array_equal(high, values.max(axis=0))


def test_the_range_of_a_column_with_nan_is_nan():
    values = np.zeros((100, 3), np.float32)
    values[50, 1] = np.nan
    low, high = column_range(values)
    assert np.isnan(low).tolist() == np.isnan(high).tolist() == [False, True, False]

import numpy as np

from lobsdice.data.actions import infer_space
from lobsdice.data.spaces import Box, Discrete


def test_inferred_spaces():
    def reals(*columns):
        return np.array(columns, np.float32).T

    assert infer_space(reals([-0.5, 0.5])) == Box.of([-1], [1])
    assert infer_space(reals([-3, 2], [0.5, 1])) == Box.of([-3, 0.5], [2, 1])
    assert infer_space(reals([4, 4])) == Box.of([3], [5])
    assert infer_space(np.array([0, 4, 2])) == Discrete(5)
    huge = np.finfo(np.float32).max
    assert not infer_space(reals([huge, huge])).outside(reals([huge, huge])).size

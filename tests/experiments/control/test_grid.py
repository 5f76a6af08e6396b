import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.control.grid import Grid


@pytest.mark.parametrize(
    "wrong", [{"env": ("cartpole",)}, {"algorithms": ("gail",)}, {"seeds": 0}, {"sizes": ()}]
)
def test_a_grid_that_cannot_be_is_refused(wrong):
    with pytest.raises(LobsDICEError):
        Grid(**wrong).trials()

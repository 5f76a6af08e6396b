import pytest

from lobsdice.errors import LobsDICEError
from lobsdice.experiments.random_mdp.settings import Settings


@pytest.mark.parametrize(
    "wrong", [{"betas": ()}, {"experts": (10, 1)}, {"offlines": (0, 1)}, {"betas": (2.0,)}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(LobsDICEError, match="must be"):
        Settings(**wrong)

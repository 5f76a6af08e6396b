import pytest
from tabular.mdps import make_world


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def injective():
    """A deterministic world in which different actions lead from a state to different states."""
    return make_world(seed=3, deterministic=True)

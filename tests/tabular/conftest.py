import pytest
from tabular.mdps import make_world


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def injective():
    """Deterministic, and no two actions lead from a state to the same state."""
    return make_world(seed=3, deterministic=True)

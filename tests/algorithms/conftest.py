import jax
import pytest


@pytest.fixture(scope="module")
def quick_compilation():
    """For modules that spend more time on compiling than on what they compile."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)

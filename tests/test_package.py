"""The package as `import lobsdice` gives it."""

import importlib.util
import inspect

import pytest

import lobsdice


@pytest.mark.parametrize("name", lobsdice.__all__)
def test_no_module_takes_the_place_of_a_public_name(name):
    """Importing a module sets an attribute of the package, which must not be that of a function."""
    is_module = importlib.util.find_spec(f"lobsdice.{name}") is not None
    assert is_module == inspect.ismodule(getattr(lobsdice, name))


def test_all_public_names_are_listed_and_no_others_are_found():
    assert {*lobsdice.__all__, "__version__"} == set(dir(lobsdice))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lobsdice.nothing  # noqa: B018

"""The package as `import lobsdice` gives it."""

import importlib.util
import inspect
import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

import lobsdice

FOLDER = Path(__file__).parents[1]


@pytest.mark.parametrize("name", lobsdice.__all__)
def test_no_module_takes_the_place_of_a_public_name(name):
    """Importing a module sets an attribute of the package, which must not be that of a function."""
    is_module = importlib.util.find_spec(f"lobsdice.{name}") is not None
    assert is_module == inspect.ismodule(getattr(lobsdice, name))


def test_all_public_names_are_listed_and_no_others_are_found():
    assert {*lobsdice.__all__, "__version__"} == set(dir(lobsdice))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        lobsdice.nothing  # noqa: B018


def tracked(*folders: str) -> set[str]:
    """The files of the repository or, where this is a source distribution, those that lie here."""
    if not (FOLDER / ".git").exists():
        found = [path for name in folders for path in (FOLDER / name).rglob("*")]
        paths = [path.relative_to(FOLDER) for path in found if path.is_file()]
        return {path.as_posix() for path in paths if "__pycache__" not in path.parts}
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True)
    return {name for name in listed.stdout.splitlines() if (FOLDER / name).exists()}


def test_the_source_distribution_has_all_that_its_tests_look_at(tmp_path):
    (path,) = SdistBuilder(str(FOLDER)).build(directory=str(tmp_path))
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= tracked("src", "tests", "docs", "examples", "results", "benchmarks", ".ci")
    files = {"Makefile", "mkdocs.yml", "constraints.txt", "README.md", "CONTRIBUTING.md"}
    assert names >= files | {"LICENSE", "SECURITY.md", "CHANGELOG.md", "pyproject.toml"}


def test_the_wheel_has_the_package_and_nothing_else(tmp_path):
    (path,) = WheelBuilder(str(FOLDER)).build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(path) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == {name.removeprefix("src/") for name in tracked("src")}
    assert {"lobsdice/py.typed", "lobsdice/report/page.js"} <= names


@pytest.mark.xdist_group("together")
def test_groups_of_tests_have_an_effect(request):
    """Otherwise fixtures that many tests share are made in every worker."""
    assert ("@together" in request.node.nodeid) == ("PYTEST_XDIST_WORKER" in os.environ)

"""Compiled programs that are kept between trainings."""

import os
import subprocess
import sys

import pytest
from worlds import noise

from lobsdice.data.formats import write
from lobsdice.training.programs import private, shorten

#: Variables with which tests share what they compiled.
CACHE = ("JAX_COMPILATION_CACHE", "JAX_PERSISTENT_CACHE")
TRAIN = """
import sys
import jax
from jax import monitoring

found = []
monitoring.register_event_listener(lambda name, **_: found.append(name.rpartition("/")[2]))
from lobsdice import BC

run = BC(width=4).fit("demos.npz", "logs.npz", steps=2, every=2, batch_size=4)
print(found.count("cache_hits"), found.count("cache_misses"), run.policy.to_bytes().hex()[-64:])
print([name for name in sys.modules if name.startswith(("lobsdice.tabular", "scipy.sparse"))])
"""


@pytest.fixture
def desk(tmp_path):
    write(tmp_path / "demos.npz", noise(40, seed=1))
    write(tmp_path / "logs.npz", noise(80))
    return tmp_path


def train(desk) -> list[str]:
    """The programs that were found and not found in the cache, and the policy's checksum."""
    ours = {name: text for name, text in os.environ.items() if not name.startswith(CACHE)}
    variables = ours | {"LOBSDICE_CACHE": str(desk / "cache")}
    command = [sys.executable, "-c", TRAIN]
    result = subprocess.run(
        command, cwd=desk, env=variables, capture_output=True, text=True, check=True
    )
    counts, modules = result.stdout.splitlines()
    assert modules == "[]"  # exact solvers take a second to import, and training needs none
    return counts.split()


def test_a_second_training_compiles_nothing_and_ends_with_the_same_bytes(desk):
    hits, misses, policy = train(desk)
    assert int(hits) == 0 and int(misses) > 1
    hits, misses, again = train(desk)
    assert int(hits) > 1 and int(misses) == 0 and again == policy
    (folder,) = (desk / "cache" / "programs").iterdir()
    assert folder.stat().st_mode & 0o077 == 0 and list(folder.iterdir())


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    tmp_path.chmod(0o777)
    assert not private(tmp_path)
    tmp_path.chmod(0o700)
    assert private(tmp_path)


def test_the_oldest_programs_are_removed_first(tmp_path):
    for age, name in enumerate(("new", "old", "older")):
        (tmp_path / name).write_bytes(bytes(10))
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    shorten(tmp_path, most=25)
    assert {path.name for path in tmp_path.iterdir()} == {"new", "old"}

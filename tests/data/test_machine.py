"""The memory of machines whose systems tell less than Linux."""

import os
from pathlib import Path

import pytest

from lobsdice.data import machine


@pytest.mark.parametrize("error", [AttributeError, ValueError, OSError])
def test_memory_that_the_system_does_not_tell_is_unbounded(error, monkeypatch):
    def missing(*arguments, **options):
        raise FileNotFoundError if arguments and isinstance(arguments[0], Path) else error

    monkeypatch.setattr(Path, "read_text", missing)
    assert machine.memory() < machine.UNBOUNDED
    monkeypatch.setattr(os, "sysconf", missing)
    assert machine.memory() == machine.UNBOUNDED
    monkeypatch.delattr(os, "sysconf")  # as on Windows
    assert machine.memory() == machine.UNBOUNDED

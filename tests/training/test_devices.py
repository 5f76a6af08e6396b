"""Fleets over several devices, of which a processor can have as many virtual ones as wanted."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = Path(__file__).with_name("eight_devices.py")
EIGHT = "--xla_force_host_platform_device_count=8"


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    """What `eight_devices.py` prints. JAX counts devices once, so another process must do it."""
    here = {
        "XLA_FLAGS": EIGHT,
        "PYTHONPATH": str(PROGRAM.parents[1]),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1",
    }
    program = subprocess.run(
        [sys.executable, str(PROGRAM)], env={**os.environ, **here}, capture_output=True, text=True
    )
    assert program.returncode == 0, program.stderr
    return json.loads(program.stdout)


@pytest.mark.parametrize("where", ["three", "all", "moved"])
def test_a_fleet_learns_the_same_on_several_devices_as_on_one(found, where):
    """Of five runs three devices have two each, one of them a repetition; eight have one each."""
    one, several = found["one"], found[where]
    assert found["present"] == 8
    assert (several["step"], several["runs"]) == (one["step"], one["runs"]) == (8, 5)
    for expected, state in zip(one["state"], several["state"], strict=True):
        np.testing.assert_allclose(state, expected, rtol=1e-9, atol=1e-12)
    assert several["metrics"].keys() == one["metrics"].keys()
    for name, values in one["metrics"].items():
        np.testing.assert_allclose(several["metrics"][name], values, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("where", ["three", "all", "moved"])
def test_a_run_that_fails_on_one_of_several_devices_fails_alone(found, where):
    failed_at = found["one"]["failed_at"]
    assert [step >= 0 for step in failed_at] == [False, False, True, False, False]
    assert found[where]["failed_at"] == failed_at


def test_results_come_together_on_the_first_device(found):
    assert found["all"]["devices"] == [0]


def test_more_devices_than_there_are_are_refused(found):
    assert "JAX sees 8 devices here (cpu)" in found["refusal"]

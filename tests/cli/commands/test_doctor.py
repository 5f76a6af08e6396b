import json
import tomllib
from importlib.metadata import version
from pathlib import Path

import jax
import pytest

from lobsdice.data.machine import cores
from lobsdice.executors import doctor
from lobsdice.executors.doctor import EXTRAS, advice

PROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def found(lobsdice, monkeypatch):
    """What the command prints for this machine, without a picture."""
    monkeypatch.setattr(doctor, "renderer", lambda: "egl")
    return json.loads(lobsdice("doctor", "--json").out)


def test_the_doctor_tells_devices_versions_cores_and_memory(found):
    assert [device["kind"] for device in found["devices"]] == ["cpu"] * jax.local_device_count()
    assert found["versions"]["jax"] == jax.__version__
    assert found["cores"] == cores()
    assert found["memory_gib"] > 0


def test_the_doctor_knows_every_extra_of_the_package(found):
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = set(project["optional-dependencies"]) - {"all", "dev", "docs"}
    assert set(found["extras"]) == extras
    assert found["extras"]["ray"] == {"installed": True, "packages": {"ray": version("ray")}}
    assert not found["extras"]["cuda"]["installed"]


def test_the_doctor_says_what_is_missing_for_what(monkeypatch):
    monkeypatch.setattr(doctor, "has_nvidia", lambda: True)
    extras = {name: {"installed": name not in ("cuda", "onnx")} for name in EXTRAS}
    found = {"extras": extras, "devices": [{"platform": "cpu"}], "renderer": "none: no EGL"}
    gpu, onnx, videos, *_ = advice(found)
    assert "JAX does not see it: pip install 'lobsdice[cuda]'" in gpu
    assert onnx == "for lobsdice export --onnx: pip install 'lobsdice[onnx]'"
    assert "MUJOCO_GL" in videos


def test_the_renderer_that_is_told_has_drawn_a_picture(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "nothing")
    assert doctor.renderer().startswith("none: nothing does not work (")


def test_tables_tell_the_same(lobsdice, monkeypatch):
    monkeypatch.setattr(doctor, "renderer", lambda: "egl")
    shown = lobsdice("doctor").out
    assert "renderer of MuJoCo" in shown and "egl" in shown
    assert "jax-cuda13-plugin is missing" in " ".join(shown.split())

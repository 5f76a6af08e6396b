"""A list of what a machine has for training, and of what is missing for what."""

import os
import platform
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from lobsdice.data.machine import UNBOUNDED, cores, memory

#: Packages that results depend on.
PACKAGES = ("lobsdice", "jax", "jaxlib", "numpy", "equinox", "optax")
#: Seconds that the first picture may take.
PATIENCE = 60
#: A program that draws one picture with MuJoCo. A driver that does not work may end it.
DRAW = """
import mujoco
world = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
state = mujoco.MjData(world)
mujoco.mj_forward(world, state)
with mujoco.Renderer(world, 32, 32) as renderer:
    renderer.update_scene(state)
    assert renderer.render().shape == (32, 32, 3)
"""


class Extra(NamedTuple):
    """The packages of an extra, and what it is for."""

    packages: tuple[str, ...]
    purpose: str


EXTRAS = {
    "mujoco": Extra(("gymnasium", "mujoco"), "MuJoCo tasks, evaluation in an environment, videos"),
    "robotics": Extra(("gymnasium-robotics",), "environments of gymnasium-robotics"),
    "minari": Extra(("minari",), "Minari datasets"),
    "arrayrecord": Extra(("array_record",), "datasets in ArrayRecord files"),
    "onnx": Extra(("onnx", "onnxruntime"), "lobsdice export --onnx"),
    "tensorboard": Extra(("tensorboardX",), "lobsdice train --tensorboard"),
    "wandb": Extra(("wandb",), "lobsdice train --wandb"),
    "cuda": Extra(("jax-cuda13-plugin",), "training on NVIDIA GPUs"),
    "ray": Extra(("ray",), "--on ray: fleets on a Ray cluster"),
    "slurm": Extra(("submitit",), "--on slurm: fleets as jobs of Slurm"),
    "sweep": Extra(("optuna",), "lobsdice sweep"),
}


def examine() -> dict[str, Any]:
    """Everything that `lobsdice doctor` tells, as plain data."""
    found = {
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in PACKAGES},
        "system": platform.platform(),
        "cores": cores(),
        "memory_gib": None if (free := memory()) == UNBOUNDED else round(free / 2**30, 1),
        "devices": devices(),
        "renderer": renderer(),
        "extras": {name: _extra(extra) for name, extra in EXTRAS.items()},
    }
    return found | {"advice": advice(found)}


def devices() -> list[dict[str, Any]]:
    """The devices of JAX, with their memory where it is known."""
    import jax

    return [
        {"kind": device.device_kind, "platform": device.platform, "memory_gib": _memory_of(device)}
        for device in jax.local_devices()
    ]


def renderer() -> str:
    """The renderer of MuJoCo here, or the reason why there is none."""
    if _version("mujoco") is None:
        return "none: MuJoCo is not installed"
    display = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    name = os.environ.get("MUJOCO_GL") or ("glfw" if display else "egl")
    command = [sys.executable, "-P", "-c", DRAW]
    environment = {**os.environ, "MUJOCO_GL": name}
    try:
        subprocess.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=True)
    except subprocess.SubprocessError as error:
        said = (getattr(error, "stderr", b"") or b"").decode(errors="replace").strip()
        return f"none: {name} does not work ({(said.splitlines() or [str(error)])[-1]})"
    return name


def advice(found: dict[str, Any]) -> list[str]:
    """Sentences on what is missing for what."""
    missing = [name for name, extra in found["extras"].items() if not extra["installed"]]
    said = [
        f"for {EXTRAS[name].purpose}: pip install 'lobsdice[{name}]'"
        for name in missing
        if name != "cuda"
    ]
    if has_nvidia() and all(device["platform"] == "cpu" for device in found["devices"]):
        said.insert(
            0, "an NVIDIA GPU is here, but JAX does not see it: pip install 'lobsdice[cuda]'"
        )
    if found["renderer"].startswith("none") and "mujoco" not in missing:
        said.append(
            "for videos of MuJoCo: install the libraries of EGL (libegl1) or OSMesa (libosmesa6), "
            "or set MUJOCO_GL to a renderer that works"
        )
    if "slurm" not in missing and shutil.which("sbatch") is None:
        said.append(
            "for --on slurm: there is no `sbatch` here; run it on a login node of the cluster"
        )
    return said


def has_nvidia() -> bool:
    """True if this machine has a driver for NVIDIA GPUs."""
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def _extra(extra: Extra) -> dict[str, Any]:
    versions = {package: _version(package) for package in extra.packages}
    return {"installed": None not in versions.values(), "packages": versions}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _memory_of(device: Any) -> float | None:
    limit = (device.memory_stats() or {}).get("bytes_limit")
    return limit and round(limit / 2**30, 1)

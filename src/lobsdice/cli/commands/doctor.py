"""`lobsdice doctor`."""

from dataclasses import dataclass
from typing import Any

from lobsdice import console
from lobsdice.cli import output


@dataclass(frozen=True)
class Doctor:
    """Say what this machine has: devices, versions, extras, cores, memory, and a renderer.

    The last lines say what is missing, and for what. Nothing is installed or written.

    Example:
        lobsdice doctor
        lobsdice doctor --json
    """

    json: bool = False
    """Print JSON instead of tables."""

    def __call__(self) -> None:
        from lobsdice.executors.doctor import EXTRAS, examine

        with console.waiting("Looking at devices and drawing a picture"):
            found = examine()
        if self.json:
            return output.print_json(found)
        output.print_facts("this machine", _facts(found))
        rows = [
            {"extra": name, "found": _found(extra["packages"]), "for": EXTRAS[name].purpose}
            for name, extra in found["extras"].items()
        ]
        output.print_rows(rows, ("extra", "found", "for"))
        for line in found["advice"]:
            console.show(line)


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    devices = [
        device["kind"] + (f" ({device['memory_gib']} GiB)" if device["memory_gib"] else "")
        for device in found["devices"]
    ]
    return {
        **found["versions"],
        "system": found["system"],
        "cores": found["cores"],
        "free memory": f"{found['memory_gib']} GiB" if found["memory_gib"] else "unknown",
        "devices of JAX": f"{len(devices)}: {', '.join(devices)}",
        "renderer of MuJoCo": found["renderer"],
    }


def _found(packages: dict[str, str | None]) -> str:
    return ", ".join(f"{name} {version or 'is missing'}" for name, version in packages.items())

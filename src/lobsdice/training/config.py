"""The contents of config.json: checked when they are read, and compared when a run is resumed."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lobsdice import __version__
from lobsdice.errors import LobsDICEError
from lobsdice.training.settings import differences, flatten, misfit, too_deep

#: What config.json must have at least.
SHAPE = {
    "run": {
        "runs": [{"algorithm": {"name": str}, "options": {"steps": int}, "seed": int, "data": int}],
        "data": [{"fingerprint": str}],
    },
    "made_with": dict,
    "about": dict | None,
}
#: What the settings in config.json must have, if `lobsdice train` wrote it.
SETTINGS = {"expert": str | None | tuple[str, ...], "offline": [str]}
#: What the settings of earlier versions may lack.
LATER = {"task": str | None, "env": str | None, "mixture": [int], "preparation": dict}


def check_config(config: Any) -> None:
    """Raise a ValueError unless config.json has what lobsdice writes."""
    if too_deep(config):
        raise ValueError("its settings are nested too deeply")
    if found := misfit(config, SHAPE):
        raise ValueError(f"{found}, which lobsdice does not write")
    if set(config) != set(SHAPE):
        raise ValueError("it has other keys than lobsdice writes")
    run, settings = config["run"], (config["about"] or {}).get("settings", {})
    if not run["runs"] or not all(0 <= one["data"] < len(run["data"]) for one in run["runs"]):
        raise ValueError("its runs do not fit its data")
    if settings != {}:  # otherwise something else than `lobsdice train` wrote it
        _check_settings(settings)


def _check_settings(settings: Any) -> None:
    found = misfit(settings, SETTINGS)
    found = found or misfit(settings, {name: x for name, x in LATER.items() if name in settings})
    if found:
        raise ValueError(f"{found}, which lobsdice does not write")


def digest(run: Mapping[str, Any]) -> str:
    """The hash of a configuration, which includes the data's."""
    text = json.dumps(run, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def made_with() -> dict[str, str]:
    """The versions and the device, on which the last bits of results depend."""
    return {
        "lobsdice": __version__,
        "jax": jax.__version__,
        "numpy": np.__version__,
        "device": jax.devices()[0].device_kind,
    }


def refuse_change(path: Path, old: Any, new: Any) -> None:
    """Raise if two configurations differ; the error names the first difference."""
    if new_options := _option_names(new) - _option_names(old):
        raise LobsDICEError(
            f"{path} was trained by an earlier version of lobsdice, without the option "
            f"{', '.join(sorted(new_options))}; this version cannot resume it"
        )
    changes = differences([flatten(old), flatten(new)])
    if not changes:
        return
    name, (before, now) = next(iter(changes.items()))
    change = f"{name}: {json.dumps(before)} before, {json.dumps(now)} now"
    change = "the data has changed" if name.endswith("fingerprint") else change
    raise LobsDICEError(f"{path} holds another run, which cannot be resumed as this one: {change}")


def _option_names(run: Mapping[str, Any]) -> set[str]:
    return set(run["runs"][0].get("options", {}))


def warn_of_change(old: Mapping[str, Any], new: Mapping[str, str]) -> None:
    """Warn if the versions or the device are not what they were."""
    changes = [f"{k} {old.get(k)} before, {new[k]} now" for k in new if old.get(k) != new[k]]
    if changes:
        warnings.warn(
            f"the last bits may differ from those of an uninterrupted run: {'; '.join(changes)}",
            UserWarning,
            stacklevel=2,
        )

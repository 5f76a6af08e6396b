"""Train a small fleet on 1, 3 and 8 devices, and print what came out, for test_devices.py."""

import json

import jax
import numpy as np
from worlds import noise_data

from lobsdice.algorithms import BC
from lobsdice.errors import LobsDICEError
from lobsdice.training.engine import Member, Options, State
from lobsdice.training.fleet import Fleet, Progress, iterate

#: Of these the third is infinite on a device, so that the third run fails.
RATES = (1e-3, 2e-3, 1e300, 3e-3, 4e-3)
STEPS = 8


def fleet() -> Fleet:
    options = Options(steps=STEPS, batch_size=16)
    members = [
        Member(BC(width=8, policy_rate=rate), seed, seed % 2, options)
        for seed, rate in enumerate(RATES)
    ]
    return Fleet(tuple(members), (noise_data(seed=0), noise_data(seed=1)))


def plain(now: Progress) -> dict:
    leaves = [np.asarray(x, float).ravel().tolist() for x in jax.tree.leaves(now.state)]
    return {
        "step": now.step,
        "runs": len(now.state.failed_at),
        "failed_at": np.asarray(now.state.failed_at).tolist(),
        "state": leaves,
        "metrics": {name: values.tolist() for name, values in now.metrics.items()},
        "devices": sorted({d.id for x in jax.tree.leaves(now.state) for d in x.devices()}),
    }


def last(devices: int | None, begin: tuple[int, State] | None = None) -> Progress:
    *_, now = iterate(fleet(), every=STEPS // 2, devices=devices, begin=begin)
    return now


def refusal() -> str:
    try:
        last(9)
    except LobsDICEError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    half = next(iterate(fleet(), every=STEPS // 2, devices=1))
    found = {
        "one": plain(last(1)),
        "three": plain(last(3)),
        "all": plain(last(None)),
        "moved": plain(last(None, (half.step, half.state))),
    }
    print(json.dumps(found | {"refusal": refusal(), "present": jax.local_device_count()}))

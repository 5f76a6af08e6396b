"""A fleet over several devices of a host: each has some of the runs, and a copy of the data.

Runs do not talk to each other, so nothing is sent between devices. The last run is repeated until
the number of runs is a multiple of the number of devices; these repetitions are thrown away.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from lobsdice.errors import LobsDICEError, plural

#: The axis of runs is divided, or everything is everywhere.
RUNS, EVERYWHERE = PartitionSpec("runs"), PartitionSpec()


@dataclass(frozen=True)
class Spread:
    """The devices of a fleet, and how many runs it has."""

    devices: tuple[Any, ...]
    runs: int

    def each(self, tree: Any) -> Any:
        """Divide a tree of arrays, with an entry a run, among the devices."""
        if len(self.devices) == 1:
            return tree
        missing = -self.runs % len(self.devices)
        rows = jnp.minimum(jnp.arange(self.runs + missing), self.runs - 1)
        padded = jax.tree.map(lambda x: jnp.asarray(x)[rows], tree)
        return jax.device_put(padded, NamedSharding(self._mesh, RUNS))

    def copies(self, tree: Any) -> Any:
        """Give every device a copy of a tree of arrays."""
        if len(self.devices) == 1:
            return tree
        return jax.device_put(tree, NamedSharding(self._mesh, EVERYWHERE))

    def gathered(self, tree: Any) -> Any:
        """Collect the entries of all runs on the first device, without repetitions."""
        if len(self.devices) == 1:
            return tree
        return jax.tree.map(lambda x: jax.device_put(x, self.devices[0])[: self.runs], tree)

    def program(self, chunk: Callable, *, streams: bool) -> Callable:
        """The function `run_chunk` of `engine`, with the runs of each device on that device."""
        several = len(self.devices) > 1
        program = partial(_spread, chunk, self._mesh) if several else chunk
        return partial(program, streams=streams)

    @cached_property
    def _mesh(self) -> Mesh:
        return Mesh(np.array(self.devices), ("runs",))


@partial(jax.jit, static_argnums=(0, 1), static_argnames=("steps", "streams"))
def _spread(chunk: Callable, mesh: Mesh, *arguments: Any, steps: int, streams: bool) -> Any:
    one_device = partial(chunk, steps=steps, streams=streams)
    # In the order of `run_chunk`: algorithms, options, states, pool, slices, keys, first step.
    places = (RUNS, RUNS, RUNS, EVERYWHERE, RUNS, RUNS, EVERYWHERE)
    # No value is combined over devices, so there is nothing to check about such values.
    spread = jax.shard_map(one_device, mesh=mesh, in_specs=places, out_specs=RUNS, check_vma=False)
    return spread(*arguments)


def spread(runs: int, devices: int | None = None) -> Spread:
    """Choose devices for a fleet: `devices` of them; without a number, as many as are of use."""
    found: Sequence[Any] = jax.local_devices()
    wanted = len(found) if devices is None else devices
    if not 1 <= wanted <= len(found):
        raise LobsDICEError(
            f"`devices` is {devices}, but JAX sees {plural(len(found), 'device')} here "
            f"({found[0].device_kind}); `lobsdice doctor` lists them"
        )
    return Spread(tuple(found[: min(wanted, runs)]), runs)

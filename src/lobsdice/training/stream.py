"""The pool of a fleet whose logs are not all in memory: it changes as training goes on."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from lobsdice.data.prepare import Data
from lobsdice.data.steps import Steps
from lobsdice.training.draws import Pool, Slices

#: Steps of training between two changes of the pool. A piece of work of about as many steps is one
#: program, and the pool changes between two of them.
EVERY = 1000

Background = Callable[[Callable[[Any], Any], Any], Future]


class Stream:
    """The pool on the device, brought up to date before each piece of work.

    The next blocks are read by a thread while the device trains. The pool of a step depends on the
    step alone, so that a run continues as if it had not been interrupted.
    """

    def __init__(
        self,
        datas: Sequence[Data],
        step: int,
        make: Callable[[Sequence[Data]], tuple[Pool, Slices]],
        place: Callable[[Any], Any],
        background: Background,
    ):
        self.version = step // EVERY
        self.datas = [_at(data, self.version) for data in datas]
        self.background = background
        pool, self.slices = make(self.datas)
        self.pool: Pool = place(pool)
        self.places = _places(self.datas)
        self._read_ahead()

    @property
    def changes(self) -> bool:
        """True if some of the logs are not in memory."""
        return bool(self.places)

    def at(self, step: int) -> Pool:
        """The pool for the piece of work that begins at this step."""
        while self.version < step // EVERY and self.places:
            for data, change in zip(self.datas, self.ahead.result(), strict=True):
                if data.blocks is not None and change is not None:
                    self._replace(data, *change)
            self.version += 1
            self._read_ahead()
        return self.pool

    def _read_ahead(self) -> None:
        if self.places:
            self.ahead = self.background(self._changes, self.version + 1)

    def _changes(self, version: int) -> list[tuple[int, Steps] | None]:
        return [data.blocks and data.blocks.change(version) for data in self.datas]

    def _replace(self, data: Data, slot: int, fresh: Steps) -> None:
        table, number = self.places[id(data)]
        assert data.blocks is not None
        table += slot * data.blocks.rows
        number += slot * data.blocks.size
        fresh = fresh._replace(row=fresh.row + np.int32(table))
        offline = _replaced(self.pool.offline, fresh, jnp.int32(table), jnp.int32(number))
        self.pool = self.pool._replace(offline=offline)


@partial(jax.jit, donate_argnums=0)
def _replaced(pool: Steps, fresh: Steps, table: Any, number: Any) -> Steps:
    """The pool with other rows from row `table` of the table and from step `number` on."""
    first = Steps(table, table, number, number)
    return jax.tree.map(
        lambda old, new, at: jax.lax.dynamic_update_slice_in_dim(old, new, at, 0),
        pool,
        fresh,
        first._replace(a=None) if pool.a is None else first,
    )


def _at(data: Data, version: int) -> Data:
    if data.blocks is None or version == 0:
        return data
    return replace(data, offline=data.blocks.pool(version))


def _places(datas: Sequence[Data]) -> dict[int, tuple[int, int]]:
    """The first row of the table and the first step in the pool, of each dataset in blocks."""
    # Rows of ends follow those of steps, in the table and in the pool.
    ends = np.array([0 if data.ends is None else len(data.ends.offline) for data in datas])
    rows = np.array([len(data.offline.observations) for data in datas]) + ends
    steps = np.array([data.offline.size for data in datas]) + ends
    first = zip(datas, np.cumsum(rows) - rows, np.cumsum(steps) - steps, strict=True)
    return {id(data): (int(row), int(step)) for data, row, step in first if data.blocks}

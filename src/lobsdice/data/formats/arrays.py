"""The arrays of a file by name, each loaded when it is first asked for."""

from collections.abc import Callable, Iterable
from functools import cache
from typing import Generic, TypeVar

Array = TypeVar("Array")


class Arrays(Generic[Array]):
    """Arrays by name. What nobody asks for is never read."""

    def __init__(self, names: Iterable[str], load: Callable[[str], Array]):
        self.names = dict.fromkeys(names)
        self._load = cache(load)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> Array:
        return self._load(name)

    def take(self, names: Iterable[str]) -> dict[str, Array]:
        """The named arrays that are there."""
        return {name: self[name] for name in names if name in self}

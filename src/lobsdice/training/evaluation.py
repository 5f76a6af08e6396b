"""The evaluation that a user gives to training: a function, or an environment to act in."""

import inspect
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from lobsdice.environments.evaluate import summaries, try_step
from lobsdice.environments.gym import is_environment, opened
from lobsdice.environments.tasks.task import Task
from lobsdice.errors import LobsDICEError
from lobsdice.training.fleet import Fleet
from lobsdice.training.loggers import NAMES
from lobsdice.training.recorder import Evaluate

EXAMPLE = 'such as [{"return": 12.5} for policy in policies]'


def evaluation_of(given: Any, fleet: Fleet) -> Evaluate | None:
    """The function that evaluates policies, tried before training starts.

    `given` is such a function; or an environment, a function that makes one, or the name of one.
    """
    if given is None or isinstance(getattr(given, "__self__", None), Task):
        return given
    if isinstance(given, str) or is_environment(given) or _makes_environment(given):
        return _in_environment(given, fleet)
    if not callable(given):
        raise LobsDICEError(
            f"`evaluate` is {_what(given)}; it must be a function of policies, an environment, or "
            "the name of one"
        )
    evaluate: Any = given
    _check(evaluate(fleet.policies(fleet.begin())), len(fleet.members))
    return evaluate


def _in_environment(given: Any, fleet: Fleet) -> Evaluate:
    environment, data = opened(given), fleet.datas[0]
    try_step(environment, data.state_size, data.action_space)
    return lambda policies: summaries(policies, environment)


def _makes_environment(given: Any) -> bool:
    """True if a function takes no arguments: one that evaluates takes policies."""
    if isinstance(given, type):
        return True
    try:
        inspect.signature(given).bind()
    except (TypeError, ValueError):
        return False
    return True


def _check(found: Any, runs: int) -> None:
    """Raise unless an evaluation returned one dictionary of numbers for each policy."""
    if isinstance(found, str | Mapping) or not isinstance(found, Sequence) or len(found) != runs:
        raise LobsDICEError(
            f"`evaluate` returned {_what(found)} for {_policies(runs)}; it must return a list with "
            f"one dictionary for each policy, {EXAMPLE}"
        )
    for scores in found:
        _check_scores(scores)
        if other := set(found[0]) ^ set(scores):
            raise LobsDICEError(
                f"`evaluate` returned {min(map(repr, other))} for some policies only; it must "
                "return numbers of the same names for all"
            )


def _check_scores(scores: Any) -> None:
    if not isinstance(scores, Mapping) or "return" not in scores:
        names = f" with {', '.join(map(repr, scores))}" if isinstance(scores, Mapping) else ""
        raise LobsDICEError(
            f"`evaluate` returned {_what(scores)}{names} for a policy; it must be a dictionary "
            f"with the number 'return', {EXAMPLE}"
        )
    if taken := [name for name in scores if name in NAMES]:
        raise LobsDICEError(
            f"`evaluate` returned a number {taken[0]!r}, but metrics.csv has a column of that "
            "name; choose another"
        )
    if wrong := [name for name, value in scores.items() if not isinstance(value, Real)]:
        raise LobsDICEError(
            f"`evaluate` returned {_what(scores[wrong[0]])} as {wrong[0]!r}; it must be a number"
        )


def _what(found: Any) -> str:
    """A value in a few words."""
    if found is None:
        return "nothing"
    size = f" of {len(found)}" if isinstance(found, list | tuple) else ""
    kind = type(found).__name__
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}{size}"


def _policies(count: int) -> str:
    return "one policy" if count == 1 else f"{count} policies"

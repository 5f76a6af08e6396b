"""Mistakes of users in Python, each with the sentence that it gets, as JSON on standard output.

Run as a script: in the tests a run-time type checker would speak first.
"""

import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np

import lobsdice
from lobsdice.environments.evaluate import try_step

ld: Any = lobsdice  # wrong arguments are what this is about
folder = Path(sys.argv[1])
random = np.random.default_rng(0)


def recorded(**actions):
    return ld.Episodes.from_arrays(
        random.normal(size=(42, 4)), lengths=[20, 20], observation_names=list("xyuv"), **actions
    )


expert = recorded()
offline = recorded(actions=random.integers(0, 2, 40), action_space=ld.Discrete(2))
data = ld.prepare(expert, offline)
SMALL: Any = {"steps": 4, "batch_size": 8, "every": 4}
BC = ld.BC(width=4)


class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (4,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(4), {}

    def step(self, action) -> Any:
        return np.zeros(4), 1.0, False, False, {}


class Once(Endless):
    """An environment without a limit of steps, whose episodes end all the same."""

    def step(self, action) -> Any:
        return np.zeros(4), 1.0, True, False, {}


def evaluating(returned, seeds=1):
    return lambda: ld.train(BC, data, evaluate=lambda policies: returned, seeds=seeds, **SMALL)


MISTAKES = {
    "an array": lambda: ld.prepare(np.zeros((3, 4)), offline),
    "a path": lambda: ld.prepare("demos.npz", offline),
    "prepared data": lambda: ld.audit(data, offline),
    "a table": lambda: ld.audit(expert, SimpleNamespace(columns=["x", "y"])),
    "a list of episodes": lambda: ld.prepare(expert, [offline, offline]),
    "an array to fit": lambda: ld.BC().fit(np.zeros((3, 4)), offline),
    "a table to fit": lambda: ld.BC().fit(expert, SimpleNamespace(columns=["x", "y"])),
    "options in a dictionary": lambda: ld.BC().fit(expert, offline, read={"comment": "#"}),
    "an array to write": lambda: ld.write(folder / "a.npz", np.zeros(3)),
    "episodes to train": lambda: ld.train(BC, offline, **SMALL),
    "an unknown algorithm": lambda: ld.train("lobsdise", data, **SMALL),
    "no algorithm": lambda: ld.train(3, data, **SMALL),
    "half a step": lambda: ld.Options(steps=1.5),
    "a text for a number": lambda: ld.LobsDICE(alpha="small"),
    "a number for callbacks": lambda: ld.train(BC, data, callbacks=3, **SMALL),
    "numbers for loggers": lambda: BC.fit(expert, offline, loggers=[3], **SMALL),
    "an object to check an export": lambda: ld.export_numpy(run.policy, folder / "p.py", object()),
    "an unknown option": lambda: ld.train(BC, data, batchsize=3),
    "a text for seeds": lambda: ld.train(BC, data, seeds=2.5, **SMALL),
    "only pretraining": lambda: ld.train(ld.LobsDICE(pretrain=50), data, steps=20),
    "a folder without a policy": lambda: ld.load_policy(folder),
    "evaluation: nothing": evaluating(None),
    "evaluation: a number": evaluating([3.0]),
    "evaluation: too many": evaluating([{"return": 1.0}] * 2),
    "evaluation: a dictionary": evaluating({"return": 1.0}),
    "evaluation: no return": evaluating([{"score": 1.0}]),
    "evaluation: a column": evaluating([{"return": 1.0, "step": 3}]),
    "evaluation: a text": evaluating([{"return": "high"}]),
    "evaluation: other names": evaluating([{"return": 1.0, "x": 2.0}, {"return": 1.0}], seeds=2),
    "evaluation: no function": lambda: ld.train(BC, data, evaluate=3, **SMALL),
    "evaluation: another environment": lambda: ld.train(
        BC, data, evaluate=lambda: gymnasium.make("Pendulum-v1"), **SMALL
    ),
    "no environment": lambda: ld.evaluate(run.policy, 3),
    "no environment made": lambda: ld.evaluate(run.policy, lambda: 3),
}


def sentence(mistake):
    try:
        mistake()
    except ld.LobsDICEError as error:
        return str(error)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


def accepted():
    """Things that users try, and that work."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try_step(gymnasium.wrappers.TimeLimit(Endless(), 5), 4, ld.Discrete(2))
        quiet = len(caught)
        once = ld.train(ld.BC, data, evaluate=Once, **SMALL)
    policy = ld.load_policy(folder / "run")
    named = ld.evaluate(run.policies, "CartPole-v1", episodes=3, workers=1)
    return {
        "box": repr(ld.Box([-1], np.array([1]))),
        "patterns": ld.ReadOptions(observation_columns="obs_*").observation_columns,
        "steps": ld.Options(steps=1e3).steps,
        "returns": [row["return"] for row in [*run.rows, *once.rows]],
        "policy": bool((policy.weights[0] == run.policy.weights[0]).all()),
        "object": ld.evaluate(policy, cartpole, episodes=3).tolist() == named[0].tolist(),
        "factory": ld.evaluate(
            run.policies, lambda: gymnasium.make("CartPole-v1"), episodes=3
        ).tolist()
        == named.tolist(),
        "warnings": [quiet, *(str(w.message) for w in caught)],
        "repr": {name: repr(x) for name, x in shown(run).items()},
        "html": {name: x._repr_html_() for name, x in shown(run).items()},
    }


def shown(run):
    return {"run": run, "data": data, "episodes": replace(offline, valid=True)}


cartpole = gymnasium.make("CartPole-v1")
run = ld.train("BC", data, seeds=2, evaluate=cartpole, out=folder / "run", **SMALL)
found = {name: sentence(mistake) for name, mistake in MISTAKES.items()}
json.dump({"mistakes": found, "accepted": accepted()}, sys.stdout)

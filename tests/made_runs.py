"""Run folders as training leaves them, without the training."""

from pathlib import Path

import numpy as np

from lobsdice.algorithms import BC
from lobsdice.data.normaliser import Normaliser
from lobsdice.data.spaces import ActionSpace, Box
from lobsdice.policies.policy import Policy
from lobsdice.training.folder import RunFolder
from lobsdice.training.recipe import Recipe


def make_policy(space: ActionSpace, *, width: int = 3, seed: int = 0) -> Policy:
    random = np.random.default_rng(seed)
    outputs = 2 * space.size if isinstance(space, Box) else space.n
    weights = [random.normal(size=shape) / 2 for shape in ((width, 8), (8, outputs))]
    return Policy(
        tuple(weight.astype(np.float32) for weight in weights),
        tuple(np.zeros(n, np.float32) for n in (8, outputs)),
        Normaliser(np.zeros(width, np.float32), np.ones(width, np.float32)),
        space,
    )


def make_run(folder: Path, policies: list[Policy | None], **settings) -> Path:
    """Write a run folder; `None` stands for the policy of a run that failed early."""
    run = RunFolder(folder)
    about = {"settings": Recipe(algorithm=BC(), out=folder).to_plain() | settings}
    member = {"algorithm": {"name": "BC"}, "options": {"steps": 1}, "seed": 0, "data": 0}
    config = {"runs": [member] * len(policies), "data": [{"fingerprint": "made"}]}
    run.begin(config, about, resume=False)
    for number, policy in enumerate(policies):
        if policy is not None:
            policy.save(run.policy_path("last", number))
    return folder

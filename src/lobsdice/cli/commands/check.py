"""`lobsdice data check`."""

import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Files
from lobsdice.data.ends import compare_ends
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.prepare import Data, count_leaked
from lobsdice.data.recordings import Preparation, read_together, read_unlabelled
from lobsdice.errors import DataWarning


@dataclass(frozen=True)
class Check:
    """Show the training data that demonstrations and offline data give, or what is wrong with them.

    Their states must have the same features, and no transition of the demonstrations may occur in
    the offline data: it would leak the expert's action to the learner. Warnings tell where ends of
    episodes seem to be marked wrongly.

    Example:
        lobsdice data check --expert demos.npz --offline logs.npz
        lobsdice data check --expert demos.npz --offline medium.npz random.npz --json
    """

    expert: str
    """File of the demonstrations. Actions in it are ignored."""
    offline: Files
    """One or more files of the offline data: logged episodes with actions."""
    json: bool = False
    """Print JSON instead of a table."""
    preparation: Preparation = field(default_factory=Preparation)
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        expert = read_unlabelled(self.expert, self.read)
        offline = read_together(self.offline, self.read)
        report = report_of(self.preparation(expert, offline))
        ends = compare_ends(expert, offline)
        for sentence in ends.warnings:
            warnings.warn(sentence, DataWarning, stacklevel=2)
        if self.json:
            return output.print_json(report | {"ends": asdict(ends)})
        output.print_facts("Training data", report)
        for sentence in (ends.summary, ends.reading, *ends.remarks):
            console.show(f"ends: {sentence}")


def report_of(data: Data) -> dict[str, Any]:
    """Return the sizes of all parts of the training data, and the number of leaked state pairs."""
    counts = np.bincount(data.source, minlength=len(data.source_names)).tolist()
    return {
        "expert_pairs": len(data.expert.s),
        "offline_transitions": len(data.offline.s),
        "initial_states": len(data.init),
        "state_size": data.state_size,
        "actions": data.action_space.description,
        "sources": dict(zip(data.source_names, counts, strict=True)),
        "expert_pairs_in_offline": count_leaked(data.expert, data.offline),
    }

"""`lobsdice data check`."""

import warnings
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lobsdice import console
from lobsdice.cli import output
from lobsdice.cli.arguments import Files
from lobsdice.data.context import describe_blur
from lobsdice.data.ends import compare_ends
from lobsdice.data.fills import fill_values
from lobsdice.data.formats import DEFAULTS, ReadOptions
from lobsdice.data.leaks import count_leaked
from lobsdice.data.prepare import Data
from lobsdice.data.recordings import Preparation, read_both
from lobsdice.data.starts import far_starts
from lobsdice.errors import DataWarning, for_the_shell


@dataclass(frozen=True)
class Check:
    """Show the training data that demonstrations and offline data give, or what is wrong with them.

    Their states must have the same features, and no transition of the demonstrations may occur in
    the offline data: it would leak the expert's action to the learner. Warnings tell where ends of
    episodes seem to be marked wrongly, and which values seem to stand for missing ones.

    Example:
        lobsdice data check --expert demos.npz --offline logs.npz
        lobsdice data check --expert demos.npz --offline medium.npz random.npz --json
    """

    expert: Files
    """One or more files or folders of the demonstrations. Actions in them are ignored."""
    offline: Files
    """One or more files or folders of the offline data: logged episodes with actions."""
    json: bool = False
    """Print JSON instead of a table."""
    preparation: Preparation = field(default_factory=Preparation)
    read: ReadOptions = DEFAULTS

    def __call__(self) -> None:
        expert, offline = read_both(self.expert, self.offline, self.read)
        data = self.preparation(expert, offline)
        report = report_of(data)
        with console.waiting("Comparing the ends of episodes"):
            ends = compare_ends(expert, offline)
        fills = [fill.remark for fill in fill_values(expert, offline)]
        for sentence in (*fills, *ends.warnings):
            warnings.warn(sentence, DataWarning, stacklevel=2)
        if self.json:
            return output.print_json(report | {"ends": asdict(ends)})
        output.print_facts("Training data", report)
        for sentence in (ends.summary, ends.reading, *ends.remarks):
            console.show(for_the_shell(f"ends: {sentence}"))
        if said := describe_blur(data.blur, data.normaliser.names):
            console.show(f"features: {said}")
        if said := far_starts(expert, offline):
            console.show(f"starts: {said}")


def report_of(data: Data) -> dict[str, Any]:
    """Return the sizes of all parts of the training data, and the number of leaked state pairs."""
    counts = np.bincount(data.source, minlength=len(data.source_names)).tolist()
    return {
        "expert_pairs": data.expert.size,
        "offline_transitions": data.offline.size,
        "initial_states": len(data.init),
        "state_size": data.state_size,
        "actions": data.action_space.description,
        "sources": dict(zip(data.source_names, counts, strict=True)),
        "expert_pairs_in_offline": count_leaked(data.expert, data.offline),
    }

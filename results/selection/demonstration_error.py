"""Add `demonstration_error` at the last step to hopper.csv and walker2d.csv.

python results/selection/demonstration_error.py hopper FOLDER-OF-ITS-FLEET

The tables of the large study are older than this measure. It depends only on the policy and the
data, so it could be computed later from the policies, which are not kept here.
"""

import sys
from pathlib import Path

import numpy as np

from lobsdice import load, load_policy
from lobsdice.data.files import write_csv
from lobsdice.data.spaces import Box
from lobsdice.training.diagnostics import INFERRED, infer_actions
from lobsdice.training.folder import read_rows
from lobsdice.training.select import CRITERION

HERE = Path(__file__).parent


def main(name: str, folder: Path) -> None:
    task = load(name, offline={"expert": 100, "medium": 500, "random": 500})
    space = task.data.action_space
    assert isinstance(space, Box)
    inferred = np.asarray(infer_actions(task.data).a)
    rows = np.arange(INFERRED) * task.expert.steps // INFERRED
    seen = task.expert.observations[task.expert.step_rows[rows]]

    def error(run: int) -> float:
        policy = load_policy(folder / "policies" / f"last-{run}.safetensors")
        return float(((space.encode(np.asarray(policy(seen))) - inferred) ** 2).mean())

    table = read_rows(HERE / f"{name}.csv")
    last = max(row["step"] for row in table)
    runs = [row for row in table if row["step"] == last]  # in the order of the fleet
    for run, row in enumerate(runs):
        row[CRITERION] = f"{error(run):.6g}"
    write_csv(HERE / f"{name}.csv", table)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))

"""Our interquartile mean and bootstrap intervals in comparison with the rliable library.

rliable is not a dependency of the package, so it needs an environment of its own:

    python -m venv /tmp/rliable && /tmp/rliable/bin/pip install rliable "pandas<3" . && \
    /tmp/rliable/bin/python benchmarks/rliable_agreement.py
"""

import numpy as np
from rliable import library, metrics  # pyright: ignore[reportMissingImports]

from lobsdice.experiments.statistics import interquartile_mean, interval, mean


def main() -> None:
    random = np.random.default_rng(0)
    for runs, tasks in ((5, 12), (10, 4), (3, 26)):
        scores = 100 * random.beta(4, 1, size=(runs, tasks)) - 20 * (random.random() < 0.3)
        for name, ours, theirs in (
            ("iqm", interquartile_mean, metrics.aggregate_iqm),
            ("mean", mean, metrics.aggregate_mean),
        ):
            found = interval(scores, ours, samples=20_000)
            points, ends = library.get_interval_estimates(
                {"x": scores}, lambda x, theirs=theirs: np.array([theirs(x)]), reps=20_000
            )
            low, high = np.ravel(ends["x"])
            print(
                f"{runs:2d} runs, {tasks:2d} tasks, {name:4s}: ours {found.value:.4f} "
                f"[{found.low:.2f}, {found.high:.2f}], rliable {points['x'][0]:.4f} "
                f"[{low:.2f}, {high:.2f}]"
            )


if __name__ == "__main__":
    main()

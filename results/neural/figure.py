"""Draw the figure of this folder from its tables: python results/neural/figure.py"""

from pathlib import Path

from lobsdice.experiments.plots.common import save
from lobsdice.experiments.plots.learning import learning_curves

HERE = Path(__file__).parent
PANELS = {
    "Hopper": {"LobsDICE": "hopper.csv", "BC": "hopper_cooldown_bc.csv"},
    "Walker2d": {"LobsDICE": "walker2d.csv"},
    "HalfCheetah": {"LobsDICE": "halfcheetah.csv"},
    "Ant": {"LobsDICE": "ant.csv"},
}


if __name__ == "__main__":
    panels = {t: {n: HERE / file for n, file in curves.items()} for t, curves in PANELS.items()}
    figure = learning_curves(panels, levels={"expert": 100.0})
    print(*save(figure, HERE / "learning_curves"), sep="\n")

import subprocess
import sys

from lobsdice.algorithms import ALGORITHMS
from lobsdice.experiments.plots.common import COLOURS, looks


def test_plots_import_nothing_that_trains():
    modules = ("random_mdp", "circle", "learning")
    code = "".join(f"import lobsdice.experiments.plots.{name}\n" for name in modules)
    code += "import sys; print({'jax', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_every_name_has_a_look_and_most_a_colour_of_their_own():
    everything = looks(["unheard-of", *ALGORITHMS])
    assert len({look.colour for look in everything.values()}) == len(everything)
    many = looks([*everything, *map(str, range(20))])
    assert {look.colour for look in many.values()} == set(COLOURS)

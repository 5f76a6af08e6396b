"""The continuous-control experiments of the paper, as tables of runs."""

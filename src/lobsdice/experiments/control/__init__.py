"""The continuous-control experiments of the paper: tables of runs."""

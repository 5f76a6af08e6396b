"""Figures 1 and 4 of the paper: learning from observation in random MDPs."""

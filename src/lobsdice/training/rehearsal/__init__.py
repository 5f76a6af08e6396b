"""Rehearsal: a world learned from the logs, policies rolled out in it, and what that says of them.

dynamics.py      learns the world, in the training loop of all algorithms
quality.py       its errors and its calibration on held-out rows
rollouts.py      episodes of policies in it
comparison.py    these episodes beside the demonstrations
following.py     short episodes from demonstrated states
estimates.py     other estimates of a policy, without a learned world
verdict.py       the score of a policy, and the sentences about it
files.py         what a run folder keeps of it
"""

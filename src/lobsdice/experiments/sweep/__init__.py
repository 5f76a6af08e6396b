"""Sweeps: a search for hyperparameters with Optuna, in which each round of settings is a fleet."""

"""Training: the engine, fleets of runs, the folder of a run, and offline measures."""

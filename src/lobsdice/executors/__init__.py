"""Places where fleets train: processes of this machine, a Ray cluster, or jobs of Slurm."""

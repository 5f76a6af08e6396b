"""Where fleets train: in processes of this machine, on a Ray cluster, or as jobs of Slurm."""

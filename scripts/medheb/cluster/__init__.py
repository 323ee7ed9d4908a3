"""Slurm: the profile for one cluster, and the jobs that a run left in the queue."""

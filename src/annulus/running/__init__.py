"""Surroundings of a run, without effect on its numbers: processes, progress, checkpoints, the hash of the code."""

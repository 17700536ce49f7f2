"""Surroundings of a run, which change no number: worker processes and their progress, checkpoints, the code's hash."""

"""What surrounds a run and changes no number: worker processes and their progress, checkpoints, the hash of the code."""

"""Worker processes and their progress, checkpoints, the hash of the code: what surrounds a run, not its numbers."""

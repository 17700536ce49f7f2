"""Measures of embeddings and negatives, from a run's snapshots."""

"""Measures of embeddings and negatives, from snapshots."""

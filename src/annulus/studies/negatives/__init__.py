"""Estimates by negatives of every distance, at the ends of training."""

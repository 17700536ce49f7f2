"""Bias and variance of information estimates by the distance of the negatives, with a trained encoder."""

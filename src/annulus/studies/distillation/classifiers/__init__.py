"""Classifiers: networks for small images that learn from labels, with or without a teacher."""

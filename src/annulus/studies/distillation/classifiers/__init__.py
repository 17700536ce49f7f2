"""Classifiers: networks for small images that learn from labels, alone or from a teacher."""

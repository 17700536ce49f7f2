"""Classifiers: networks for small images, trained from labels with or without a teacher."""

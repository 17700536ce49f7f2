"""Evaluation of a frozen encoder's features.

accuracy   from scores and labels to percent
knn        nearest neighbours among the training images
linear     logistic regression on the features
few_shot   episodes: a few classes, told apart from a few images of each
"""

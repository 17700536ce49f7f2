"""Evaluation of a frozen encoder's features.

In the order of their use:

    nearest    accuracy of the nearest neighbour, followed during pretraining
    accuracy   from scores and labels to percent
    features   one split's features as a packed file
    extract    images through the encoder, once
    knn        nearest neighbours among the training images
    linear     logistic regression on the features
"""

"""Evaluation of a frozen encoder's features.

accuracy       from scores and labels to percent
knn            nearest neighbours among the training images
linear         logistic regression on the features
probe          its layer
segmentation   a small decoder of feature maps, for the classes of pixels
iou            intersection over union of those
mask_pictures  images above them
intervals      95 % intervals over seeds and test images
headlines      the main line's headline numbers by seed
"""

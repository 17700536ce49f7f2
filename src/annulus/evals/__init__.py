"""Evaluation of a frozen encoder's features.

accuracy               accuracies in percent, from scores and labels
knn                    nearest neighbours among the training images
crops                  share of crops whose nearest neighbour is a crop of the same image, without labels
geometry               alignment, uniformity, tolerance and effective rank of embeddings
linear                 logistic regression on the features
linear_settings        settings of the probe
probe                  layer of the probe
segmentation           a small decoder of feature maps, for the classes of pixels
segmentation_settings  its settings
iou                    intersection over union of classes of pixels
mask_pictures          images above the classes of their pixels
plane                  features as places in a plane
intervals              95 % intervals over seeds and test images
families               several differences read together: Holm's correction, verdicts by chance
headlines              the main line's headline numbers by seed
"""

from annulus.late import late

__all__, __getattr__, __dir__ = late(__name__)

"""View generators, trained to make views that share little information but keep the label.

params      a generator's settings
study       the study's params.yaml as a whole
batches     its training batches, and the training images with a label
learning    the adversarial game of generator and estimators
trained     one generator from settings and images
curves      learning curves, over seeds
pictures    images and their generated views
"""

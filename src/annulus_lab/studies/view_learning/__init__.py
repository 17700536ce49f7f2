"""View generators, trained for views that share little information and keep the label.

view_learning_params  a generator's settings
view_learning_study   the study's params.yaml as a whole
batches               its training batches, and the training images with a label
learning              the adversarial game of generator and estimators
trained               one generator from settings and images
curves                learning curves, over seeds
view_grid             picture of images and their generated views
"""

"""View generators, and how they learn which views share little, and the label.

params      a generator's settings
study       the study's params.yaml as a whole
batches     what it learns from, and which training images have a label
learning    the adversarial game of generator and estimators
trained     one generator from settings and images
curves      how the learning went, over seeds
pictures    what generators make of images
"""

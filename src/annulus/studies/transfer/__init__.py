"""Transfer targets: new image sets, to probe frozen encoders on.

params      settings of the study
embedded    targets without files: scikit-learn's digits, generated textures, outlines and hues
archives    torchvision's sets, downloaded on first use
layouts     files and download page of each target's root
folders     sets whose archives are unpacked by hand: CUB, fungi, Quick, Draw!
crops       boxes of MS COCO as images
target      a target by its name
prepared    its images, limited and packed
classes     classes of episodes
sheet       a picture of some images of each
trained_encoders  encoders of a variant of the main line
few_shot    episodes: classification of a few classes from a few images of each
probed      accuracies of frozen encoders on a target
target_tables     rows of targets and variants
"""

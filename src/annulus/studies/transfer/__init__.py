"""Transfer targets: image sets on which encoders that never saw them are probed.

params      settings of the study
embedded    targets without files: scikit-learn's digits, generated textures, outlines and hues
archives    torchvision's sets, downloaded on first use
layouts     what each target's root holds, and where to get it
folders     sets whose archives are unpacked by hand: CUB, fungi, Quick, Draw!
crops       boxes of MS COCO as images
build       a target by its name
prepared    its images, limited and packed
classes     which classes episodes are drawn from
sheet       a picture of some images of each
trained_encoders  encoders of a variant of the main line
few_shot    episodes: a few classes, told apart from a few images of each
probed      accuracies of frozen encoders on a target
target_tables     rows of targets and variants
"""

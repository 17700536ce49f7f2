"""Transfer targets: image sets on which encoders that never saw them are probed.

params      settings of the study
embedded    targets without files: scikit-learn's digits, generated textures, outlines and hues
archives    torchvision's sets, downloaded on first use
folders     sets whose archives are unpacked by hand: CUB, fungi, Quick, Draw!
crops       boxes of MS COCO as images
build       a target by its name
prepared    its images, limited and packed
sheet       a picture of some images of each
"""

"""Transfer targets: new image sets for probes of frozen encoders.

transfer_params   settings of the study
embedded          targets without files: scikit-learn's digits, generated textures, outlines and hues
archives          torchvision's sets, downloaded on first use
layouts           files and download page of each target's root
folders           sets whose archives the user unpacks: CUB, fungi, Quick, Draw!
crops             boxes of MS COCO as images
target            a target by its name
prepared          a target's images, limited and packed
classes           classes of episodes
sheet             picture of some images of each target
trained_encoders  encoders of a variant of the main line
few_shot          episodes: classification of a few classes from a few images of each
probed            accuracies of frozen encoders on a target
target_runs       runs of all encoders on a target
target_tables     rows of targets and variants
"""

"""Views: augmentations of whole batches, on a CPU or a GPU.

`augment` draws one random view of each image of a batch. `draw_views` draws several, also of patches at a distance.
`TwoViews` is the transform of a data set, for a DataLoader's workers. `center_view` is the view for evaluation. A
`ViewSet` holds the augmentations of a view; `SETS` maps the names of params.yaml to sets. Each `Operator` (`Blur`,
`ColourJitter`, `RandAugment`, `Solarize`, or your own) can be called by itself. A split (`ColourSplit`,
`FrequencySplit`) divides an image between two networks (CMC); it is part of an encoder's configuration.
"""

from annulus.late import late

__all__, __getattr__, __dir__ = late(__name__)

"""Views: augmentations of whole batches, on a CPU or a GPU.

`augment` makes one random view of each image of a batch; `views_of` several, also of patches at a distance;
`center_view` the view for evaluation. A `ViewSet` says what a view is made of, `SETS` has those of params.yaml by name.
Each `Operator` (`Blur`, `ColourJitter`, `RandAugment`, `Solarize`, or your own) can be called by itself.
"""

from annulus.views.blur import Blur
from annulus.views.colour import ColourJitter
from annulus.views.crop import Crop
from annulus.views.operators import Operator, Solarize
from annulus.views.patches import views_of
from annulus.views.randaugment import RandAugment
from annulus.views.recipe import augment, center_view
from annulus.views.sets import SETS
from annulus.views.settings import Patches, ViewSet

__all__ = [
    "SETS",
    "Blur",
    "ColourJitter",
    "Crop",
    "Operator",
    "Patches",
    "RandAugment",
    "Solarize",
    "ViewSet",
    "augment",
    "center_view",
    "views_of",
]

"""Views: augmentations of whole batches, on a CPU or a GPU.

`augment` makes one random view of each image of a batch; `views_of` several, also of patches at a distance;
`center_view` the view for evaluation. A `ViewSet` says what a view is made of, `SETS` has those of params.yaml by name.
Each `Operator` (`Blur`, `ColourJitter`, `RandAugment`, `Solarize`, or your own) can be called by itself.
A split (`ColourSplit`, `FrequencySplit`) shares an image between two networks (CMC); an encoder's configuration has it.
"""

from typing import TYPE_CHECKING

from annulus.late import late
from annulus.views.blur import Blur
from annulus.views.colour import ColourJitter
from annulus.views.crop import Crop
from annulus.views.operators import Operator, Solarize
from annulus.views.patches import views_of
from annulus.views.randaugment import RandAugment
from annulus.views.recipe import augment, center_view
from annulus.views.sets import SETS
from annulus.views.settings import Patches, ViewSet

if TYPE_CHECKING:
    from annulus.views.splits import ColourSplit, FrequencySplit
else:
    __getattr__, _ = late(__name__, {"splits": "ColourSplit FrequencySplit"})  # they alone need safetensors

__all__ = [
    "SETS",
    "Blur",
    "ColourJitter",
    "ColourSplit",
    "Crop",
    "FrequencySplit",
    "Operator",
    "Patches",
    "RandAugment",
    "Solarize",
    "ViewSet",
    "augment",
    "center_view",
    "views_of",
]


def __dir__() -> list[str]:
    return __all__

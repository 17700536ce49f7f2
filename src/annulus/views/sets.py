"""The view sets of params.yaml by name, for use without the file. A test compares the two."""

from collections.abc import Mapping

from annulus.errors import InputError, abridge, nearest
from annulus.views.blur import Blur
from annulus.views.colour import ColourJitter
from annulus.views.crop import Crop
from annulus.views.infomin import InfoMinRandAugment
from annulus.views.randaugment import RandAugment
from annulus.views.settings import Patches, ViewSet

HALF = Crop(scale_min=0.5, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
FIFTH = Crop(scale_min=0.2, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
TWELFTH = Crop(scale_min=0.08, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
JITTER = ColourJitter(probability=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
STRONG_JITTER = ColourJitter(probability=0.8, brightness=0.8, contrast=0.8, saturation=0.8, hue=0.2)
BLUR = Blur(probability=0.5, sigma_min=0.1, sigma_max=2.0)
INFOMIN = InfoMinRandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5, grayscale=0.2)
RAND_AUGMENT = RandAugment(operators=2, magnitude=30.0, spread=1.5, probability=0.5)

SETS: Mapping[str, ViewSet] = {
    "gentle": ViewSet(crop=HALF, flip=0.5, jitter=JITTER, grayscale=0.2),
    "standard": ViewSet(crop=FIFTH, flip=0.5, jitter=JITTER, grayscale=0.2),
    "strong": ViewSet(crop=TWELFTH, flip=0.5, jitter=STRONG_JITTER, grayscale=0.2, blur=BLUR),
    "crop": ViewSet(crop=FIFTH, flip=0.5),
    "colour": ViewSet(flip=0.5, jitter=JITTER, grayscale=0.2),
    "moco-v2": ViewSet(crop=FIFTH, flip=0.5, jitter=JITTER, grayscale=0.2, blur=BLUR),
    "infomin": ViewSet(crop=FIFTH, flip=0.5, jitter=STRONG_JITTER, blur=BLUR, operators={"infomin": INFOMIN}),
    "infomin-torchvision": ViewSet(
        crop=FIFTH, flip=0.5, jitter=STRONG_JITTER, grayscale=0.2, blur=BLUR, rand_augment=RAND_AUGMENT
    ),
    "none": ViewSet(),
    "patches": ViewSet(flip=0.5, patches=Patches(offset=0)),
}


def view_set(views: ViewSet | str) -> ViewSet:
    """Returns the set, or the set of this name.

    Raises:
        InputError: for an unknown name, with the known names and the nearest; for a value of another type.
    """
    if isinstance(views, ViewSet):
        return views
    if not isinstance(views, str):
        raise InputError(
            f"views is a {type(views).__name__}; give an annulus.views.ViewSet, or a name: {', '.join(SETS)}"
        )
    if views not in SETS:
        raise InputError(f"views: {abridge(views)} is none of {', '.join(SETS)}{nearest(views, SETS)}")
    return SETS[views]

"""Sections that say how a view is made of an image."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le

from annulus.errors import InputError
from annulus.settings import Fraction, Positive, Section
from annulus.views.blur import Blur
from annulus.views.colour import ColourJitter
from annulus.views.crop import Crop
from annulus.views.operators import OPERATORS, Operator
from annulus.views.randaugment import RandAugment
from annulus.views.spaces import SPACES
from annulus.views.trial import try_operator


@dataclass(frozen=True, kw_only=True)
class SplitSettings(Section):
    """Split of an image between two networks, by colour or by frequency; both null: one network sees all."""

    space: Literal[tuple(SPACES)] | None  # its first channel, and the other two
    sigma: Positive | None  # pixels: what a Gaussian blur leaves, and what it takes away

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space is not None and self.sigma is not None:
            raise InputError(f"splits by space: {self.space} and by sigma: {self.sigma:g}; set one of them to None")

    @property
    def described(self) -> dict[str, str | float] | None:
        """The one that is set, under its name."""
        return {name: value for name, value in vars(self).items() if value is not None} or None


@dataclass(frozen=True, kw_only=True)
class Patches(Section):
    """The two views of an image are squares of view_size pixels at (x, y) and (x + offset, y + offset), by `views_of`.

    >>> from annulus.views import Patches
    >>> Patches(offset=8).check(image_size=40, view_size=32)

    Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.
    """

    offset: Annotated[int, Ge(0), Le(2**16)]  # pixels

    def check(self, image_size: int, view_size: int, views: int = 2) -> None:
        """Refuse an offset that images of so many pixels a side do not hold.

        Raises:
            InputError: with the sizes.
        """
        if view_size + self.offset * (views - 1) > image_size:
            last = {1: "first", 2: "second", 3: "third"}.get(views, f"{views}th")
            most = (image_size - view_size) // max(1, views - 1)
            way = f"take an offset of at most {most}, or larger images" if most >= 0 else "take larger images"
            raise InputError(
                f"offset {self.offset} puts the {last} patch of {view_size} pixels outside of images of "
                f"{image_size} pixels; {way}"
            )


@dataclass(frozen=True)
class ByName:
    """Marks a mapping of sections in params.yaml: each is of the class that has its name here.

    They come in the order of the classes, whatever the file's: DVC and the keys of stored runs do not see the order of
    a mapping, so it must change no number.
    """

    classes: Mapping[str, type[Section]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """The classes by name, in pydantic's form."""
        sections = {
            name: {"type": "typed-dict-field", "schema": handler.generate_schema(section), "required": False}
            for name, section in self.classes.items()
        }
        return {"type": "typed-dict", "fields": sections, "extra_behavior": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ViewSet(Section):
    """Augmentations that make a view, in this order; None or probability 0 leaves one out.

    crop (without one: the middle pixels), flip, jitter, grayscale, blur, rand_augment; then `operators`, further ones
    by name, in the order of the mapping (from params.yaml: of OPERATORS). With patches, views are of places at a
    distance (`views_of`).

    >>> from annulus.views import Crop, Solarize, ViewSet
    >>> crop = Crop(scale_min=0.2, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
    >>> views = ViewSet(crop=crop, flip=0.5, operators={"solarize": Solarize(probability=0.2, threshold=0.5)})
    >>> views.grayscale
    0.0

    Raises:
        InputError: when a part is of another class than its own, or no probability; when an operator makes no views
            of made-up ones (`views/trial.py`), so that one of your own fails here, not later.
    """

    crop: Crop | None = None
    flip: Fraction = 0.0
    jitter: ColourJitter | None = None
    grayscale: Fraction = 0.0
    blur: Blur | None = None
    rand_augment: RandAugment | None = None
    patches: Patches | None = None
    operators: Annotated[Mapping[str, Operator], ByName(OPERATORS)] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, kind in PARTS.items():
            part = getattr(self, name)
            if part is not None and not isinstance(part, kind):
                raise InputError(f"{name} is a {type(part).__name__}; give annulus.views.{kind.__name__}(...), or None")
        if not isinstance(self.operators, Mapping):
            kind = type(self.operators).__name__
            raise InputError(f"operators is a {kind}; give a mapping of names to annulus.views.Operator, {{}} for none")
        for name, operator in self.operators.items():
            if not isinstance(operator, Operator):
                raise InputError(
                    f"operators[{name!r}] is a {type(operator).__name__}; give an annulus.views.Operator such as "
                    "Solarize(probability=0.2, threshold=0.5)"
                )
            try_operator(operator)

    @property
    def general(self) -> list[Operator]:
        """The operators that the general path applies, after all others."""
        return [*([] if self.rand_augment is None else [self.rand_augment]), *self.operators.values()]


PARTS = {"crop": Crop, "jitter": ColourJitter, "blur": Blur, "rand_augment": RandAugment, "patches": Patches}

"""Settings of views: view sets, patches, and the split of an image."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from annotated_types import Ge, Le
from jaxtyping import Float
from torch import Tensor

from annulus.errors import InputError
from annulus.settings import Fraction, Positive, Section
from annulus.views.blur import Blur
from annulus.views.colour import ColourJitter
from annulus.views.crop import Crop
from annulus.views.infomin import InfoMinRandAugment
from annulus.views.operators import OPERATORS, Operator
from annulus.views.randaugment import RandAugment
from annulus.views.spaces import SPACES
from annulus.views.view_trial import try_operator

OPERATORS["infomin"] = InfoMinRandAugment  # its file needs the base class of operators.py


@dataclass(frozen=True, kw_only=True)
class SplitSettings(Section):
    """Split of an image between two networks, by colour or by frequency. If both are null, there is one network."""

    space: Literal[tuple(SPACES)] | None  # splits its first channel from the other two
    sigma: Positive | None  # pixels: splits a Gaussian blur from the remainder

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.space is not None and self.sigma is not None:
            raise InputError(f"splits by space: {self.space} and by sigma: {self.sigma:g}; set one of them to None")

    @property
    def described(self) -> dict[str, str | float] | None:
        """The field that is set, by name; None without one."""
        return {name: value for name, value in vars(self).items() if value is not None} or None


@dataclass(frozen=True, kw_only=True)
class Patches(Section):
    """Two views of an image from squares of view_size pixels at (x, y) and (x + offset, y + offset), by `draw_views`.

    >>> from annulus.views import Patches
    >>> Patches(offset=8).check(image_size=40, view_size=32)

    Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.
    """

    offset: Annotated[int, Ge(0), Le(2**16)]  # pixels

    def check(self, image_size: int, view_size: int, views: int = 2) -> None:
        """Raises InputError if the last patch does not fit an image of `image_size` pixels a side.

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
    """Marks a mapping of sections in params.yaml; `classes` maps a section's name to its class.

    The sections have the order of the classes, not of the file. DVC and the keys of stored runs ignore the order of a
    mapping, so it must not change a number.
    """

    classes: Mapping[str, type[Section]]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> dict[str, Any]:
        """Returns pydantic's schema of the mapping."""
        sections = {
            name: {"type": "typed-dict-field", "schema": handler.generate_schema(section), "required": False}
            for name, section in self.classes.items()
        }
        return {"type": "typed-dict", "fields": sections, "extra_behavior": "forbid"}


@dataclass(frozen=True, kw_only=True)
class ViewSet(Section):
    """Augmentations of a view, in order of application. None or probability 0 turns one off.

    The order is crop (None: the middle pixels), flip, jitter, grayscale, blur, rand_augment, then `operators` by name
    in the order of the mapping (from params.yaml: in the order of OPERATORS). With patches, the views of an image are
    from places at a distance (`draw_views`).

    >>> from annulus.views import Crop, Solarize, ViewSet
    >>> crop = Crop(scale_min=0.2, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
    >>> views = ViewSet(crop=crop, flip=0.5, operators={"solarize": Solarize(probability=0.2, threshold=0.5)})
    >>> views.grayscale
    0.0

    `views(image, size)` draws a view of one image (3, size, size), as `TwoViews` draws several.

    Raises:
        InputError: if a part has another class, or a probability lies outside [0, 1]; if an operator fails on made-up
            views (`views/view_trial.py`), so that your own operator fails here and not in training.
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

    def __call__(self, image: Any, size: int) -> Float[Tensor, "3 {size} {size}"]:
        from annulus.views.single import TwoViews  # here, since it takes a set

        return TwoViews(self, size, count=1)(image)[0]

    @property
    def general(self) -> list[Operator]:
        """RandAugment and the further operators, which change the finished views."""
        return [*([] if self.rand_augment is None else [self.rand_augment]), *self.operators.values()]


PARTS = {"crop": Crop, "jitter": ColourJitter, "blur": Blur, "rand_augment": RandAugment, "patches": Patches}

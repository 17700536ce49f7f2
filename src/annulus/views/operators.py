"""View operators: random changes of views, each image with its own parameters.

A view set applies its `operators` in order to the finished views (`annulus.views.recipe`), of any size and on any
device. A new operator is a class here and an entry at the end of OPERATORS.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Generator, Tensor

from annulus.device.checks import require_pixels
from annulus.device.copies import to_device
from annulus.errors import InputError
from annulus.settings import Fraction, Section

View = Float[Tensor, "b 3 h w"]  # RGB in [0, 1]


class Operator(Section):
    """Base class of view operators: a frozen dataclass of settings that draws parameters and applies them.

    `operator(view, generator)` draws the parameters of all images and applies them.

    >>> import torch
    >>> from dataclasses import dataclass
    >>> from annulus.views import Operator
    >>> @dataclass(frozen=True, kw_only=True)
    ... class Darken(Operator):
    ...     least: float
    ...
    ...     def draw(self, count, generator):
    ...         return self.least + (1 - self.least) * torch.rand(count, generator=generator)
    ...
    ...     def apply(self, view, drawn):
    ...         return view * drawn.to(view.device)[:, None, None, None]
    >>> view = Darken(least=0.5)(torch.ones(8, 3, 32, 32), torch.Generator().manual_seed(0))
    >>> bool(((0.5 <= view) & (view <= 1)).all())
    True

    Raises:
        InputError: if the views are not float RGB in [0, 1], or the generator is not on the CPU.
    """

    def draw(self, count: int, generator: Generator) -> Any:
        """Draws parameters of `count` images: a CPU tensor with an entry for each, or a NamedTuple of such tensors."""
        raise NotImplementedError

    def apply(self, view: View, drawn: Any) -> View:
        """Returns the changed views, RGB in [0, 1] on the views' device, without writing into `view`.

        The parameters `drawn` are on the CPU.
        """
        raise NotImplementedError

    def __call__(self, view: View, generator: Generator) -> View:
        if not isinstance(view, Tensor) or not view.is_floating_point() or view.ndim != 4 or view.shape[1] != 3:
            raise InputError(
                f"{describe(view)}: give an operator float views of shape (batch, 3, height, width), RGB in [0, 1]; "
                "of uint8 images, images / 255"
            )
        check_generator(generator)
        expected = "an operator takes RGB in [0, 1]: divide 0..255 by 255, normalise afterwards, and leave out NaN"
        require_pixels("views", view, expected)
        drawn = self.draw(len(view), generator)
        with torch.autocast(view.device.type, enabled=False):
            return self.apply(view.float(), drawn).to(view.dtype)  # half precision is too coarse for colours


def describe(value: object) -> str:
    """Type and shape of a value, for an error sentence."""
    if isinstance(value, Tensor):
        return f"{value.dtype} of shape {tuple(value.shape)}"
    return f"a {type(value).__name__}"


def check_generator(generator: Generator) -> None:
    """Raises InputError unless the generator is a torch.Generator on the CPU.

    Raises:
        InputError: with its type or device.
    """
    known = isinstance(generator, Generator)
    if not known or generator.device.type != "cpu":
        kind = f"on {generator.device}" if known else f"a {type(generator).__name__}"
        raise InputError(
            f"generator is {kind}: views are drawn on the CPU, the same for every device; give torch.Generator()"
        )


def changed(
    view: View,
    chosen: Bool[Tensor, "b"],
    change: Callable[..., View],
    *amounts: Shaped[Tensor, "b *_"],
) -> View:
    """Replaces the chosen images by `change(images, *amounts)`, in a copy; `chosen` and `amounts` are on the CPU."""
    numbers = chosen.nonzero().squeeze(1)
    result = view.clone()
    if len(numbers):
        rows, *own = to_device([numbers, *(amount[numbers] for amount in amounts)], view.device)
        result.index_copy_(0, rows, change(view.index_select(0, rows), *own))
    return result


def solarize(images: View, threshold: float | Float[Tensor, "b 1 1 1"]) -> View:
    """Replaces every value v from the threshold on by 1 - v."""
    return torch.where(images >= threshold, 1 - images, images)


@dataclass(frozen=True, kw_only=True)
class Solarize(Operator):
    """Solarisation of a share of the images: 1 - v for every value v from the threshold on, as torchvision's solarize.

    BYOL's second view has probability 0.2 and threshold 0.5.

    >>> import torch
    >>> from annulus.views import Solarize
    >>> view = torch.tensor([0.2, 0.5, 0.9]).view(1, 3, 1, 1)
    >>> Solarize(probability=1.0, threshold=0.5)(view, torch.Generator()).flatten()
    tensor([0.2000, 0.5000, 0.1000])

    Source: Grill et al. 2020, arXiv:2006.07733, Appendix B.
    """

    probability: Fraction  # of solarising an image
    threshold: Fraction  # in [0, 1], as the values of an image

    def draw(self, count: int, generator: Generator) -> Bool[Tensor, "{count}"]:
        """Draws the mask of the images to solarise."""
        return torch.rand(count, generator=generator) < self.probability

    def apply(self, view: View, drawn: Bool[Tensor, "b"]) -> View:
        """Returns the views, with the chosen ones solarised."""
        return changed(view, drawn, lambda images: solarize(images, self.threshold))


OPERATORS: dict[str, type[Operator]] = {  # by their keys in params.yaml, in the order of application
    "solarize": Solarize,
}

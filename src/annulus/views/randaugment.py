"""RandAugment of whole batches: each image has its own operators, and each operator its own magnitude.

Views are RGB in [0, 1]. On equal parameters the changes equal torchvision's RandAugment: nearest pixels, black beyond
the border. One resampling serves all images whose pixels move. With a C compiler, `randaugment.c` changes large views
on a CPU one by one.

Source: Cubuk et al. 2019, arXiv:1909.13719, Section 3; Tian et al. 2020, arXiv:2005.10243, Section 7.2 (RA-CJ-Blur).
"""

import ctypes
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.c_library import library
from annulus.device.copies import to_device
from annulus.device.threads import submit
from annulus.device.trust import trusted
from annulus.settings import Fraction
from annulus.views.colour import brightness, contrast, saturation
from annulus.views.large import LARGE, PORTION
from annulus.views.operators import Operator, View, solarize

MOVES = ("shear x", "shear y", "translate x", "translate y", "rotate")
CHANGES = (
    *("identity", *MOVES, "brightness", "color", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
)
MOST = 30.0  # magnitudes are 0 to 30
SHEAR, SHIFT, TURN, BLEND = 0.3, 150 / 331, math.radians(30), 0.9  # at magnitude 30; SHIFT is a share of the side
LEVELS = 256 - 1e-3  # maps 1 to level 255
SOURCE = Path(__file__).with_suffix(".c")


class DrawnRandAugment(NamedTuple):
    """Drawn changes of each image, in order: numbers in CHANGES, and magnitudes with a sign."""

    changes: Int[Tensor, "b n"]
    magnitudes: Float[Tensor, "b n"]  # in [-1, 1], as shares of the largest change


@dataclass(frozen=True, kw_only=True)
class RandAugment(Operator):
    """RandAugment: `operators` changes in sequence, each drawn from 14.

    magnitude: mean strength, from 0 to 30 (the largest change); spread: standard deviation of the magnitudes;
    probability: of applying each change.

    >>> import torch
    >>> from annulus.views import RandAugment
    >>> changes = RandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5)
    >>> changes(torch.rand(4, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3, 32, 32])

    Source: Cubuk et al. 2019, arXiv:1909.13719, Section 3; Tian et al. 2020, arXiv:2005.10243, Section 7.2.
    """

    operators: Annotated[int, Ge(1), Le(14)]
    magnitude: Annotated[float, Ge(0), Le(30)]
    spread: Annotated[float, Ge(0), Le(30)]
    probability: Fraction

    def draw(self, count: int, generator: torch.Generator) -> DrawnRandAugment:
        """Draws the changes of `count` images: uniform over CHANGES, with normal magnitudes and random signs.

        A change that `probability` omits becomes the identity.
        """
        shape = count, self.operators
        changes = torch.randint(len(CHANGES), shape, generator=generator)
        magnitudes = self.magnitude + self.spread * torch.randn(shape, generator=generator)
        signs = 1 - 2 * torch.randint(2, shape, generator=generator)
        left_out = torch.rand(shape, generator=generator) >= self.probability
        changes = changes.masked_fill(left_out, CHANGES.index("identity"))
        return DrawnRandAugment(changes, signs * magnitudes.clamp(0, MOST) / MOST)

    def apply(self, view: View, drawn: DrawnRandAugment) -> View:
        """Returns the views, each with its own changes."""
        large = view.device.type == "cpu" and view.shape[2] * view.shape[3] >= LARGE
        plain = view.dtype == torch.float32 and not view.requires_grad  # C keeps no gradient
        if large and plain and trusted(__name__, c_agrees, view.device):
            return changed_in_c(view, drawn)
        return changed_by_operators(view, drawn)


def changed_in_c(view: View, drawn: DrawnRandAugment) -> View:
    """Changes the views by `randaugment.c`. Threads take a few images each.

    Raises:
        MemoryError: if memory for another copy of a view is short.
    """
    count, (height, width) = len(view), view.shape[2:]
    view, result = view.contiguous(), torch.empty_like(view, memory_format=torch.contiguous_format)
    changes, magnitudes = drawn.changes.int().contiguous(), drawn.magnitudes.float().contiguous()
    matrices = torch.eye(2, 3).repeat(*changes.shape, 1, 1)
    for number, name in enumerate(CHANGES):
        if name in MOVES:
            chosen = changes == number
            matrices[chosen] = _matrices(name, magnitudes[chosen], height, width)
    change = library(SOURCE).annulus_randaugment

    def change_some(portion: range) -> None:
        for number in portion:
            addresses = (tensor[number].data_ptr() for tensor in (changes, magnitudes, matrices, result))
            sizes = (height, width, changes.shape[1])
            if not change(ctypes.c_void_p(view[number].data_ptr()), *sizes, *map(ctypes.c_void_p, addresses)):
                raise MemoryError(f"no memory for a view of {height} x {width} pixels")

    for part in submit(change_some, count, PORTION):
        part.result()
    return result


def c_agrees(device: torch.device) -> bool:
    """Returns True if `randaugment.c` and the operators compute the same views: one and three changes, both signs."""
    count, random = 2 * len(CHANGES), torch.Generator(device).manual_seed(0)
    changes = torch.randint(len(CHANGES), (count, 3), generator=random)
    changes[:, 0] = torch.arange(count) // 2
    magnitudes = torch.rand(count, 3, generator=random) * torch.tensor([1.0, -1.0]).repeat(count // 2)[:, None]
    for width in (25, 32):
        views = torch.rand(count, 3, 34, width, generator=random)
        views[:, 1] = views[:, 1] * 0.5 + 0.2
        views[::3, 2] = 0.3  # a channel without contrast
        for number in (1, 3):
            drawn = DrawnRandAugment(changes[:, :number], magnitudes[:, :number])
            apart = (changed_in_c(views, drawn) - changed_by_operators(views, drawn)).abs() > 1e-4
            # Rounding can choose another nearest pixel, or the other side of a threshold.
            if apart.double().mean(dim=(1, 2, 3)).max() > 0.02:
                return False
    return True


def changed_by_operators(view: View, drawn: DrawnRandAugment) -> View:
    """Changes the views by PyTorch's operators."""
    view = view.clone()
    for changes, magnitudes in zip(drawn.changes.unbind(1), drawn.magnitudes.unbind(1), strict=True):
        matrices = torch.eye(2, 3).repeat(len(view), 1, 1)
        moved = torch.zeros(len(view), dtype=torch.bool)
        for number, name in enumerate(CHANGES):
            chosen = changes == number
            if name == "identity" or not chosen.any():
                continue
            if name in MOVES:
                moved |= chosen
                matrices[chosen] = _matrices(name, magnitudes[chosen], *view.shape[2:])
            else:
                rows, own = to_device([chosen.nonzero().squeeze(1), magnitudes[chosen]], view.device)
                view[rows] = _changed(name, view[rows], own)
        if moved.any():
            sides = torch.tensor(view.shape[:1:-1]) / 2  # width and height
            rows, own, sides = to_device([moved.nonzero().squeeze(1), matrices[moved], sides], view.device)
            view[rows] = _moved(view[rows], own, sides)
    return view


def _matrices(name: str, magnitudes: Float[Tensor, "b"], height: int, width: int) -> Float[Tensor, "b 2 3"]:
    """Matrices from a pixel's place to its source, in pixels from the image's middle. A shear keeps the upper left."""
    ones, zeros = torch.ones_like(magnitudes), torch.zeros_like(magnitudes)
    match name:
        case "shear x":
            slope = SHEAR * magnitudes
            rows = [[ones, slope, slope * height / 2], [zeros, ones, zeros]]
        case "shear y":
            slope = SHEAR * magnitudes
            rows = [[ones, zeros, zeros], [slope, ones, slope * width / 2]]
        case "translate x":
            rows = [[ones, zeros, -(SHIFT * width * magnitudes).trunc()], [zeros, ones, zeros]]
        case "translate y":
            rows = [[ones, zeros, zeros], [zeros, ones, -(SHIFT * height * magnitudes).trunc()]]
        case "rotate":
            cosine, sine = (TURN * magnitudes).cos(), (TURN * magnitudes).sin()
            rows = [[cosine, -sine, zeros], [sine, cosine, zeros]]
        case _:
            raise AssertionError(name)
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def _moved(images: View, matrices: Float[Tensor, "b 2 3"], sides: Float[Tensor, "2"]) -> View:
    """Moves pixels by the matrices, with nearest sources; `sides` are half of width and height."""
    height, width = images.shape[2:]
    y, x = (torch.arange(side, device=images.device) + 0.5 - side / 2 for side in (height, width))
    places = torch.stack([*torch.meshgrid(x, y, indexing="xy"), torch.ones(height, width, device=images.device)])
    sources = torch.einsum("bij,jyx->byxi", matrices, places)
    return F.grid_sample(images, sources / sides, mode="nearest", align_corners=False)


def _changed(name: str, images: View, magnitudes: Float[Tensor, "b"]) -> View:
    factors, sizes = 1 + BLEND * magnitudes, magnitudes.abs()[:, None, None, None]
    match name:
        case "brightness":
            return brightness(images, factors)
        case "color":
            return saturation(images, factors)
        case "contrast":
            return contrast(images, factors)
        case "sharpness":
            return sharpness(images, factors)
        case "posterize":
            levels = 2 ** (8 - (4 * sizes).round())
            return (images * levels).floor().clamp(max=levels - 1) / levels
        case "solarize":
            return solarize(images, 1 - sizes)
        case "autocontrast":
            return autocontrast(images)
        case "equalize":
            return equalize(images)
        case _:
            raise AssertionError(name)


def autocontrast(images: View) -> View:
    """Stretches each channel to [0, 1]; a channel without contrast stays."""
    low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
    flat = low == high
    return (images - low.masked_fill(flat, 0)) / (high - low).masked_fill(flat, 1)


def sharpness(images: View, factors: Float[Tensor, "b"]) -> View:
    """Blends with a smoothed image, whose border is not smoothed. Factor 1 is the image itself."""
    if min(images.shape[2:]) < 3:  # only border
        return images
    middle = torch.full((1, 1), 5.0, device=images.device)
    kernel = F.pad(middle, (1, 1, 1, 1), value=1.0)  # an assignment would make a GPU wait
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = F.conv2d(images, (kernel / 13).expand(3, 1, 3, 3), groups=3)
    return torch.lerp(smooth, images, factors[:, None, None, None]).clamp(0, 1)


def equalize(images: View) -> View:
    """Equalises the histogram of each channel, as Pillow does with 256 levels."""
    levels = (images * LEVELS).long().flatten(2)  # (b, 3, pixels)
    counts = torch.zeros(*levels.shape[:2], 256, dtype=torch.int64, device=images.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    highest = levels.amax(dim=2, keepdim=True)
    step = (levels.shape[2] - counts.gather(2, highest)) // 255
    below = counts.cumsum(dim=2) - counts  # pixels of lower levels
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    equalized = torch.where(step > 0, table.gather(2, levels), levels)
    return (equalized / 255).view(images.shape).to(images.dtype)

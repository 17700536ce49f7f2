"""Gaussian blur of a share of a batch's images, each with its own width."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge, Le
from jaxtyping import Bool, Float
from torch import Tensor

from annulus.errors import InputError
from annulus.settings import Fraction
from annulus.views.gaussian import gaussian_blur
from annulus.views.operators import Operator, View, changed


def kernel_size(size: int) -> int:
    """Width of the kernel in pixels: the odd number nearest to a tenth of the view, at least 3.

    SimCLR's rule: 23 for 224, 9 for 96, 3 for 32.

    Source: Chen et al. 2020, arXiv:2002.05709, Appendix A.
    """
    return 2 * max(1, size // 20) + 1


class DrawnBlur(NamedTuple):
    """Drawn blur: the mask of the images to blur, and a sigma in pixels for each image."""

    chosen: Bool[Tensor, "b"]
    sigma: Float[Tensor, "b"]


@dataclass(frozen=True, kw_only=True)
class Blur(Operator):
    """Gaussian blur; sigma in pixels, uniform between its limits. The kernel is a tenth of the view wide.

    >>> import torch
    >>> from annulus.views import Blur
    >>> blur = Blur(probability=1.0, sigma_min=0.1, sigma_max=2.0)
    >>> blur(torch.rand(4, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3, 32, 32])

    Source: Chen et al. 2020, arXiv:2002.05709, Appendix A.

    Raises:
        InputError: if sigma_min is larger than sigma_max.
    """

    probability: Fraction
    sigma_min: Annotated[float, Ge(1e-6), Le(1000)]
    sigma_max: Annotated[float, Ge(1e-6), Le(1000)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sigma_min > self.sigma_max:
            raise InputError(f"needs sigma_min <= sigma_max, got {self.sigma_min} and {self.sigma_max}")

    def draw(self, count: int, generator: torch.Generator) -> DrawnBlur:
        """Draws one blur per image."""
        chosen = torch.rand(count, generator=generator) < self.probability
        return DrawnBlur(chosen, torch.empty(count).uniform_(self.sigma_min, self.sigma_max, generator=generator))

    def apply(self, view: View, drawn: DrawnBlur) -> View:
        """Returns the views, with the chosen ones blurred."""
        taps = kernel_size(min(view.shape[2:]))

        def blurred(images: View, sigma: Float[Tensor, "b"]) -> View:
            # The weights sum to 1 up to rounding, so a value can exceed 1.
            return gaussian_blur(images, sigma, taps).clamp_(max=1)

        return changed(view, drawn.chosen, blurred, drawn.sigma)

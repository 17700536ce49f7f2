"""View generators: invertible pixel-wise flows. Their output is split into two views.

A coupling changes two channels of each pixel by a function of the third; its 1 x 1 convolutions read one pixel at a
time. The three channels are the third in turn. A volume-preserving coupling shifts; any other also scales.

Source: Tian et al. 2020, arXiv:2005.10243, Section 6, Figure 13. The paper does not state depths and widths.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.rng import derive, first_weights
from annulus.errors import InputError


class Coupling(nn.Module):
    """Scales the other channels of each pixel (unless it is volume-preserving) and adds a shift.

    Scale and shift are functions of the `fixed` channel. The scale's logarithm lies in (-1, 1), so a coupling neither
    erases nor blows up a channel.
    """

    def __init__(self, channels: int, fixed: int, hidden: int, volume_preserving: bool) -> None:
        super().__init__()
        self.fixed, self.volume_preserving = fixed, volume_preserving
        self.others = [channel for channel in range(channels) if channel != fixed]
        outputs = len(self.others) * (1 if volume_preserving else 2)
        self.network = nn.Sequential(
            nn.Conv2d(1, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, outputs, 1)
        )

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        shift, log_scale = self._shift_and_log_scale(images)
        result = images.clone()
        result[:, self.others] = images[:, self.others] * log_scale.exp() + shift
        return result

    def _shift_and_log_scale(
        self, images: Float[Tensor, "b c h w"]
    ) -> tuple[Float[Tensor, "b o h w"], Float[Tensor, "b o h w"]]:
        output = self.network(images[:, self.fixed : self.fixed + 1])
        if self.volume_preserving:
            return output, torch.zeros_like(output)
        shift, log_scale = output.chunk(2, dim=1)
        return shift, log_scale.tanh()


class Flow(nn.Module):
    """A sequence of couplings; each fixes the next channel."""

    def __init__(self, channels: int, couplings: int, hidden: int, volume_preserving: bool) -> None:
        """Builds the couplings.

        Raises:
            InputError: for a single channel, since a coupling needs another one.
        """
        super().__init__()
        if channels < 2:
            raise InputError(f"a flow of {channels} channel changes nothing; take 2 or more")
        self.couplings = nn.ModuleList(
            Coupling(channels, number % channels, hidden, volume_preserving) for number in range(couplings)
        )

    def forward(self, images: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        for coupling in self.couplings:
            images = coupling(images)
        return images


def random_flow(channels: int, couplings: int, hidden: int, volume_preserving: bool, seed: int) -> Flow:
    """A flow with fresh weights; the same seed gives the same weights.

    Source: Tian et al. 2020, arXiv:2005.10243, Section 6.1 (random views).
    """
    with first_weights(derive(seed, "flow")):
        return Flow(channels, couplings, hidden, volume_preserving)

"""ViT-S: torchvision's vision transformer in the size that DeiT calls small, for images of one size.

`Encoder` imports this module only when it builds such a network: importing torchvision takes four seconds.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torchvision.models import VisionTransformer

from annulus.encoders.config import EncoderConfig
from annulus.errors import InputError

SIZES = {"num_layers": 12, "num_heads": 6, "hidden_dim": 384, "mlp_dim": 1536}


class SmallTransformer(VisionTransformer):
    """Patches and a class token through 12 blocks: 384 wide, 6 heads, a hidden layer of 1536, no dropout.

    The definition is DeiT's and timm's: learned position embeddings, a class token, normalisation at the end; MoCo v3's
    ViT-S has 12 heads and fixed position embeddings. Weights start as in torchvision. There is no batch normalisation.

    Source: Touvron et al. 2020, arXiv:2012.12877, Table 1 (DeiT-S); Dosovitskiy et al. 2020, arXiv:2010.11929, Eqs. 1
    to 4.
    """

    def __init__(self, view_size: int, patch: int, planes: int) -> None:
        super().__init__(view_size, patch, num_classes=1, **SIZES)
        del self.heads
        if planes != 3:
            self.conv_proj = nn.Conv2d(planes, self.hidden_dim, kernel_size=patch, stride=patch)
            nn.init.trunc_normal_(self.conv_proj.weight, std=(planes * patch**2) ** -0.5)  # torchvision's rule
            nn.init.zeros_(self.conv_proj.bias)

    def forward(self, images: Float[Tensor, "b k h w"]) -> tuple[Float[Tensor, "b c y x"], Float[Tensor, "b c"]]:
        """The map of the patches, and the class token, both normalised.

        Raises:
            InputError: for images of another size than the position embeddings'.
        """
        if images.shape[2:] != (self.image_size, self.image_size):
            raise InputError(
                f"this vit_small has positions for images of {self.image_size} x {self.image_size} pixels, got "
                f"{images.shape[2]} x {images.shape[3]}; resize the images"
            )
        patches = self._process_input(images)
        # A trace would keep `len(images)` as a constant, and then accept one batch size only.
        tokens = self.encoder(torch.cat([self.class_token.expand(images.shape[0], -1, -1), patches], dim=1))
        side = self.image_size // self.patch_size
        return tokens[:, 1:].transpose(1, 2).unflatten(2, (side, side)), tokens[:, 0]


def build_transformer(config: EncoderConfig) -> tuple[nn.Module, int]:
    """The network without a classifier under torchvision's names, and the width of its tokens."""
    network = SmallTransformer(config.view_size, config.patch, config.planes)
    return network, network.hidden_dim

"""The part of an encoder that programs without annulus load: pixels in [0, 1] to pooled features."""

from copy import deepcopy

from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.encoders.module_encoder import AnyEncoder, ModuleEncoder, pooled_output
from annulus.encoders.small import SmallMapConv2d
from annulus.errors import InputError


class PooledFeatures(nn.Module):
    """Network from images (b, 3, h, w), RGB in [0, 1], to pooled features (b, c), of torch's layers alone."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.register_buffer("mean", encoder.mean.clone())
        self.register_buffer("std", encoder.std.clone())
        self.backbone = _plain(deepcopy(encoder.backbone))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        output = self.backbone((images - self.mean) / self.std)
        return output[1] if isinstance(output, tuple) else output.mean(dim=(2, 3))


class PooledOutput(nn.Module):
    """Network from images to the pooled features of a `ModuleEncoder`; images may have other channels."""

    def __init__(self, encoder: ModuleEncoder) -> None:
        super().__init__()
        self.encoder = deepcopy(encoder)

    def forward(self, images: Float[Tensor, "b ..."]) -> Float[Tensor, "b c"]:
        # Not by `pooled`: an exporter would turn its check of the number of images into a constant.
        return pooled_output(self.encoder.network(self.encoder.prepared(images)), self.encoder.pool)


def pooled_features(encoder: AnyEncoder, view_size: int | None) -> tuple[nn.Module, int]:
    """Returns a frozen copy on the CPU, from views to pooled features, and the side of the views in pixels.

    Raises:
        InputError: for an encoder of two networks; without `view_size`, for a network that has no size of its own.
    """
    if isinstance(encoder, SplitEncoder):
        raise InputError(
            f"this encoder is two networks, each for a part of the image ({encoder.config.split}); export an encoder "
            "trained with split: none"
        )
    size = view_size or encoder.view_size
    if size is None:
        raise InputError("this network has no size of its own; name the side of its images, such as --view-size 224")
    network = PooledOutput(encoder) if isinstance(encoder, ModuleEncoder) else PooledFeatures(encoder)
    return network.cpu().eval().requires_grad_(False), size


def _plain(network: nn.Module) -> nn.Module:
    """Replaces convolutions by torch's own; results differ by rounding."""
    for module in network.modules():
        for name, conv in list(module.named_children()):
            if isinstance(conv, SmallMapConv2d):
                sizes = conv.in_channels, conv.out_channels, conv.kernel_size
                plain = nn.Conv2d(*sizes, stride=conv.stride, padding=conv.padding, bias=False)
                plain.weight = conv.weight
                setattr(module, name, plain)
    return network

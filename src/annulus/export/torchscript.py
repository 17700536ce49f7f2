"""An encoder as TorchScript: one file that torch.jit.load loads without annulus, in Python and in C++."""

import io
import warnings
from copy import deepcopy
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.encoders.small import SmallMapConv2d
from annulus.errors import InputError
from annulus.files.results import write_bytes


class PooledFeatures(nn.Module):
    """Images (b, 3, h, w), RGB in [0, 1], to pooled features (b, c), with nothing but layers of torch."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.register_buffer("mean", encoder.mean.clone())
        self.register_buffer("std", encoder.std.clone())
        self.backbone = _plain(deepcopy(encoder.backbone))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c"]:
        output = self.backbone((images - self.mean) / self.std)
        return output[1] if isinstance(output, tuple) else output.mean(dim=(2, 3))


def write_torchscript(encoder: Encoder | SplitEncoder, file: Path) -> None:
    """Write an encoder's pooled features as TorchScript, for batches of any size, whole or not at all.

    Images may have any size, but of a vision transformer that of its positions. Pixels are not checked.

    Raises:
        InputError: for an encoder of two networks, a file that does not end in .pt, or a full disk.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from annulus.export.torchscript import write_torchscript
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> with TemporaryDirectory() as folder:
    ...     write_torchscript(annulus.build_encoder(config, seed=0), Path(folder) / "encoder.pt")
    ...     features = torch.jit.load(Path(folder) / "encoder.pt")(torch.rand(2, 3, 32, 32))
    >>> features.shape
    torch.Size([2, 128])
    """
    if file.suffix != ".pt":
        raise InputError(f"{file} ends in {file.suffix!r}; for torchscript name a file that ends in .pt")
    if isinstance(encoder, SplitEncoder):
        raise InputError(
            f"this encoder is two networks, each of a part of the image ({encoder.config.split}); export an encoder "
            "trained with split: none"
        )
    network = PooledFeatures(encoder).cpu().eval().requires_grad_(False)
    size = encoder.config.view_size
    written = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # that TorchScript is old, and that an image's size is checked only here
        torch.jit.save(torch.jit.trace(network, torch.zeros(2, 3, size, size), check_trace=False), written)
    write_bytes(file, written.getvalue())


def usage(file: Path) -> str:
    """The lines that load the file."""
    return f'import torch\nnetwork = torch.jit.load("{file}")\n# images: RGB in [0, 1]; gives pooled features'


def _plain(network: nn.Module) -> nn.Module:
    """The network with torch's own convolutions, whose results differ by rounding."""
    for module in network.modules():
        for name, conv in list(module.named_children()):
            if isinstance(conv, SmallMapConv2d):
                sizes = conv.in_channels, conv.out_channels, conv.kernel_size
                plain = nn.Conv2d(*sizes, stride=conv.stride, padding=conv.padding, bias=False)
                plain.weight = conv.weight
                setattr(module, name, plain)
    return network

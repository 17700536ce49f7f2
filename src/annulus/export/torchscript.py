"""An encoder as TorchScript: one file that torch.jit.load loads without annulus, in Python and in C++."""

import io
import warnings
from pathlib import Path

import torch

from annulus.encoders.module_encoder import AnyEncoder
from annulus.errors import InputError
from annulus.export.pooled import pooled_features
from annulus.files.results import write_bytes


def write_torchscript(encoder: AnyEncoder, file: Path, view_size: int | None = None) -> None:
    """Writes an encoder's pooled features as TorchScript, for batches of any size, whole or not at all.

    Images may have any size; for a vision transformer they have the size of its positions. Pixels are not checked.
    `view_size`: pixels a side of the batch that torch follows through the network; None: the encoder's own size.

    Raises:
        InputError: for an encoder of two networks, a network without a size, a file that does not end in .pt, or a full
            disk.

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
    network, size = pooled_features(encoder, view_size)
    buffer = io.BytesIO()
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # about TorchScript's age, and checks of sizes that the trace omits
        torch.jit.save(torch.jit.trace(network, torch.zeros(2, 3, size, size), check_trace=False), buffer)
    write_bytes(file, buffer.getvalue())


def usage(file: Path) -> str:
    """Code that loads the file."""
    return f'import torch\nnetwork = torch.jit.load("{file}")\n# images: RGB in [0, 1]; gives pooled features'

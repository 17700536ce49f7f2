"""The folder that huggingface_hub uploads: model.safetensors, config.json, README.md; `load_encoder` reads it."""

from pathlib import Path

from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.export.card import About, model_card
from annulus.files.results import write_text
from annulus.files.weights import FOLDER_CONFIG, FOLDER_WEIGHTS, write_pair


def write_hub(encoder: Encoder | SplitEncoder, folder: Path, about: About | None = None) -> None:
    """Write the encoder, head included, its configuration and its model card into `folder`.

    `huggingface_hub.upload_folder(repo_id=..., folder_path=folder)` uploads it; `annulus.load_encoder(folder)` gives
    the same encoder, bit for bit.

    Raises:
        InputError: when the disk is full or the folder cannot be written.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from annulus.export.folder import write_hub
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> with TemporaryDirectory() as folder:
    ...     write_hub(annulus.build_encoder(config, seed=0), Path(folder))
    ...     annulus.load_encoder(folder)(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 16])
    """
    write_pair(encoder, encoder.config, folder / FOLDER_WEIGHTS, folder / FOLDER_CONFIG, {"format": "pt"})
    write_text(folder / "README.md", model_card(encoder.config, about or About()))


def usage(folder: Path) -> str:
    """The lines that load the folder, and upload it."""
    return (
        f'import annulus\nencoder = annulus.load_encoder("{folder}")\n'
        f'# huggingface_hub.upload_folder(repo_id="NAME/REPOSITORY", folder_path="{folder}")'
    )

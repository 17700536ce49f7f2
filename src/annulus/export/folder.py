"""Folder for huggingface_hub: model.safetensors, config.json, README.md. `load_encoder` reads it."""

from pathlib import Path

from annulus.encoders.module_encoder import AnyEncoder
from annulus.encoders.saved import describe
from annulus.export.card import About, model_card
from annulus.files.results import write_text
from annulus.files.weights import FOLDER_CONFIG, FOLDER_WEIGHTS, write_pair


def write_hub(encoder: AnyEncoder, folder: Path, about: About | None = None, network: str | None = None) -> None:
    """Writes the encoder with its head, its configuration and its model card into `folder`.

    `annulus.push_to_hub` uploads such a folder. `annulus.load_encoder(folder)` returns the same encoder, bit for bit.
    `network` names the network of a `ModuleEncoder`, as for `annulus.save_encoder`.

    Raises:
        InputError: if the disk is full or the folder cannot be written; for a network that its name does not build.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from annulus.export.folder import write_hub
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> with TemporaryDirectory() as folder:
    ...     write_hub(annulus.build_encoder(config, seed=0), Path(folder))
    ...     annulus.load_encoder(folder)(torch.rand(2, 3, 32, 32)).shape
    torch.Size([2, 16])
    """
    config = describe(encoder, network)
    write_pair(encoder, config, folder / FOLDER_WEIGHTS, folder / FOLDER_CONFIG, {"format": "pt"})
    write_text(folder / "README.md", model_card(config, about or About()))


def usage(folder: Path) -> str:
    """Code that loads the folder and uploads it."""
    return (
        f'import annulus\nencoder = annulus.load_encoder("{folder}")\n'
        '# annulus.push_to_hub(encoder, "NAME/REPOSITORY"), or to keep the card: '
        f'huggingface_hub.upload_folder(repo_id="NAME/REPOSITORY", folder_path="{folder}")'
    )

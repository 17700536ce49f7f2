"""The network of a `ModuleEncoder` for the library that built it, without annulus's head."""

from pathlib import Path

from annulus.encoders.by_name import named
from annulus.encoders.libraries import ENDINGS
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.encoders.saved import describe
from annulus.errors import InputError
from annulus.files.packed import write_tensors


def write_network(encoder: ModuleEncoder, library: str, path: Path) -> str:
    """Writes the network where its own library loads it; returns code that loads it.

    timm and torchvision have one file, transformers a folder.

    Raises:
        InputError: for a network of another library, a file of another ending, or a full disk.
    """
    config = describe(encoder)
    if config.library != library:
        raise InputError(
            f"the network is {config.network}, which {library} does not build; export to "
            f"{f'{config.library}, ' if config.library else ''}hub, onnx or torchscript"
        )
    if library == "transformers":
        encoder.network.save_pretrained(path)
        return f'from transformers import AutoModel\nnetwork = AutoModel.from_pretrained("{path}")'
    if path.suffix != ENDINGS[library]:
        raise InputError(f"{path} ends in {path.suffix!r}; for {library} name a file that ends in {ENDINGS[library]}")
    write_tensors(path, encoder.network.state_dict())
    model = config.network.partition("/")[2]
    if library == "timm":
        lines = [
            "import timm",
            f'network = timm.create_model("{model}", num_classes=0)',
            f'timm.models.load_checkpoint(network, "{path}")',
        ]
    else:
        lines = [
            "import safetensors.torch, torch, torchvision",
            f"network = torchvision.models.{model}()",
            f'network.set_submodule("{named(config.network).last}", torch.nn.Identity())',
            f'network.load_state_dict(safetensors.torch.load_file("{path}"))',
        ]
    return "\n".join(lines)

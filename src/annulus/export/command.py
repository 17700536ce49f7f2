"""`annulus export ENCODER --to LIBRARY [OUT]`: an encoder for another program.

hub: a folder that huggingface_hub uploads and annulus.load_encoder reads. transformers: a folder that its AutoModel
loads. torchscript: one file for torch.jit.load, .pt. torchvision, timm (.safetensors), detectron2 (.pth): one file, the
backbone under the library's names.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.encoders import libraries
from annulus.encoders.encoder import load_encoder
from annulus.errors import InputError
from annulus.export import folder, torchscript, transformers
from annulus.export.card import about_main_line
from annulus.files.weights import FOLDER_WEIGHTS

ENDINGS = {"hub": "", "transformers": "", "torchscript": ".pt", **libraries.ENDINGS}


def main(argv: Sequence[str] | None = None) -> None:
    """Export, then print where, and the lines that load it."""
    parser = argparse.ArgumentParser(
        prog="annulus export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path, help="such as data/main/encoders/0.safetensors, its JSON beside it")
    parser.add_argument("--to", choices=ENDINGS, required=True, dest="library")
    parser.add_argument("out", type=Path, nargs="?", help="file or folder to write (default: beside the encoder)")
    parser.add_argument("--license", default="", help="hub: the licence of the weights, such as mit")
    arguments = parser.parse_intermixed_args(argv)
    library, source = arguments.library, arguments.encoder
    out = arguments.out or _beside(source, f".{library}{ENDINGS[library]}")
    encoder = load_encoder(source)
    written = out / FOLDER_WEIGHTS if library == "transformers" else out
    if library != "hub" and written.resolve() == (source / FOLDER_WEIGHTS if source.is_dir() else source).resolve():
        raise InputError(f"{out}: there the export would replace the encoder itself; name another file or folder")
    match library:
        case "hub":
            folder.write_hub(encoder, out, about_main_line(source, arguments.license))
            usage = folder.usage(out)
        case "transformers":
            transformers.write_transformers(encoder, out)
            usage = transformers.usage(out)
        case "torchscript":
            torchscript.write_torchscript(encoder, out)
            usage = torchscript.usage(out)
        case _:
            libraries.export(encoder, library, out)
            usage = libraries.usage(encoder.config, library, out)
    print(f"# {out}\n{usage}")


def _beside(source: Path, ending: str) -> Path:
    if not source.is_dir():
        return source.with_suffix(ending)
    whole = source if source.name not in ("", "..") else source.resolve()  # `.` has no name
    return whole.with_name(whole.name + ending)

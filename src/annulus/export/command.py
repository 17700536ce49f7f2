"""`annulus export ENCODER --to LIBRARY [OUT]`: an encoder for another program.

hub: a folder that annulus.load_encoder reads and annulus.push_to_hub uploads. transformers: a folder that its AutoModel
loads. onnx: one file for onnxruntime. torchscript: one file for torch.jit.load, .pt. torchvision, timm (.safetensors),
detectron2 (.pth): one file, the backbone under the library's names.
"""

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path

from annulus.encoders import libraries
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.encoders.saved import load_encoder
from annulus.errors import InputError
from annulus.export import folder, onnx, own_library, torchscript, transformers
from annulus.export.card import About
from annulus.files.weights import FOLDER_WEIGHTS

ENDINGS = {"hub": "", "transformers": "", "onnx": ".onnx", "torchscript": ".pt", **libraries.ENDINGS}


def main(argv: Sequence[str] | None = None, about: Callable[[Path, str], About] | None = None) -> None:
    """Exports an encoder, and prints the path and the lines that load it.

    `about` returns facts for a model card from the encoder's path and licence; by default only the licence.
    """
    parser = argparse.ArgumentParser(
        prog="annulus export", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("encoder", type=Path, help="such as data/main/encoders/50.safetensors, its JSON beside it")
    parser.add_argument("--to", choices=ENDINGS, required=True, dest="library")
    parser.add_argument("out", type=Path, nargs="?", help="file or folder to write (default: beside the encoder)")
    parser.add_argument("--license", default="", help="hub: the licence of the weights, such as mit")
    parser.add_argument(
        "--image-size",
        type=int,
        metavar="N",
        help="transformers: side of the images whose middle is the view (default: as prepared here, or the view's)",
    )
    parser.add_argument(
        "--view-size", type=int, metavar="N", help="onnx, torchscript: side of the views (default: the encoder's own)"
    )
    parser.add_argument(
        "--trust", action="store_true", help="execute the function that the encoder's JSON names for its network"
    )
    arguments = parser.parse_intermixed_args(argv)
    library, source, licence = arguments.library, arguments.encoder, arguments.license
    encoder = load_encoder(source, arguments.trust)
    out = arguments.out or _beside(source, f".{library}{ENDINGS[library]}")
    facts = about(source, licence) if about else About(licence=licence)
    written = out / FOLDER_WEIGHTS if library == "transformers" else out
    if library != "hub" and written.resolve() == (source / FOLDER_WEIGHTS if source.is_dir() else source).resolve():
        raise InputError(f"{out}: the export would overwrite the encoder itself; name another file or folder")
    match library:
        case "hub":
            folder.write_hub(encoder, out, facts)
            usage = folder.usage(out)
        case "onnx":
            onnx.write_onnx(encoder, out, arguments.view_size)
            usage = onnx.usage(out)
        case "torchscript":
            torchscript.write_torchscript(encoder, out, arguments.view_size)
            usage = torchscript.usage(out)
        case _ if isinstance(encoder, ModuleEncoder):
            usage = own_library.write_network(encoder, library, out)
        case "transformers":
            transformers.write_transformers(encoder, out, arguments.image_size or facts.data.get("image_size"))
            usage = transformers.usage(out)
        case _:
            libraries.export(encoder, library, out)
            usage = libraries.usage(encoder.config, library, out)
    print(f"# {out}\n{usage}")


def _beside(source: Path, ending: str) -> Path:
    if not source.is_dir():
        return source.with_suffix(ending)
    whole = source if source.name not in ("", "..") else source.resolve()  # `.` has no name
    return whole.with_name(whole.name + ending)

"""An encoder as ONNX: one file for onnxruntime and other programs, without annulus and without torch."""

import io
import logging
import warnings
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path

import torch

from annulus.encoders.module_encoder import AnyEncoder
from annulus.errors import InputError
from annulus.export.pooled import pooled_features
from annulus.files.results import write_bytes


def write_onnx(encoder: AnyEncoder, file: Path, view_size: int | None = None) -> None:
    """Writes an encoder's pooled features as ONNX, for batches of any number of images, whole or not at all.

    Images are RGB in [0, 1] of `view_size` pixels a side; None: the encoder's own size. The input is `images`, the
    output `pooled`. Pixels are not checked.

    Raises:
        InputError: for an encoder of two networks, a network without a size, or one that torch cannot export; a file
            that does not end in .onnx; without onnxscript; for a full disk.
    """
    if file.suffix != ".onnx":
        raise InputError(f"{file} ends in {file.suffix!r}; for onnx name a file that ends in .onnx")
    if find_spec("onnxscript") is None:
        raise InputError("ONNX needs onnxscript; pip install onnxscript")
    network, size = pooled_features(encoder, view_size)
    example = torch.zeros(2, 3, size, size)
    torch_log = logging.getLogger("torch.onnx")
    level = torch_log.level
    try:
        torch_log.setLevel(logging.ERROR)
        with warnings.catch_warnings(), torch.no_grad(), redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                network,
                (example,),
                input_names=["images"],
                output_names=["pooled"],
                dynamic_shapes={"images": {0: torch.export.Dim("batch")}},
                dynamo=True,
                verbose=False,
            )
        model = program.model_proto
        content = model.SerializeToString()
    except Exception as error:  # of torch's exporter, and of protobuf beyond 2 GB: any kind
        raise InputError(
            f"torch cannot export this network to ONNX ({type(error).__name__}: {' '.join(str(error).split())[:300]}); "
            "export to torchscript or hub"
        ) from error
    finally:
        torch_log.setLevel(level)
    if not model.graph.input[0].type.tensor_type.shape.dim[0].dim_param:
        raise InputError(
            "this network computes with the number of images of a batch, such as len(images), and ONNX would keep one "
            "number; use images.shape[0], or export to torchscript"
        )
    write_bytes(file, content)


def usage(file: Path) -> str:
    """Code that loads the file."""
    return (
        f'import onnxruntime\nnetwork = onnxruntime.InferenceSession("{file}")\n'
        '# network.run(["pooled"], {"images": images})[0]; images: float32, RGB in [0, 1]'
    )

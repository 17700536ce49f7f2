"""What Triton's kernels would do on a pretended GPU (pretended_gpu.py): as many launches, and the CPU's results.

Triton runs on no CPU. Each function that starts kernels counts them here, and computes elsewhere, uncounted.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from pretended_gpu import PretendedGPU

from annulus.negatives import radix, threshold
from annulus.views import kernels, recipe


@contextmanager
def pretended_kernels(gpu: PretendedGPU) -> Iterator[None]:
    """A context in which the library finds Triton."""

    def select(scores, own, first, last, picked):
        gpu.count("kernels", "radix._members")
        if picked is not None:
            gpu.count("kernels", "radix._drawn")
        with gpu.uncounted():
            return threshold.plain(scores, own if own.numel() else None, first, last, picked)

    def view(images, boxes, mirrored, jitter, grey, size):
        for kernel in ("_cropped", "_coloured"):
            gpu.count("kernels", f"kernels.{kernel}")
        with gpu.uncounted():
            drawn = recipe.each(recipe.Recipe(boxes, mirrored, jitter, grey, None), lambda field: field.cpu())
            return recipe.by_chunks(images.cpu(), drawn, size).to(gpu.device)

    with (
        mock.patch.object(threshold, "runs_triton", return_value=True),
        mock.patch.object(recipe, "runs_triton", return_value=True),
        mock.patch.object(radix, "select", select),
        mock.patch.object(kernels, "view", view),
    ):
        yield

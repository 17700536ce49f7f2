"""How much memory a training surely takes, before any of it is allocated."""

from annulus.config.methods import AnyMethod
from annulus.config.training import OptimizerParams, PretrainScale
from annulus.files.images import ImageSet

FLOAT, INDEX = 4, 8  # bytes


def bytes_needed(
    images: ImageSet,
    view_size: int,
    method: AnyMethod,
    scale: PretrainScale,
    optimizer: OptimizerParams,
    weights: int,
    queries: int,
    columns: int,
    parts: int,
) -> dict[str, int]:
    """Bytes by what they are for; the encoder has `weights`, a batch `queries`, each scored against `columns`.

    With a split, the encoder is 2 `parts`, each with a memory of its own.
    The network's activations come on top.
    """
    dim, negatives = method.embedding_dim, scale.negatives if method.negatives == "sampled" else 0
    tensors = method.networks + 1 + (optimizer.momentum > 0)  # with gradients, and what the optimiser keeps
    needs = {
        f"networks ({tensors} x {weights:,})": tensors * weights * FLOAT,
        f"images ({len(images):,} of {images.images.side} px)": images.images.memory(scale.batch_size),
        f"views of a batch ({scale.batch_size:,} of {view_size} px)": 2 * scale.batch_size * 3 * view_size**2 * FLOAT,
        # The scores and their gradient.
        f"scores of a batch ({queries:,} x {columns:,})": 2 * queries * columns * FLOAT,
        f"negatives of a batch ({queries:,} x {negatives:,})": queries * negatives * (INDEX + FLOAT),
    }
    if method.keeps_bank:
        needs[f"bank ({len(images):,} x {parts * dim:,})"] = len(images) * parts * dim * FLOAT
    if method.keeps_queue:
        needs[f"queue ({scale.queue:,} x {parts * dim:,})"] = scale.queue * parts * (dim * FLOAT + INDEX)
    return needs

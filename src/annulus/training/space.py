"""Lower bound on the memory of a training, computed before any is allocated."""

from annulus.files.images import ImageSet
from annulus.training.run import TrainingRun

FLOAT, INDEX = 4, 8  # bytes


def bytes_needed(images: ImageSet, run: TrainingRun, weights: int) -> dict[str, int]:
    """Bytes by purpose, without the network's activations; `weights`: number of the encoder's weights.

    With a split, the encoder is two networks, each with a memory of its own.
    """
    method, budget, view_size, views = run.method, run.budget, run.view_size, run.method.method.views
    queries, columns, parts = run.queries, run.columns(len(images)), 1 if run.split is None else 2
    dim, negatives = method.embedding_dim, budget.negatives if method.negatives == "sampled" else 0
    tensors = method.networks + 1 + (run.optimizer.momentum > 0)  # with gradients and the optimiser's state
    view_bytes = 3 * view_size**2 * FLOAT
    needs = {
        f"networks ({tensors} x {weights:,})": tensors * weights * FLOAT,
        f"images ({len(images):,} of {images.images.side} px)": images.images.memory(budget.batch_size),
        f"views of a batch ({views} x {budget.batch_size:,} of {view_size} px)": views * budget.batch_size * view_bytes,
        # The scores and their gradient.
        f"scores of a batch ({queries:,} x {columns:,})": 2 * queries * columns * FLOAT,
        f"negatives of a batch ({queries:,} x {negatives:,})": queries * negatives * (INDEX + FLOAT),
    }
    if method.keeps_bank:
        needs[f"bank ({len(images):,} x {parts * dim:,})"] = len(images) * parts * dim * FLOAT
    if method.keeps_queue:
        needs[f"queue ({budget.queue:,} x {parts * dim:,})"] = budget.queue * parts * (dim * FLOAT + INDEX)
    return needs

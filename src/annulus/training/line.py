"""An epoch's numbers as a line."""

from collections.abc import Mapping

from annulus.files.results import Number


def line(row: Mapping[str, Number], epochs: int) -> str:
    """An epoch's row of the history as a sentence."""
    text = (
        f"epoch {row['epoch']}/{epochs}: loss {row['loss_nats']:.3f} nats, "
        f"bound {row['bound_nats']:.3f} of {row['ceiling_nats']:.3f}, rate {row['learning_rate']:.2g}"
    )
    if "validation_nn1_percent" in row:
        text += f", validation 1-NN {row['validation_nn1_percent']:.1f} %"
    return text

"""How far a training is: a bar on a terminal, elsewhere a line per epoch."""

import sys
from collections.abc import Mapping

from tqdm import tqdm

from annulus.compute.distributed import rank
from annulus.config.training import PretrainScale
from annulus.files.results import Number


class ProgressBar(tqdm):
    """An epoch's images, by the first process on a terminal; elsewhere it shows nothing."""

    def __init__(self, epoch: int, scale: PretrainScale, batches: int, done: int) -> None:
        self.batch_size = scale.batch_size
        super().__init__(
            total=batches * scale.batch_size,
            initial=done * scale.batch_size,
            desc=f"epoch {epoch + 1}/{scale.epochs}",
            unit=" images",
            leave=epoch + 1 == scale.epochs,
            disable=not sys.stderr.isatty() or rank() > 0,
        )

    def show(self, done: int, loss: float, rate: float) -> None:
        """So many batches are done, with this mean loss in nats and this learning rate."""
        self.set_postfix_str(f"loss {loss:.3f} nats, rate {rate:.2g}", refresh=False)
        self.update(done * self.batch_size - self.n)


def line(row: Mapping[str, Number], epochs: int) -> str:
    """An epoch's row of the history as a sentence."""
    text = (
        f"epoch {row['epoch']}/{epochs}: loss {row['loss_nats']:.3f} nats, "
        f"bound {row['bound_nats']:.3f} of {row['ceiling_nats']:.3f}, rate {row['learning_rate']:.2g}"
    )
    if "validation_nn1_percent" in row:
        text += f", validation 1-NN {row['validation_nn1_percent']:.1f} %"
    return text

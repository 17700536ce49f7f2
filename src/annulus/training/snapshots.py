"""Snapshots: embeddings of the same few images at some epochs of pretraining, for later diagnostics.

Training does not read them, and they have random generators of their own, so training has the same numbers without
them. `diagnostics` computes its numbers from the file later: another number needs no new training.
"""

from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Float16
from torch import Tensor

from annulus.device.rng import generator
from annulus.encoders.extract import encode
from annulus.files.images import ImageSet
from annulus.files.packed import write_packed
from annulus.files.results import Number
from annulus.files.store import BATCH_SIZE
from annulus.methods.step import Method
from annulus.training.loop import Observer, Training
from annulus.views.patches import draw_views
from annulus.views.recipe import center_view
from annulus.views.settings import ViewSet

# A snapshot of 4,000 images takes a sixth of an epoch's time. Sixteen make a curve; more would slow training down.
MOST_SNAPSHOTS, MOST_IMAGES, MOST_QUERIES = 16, 4096, 256


class Snapshots(Observer):
    """Embeddings of fixed training images, evenly over training and at its end, in float16; one file at the end.

    queries, second   two views of the query images, the same two at every epoch
    current           the centre view of all fixed images, by the current encoder
    memory            the method's stored embeddings of them: rows of its bank, or each image's newest key in its queue
                      (zeros without one); left out if the memory is the batch

    With a split, each embedding holds both networks', the first part's first, as `SplitEncoder.embed` joins them.
    """

    def __init__(
        self, images: ImageSet, views: ViewSet, epochs: int, seed: int, device: torch.device, path: Path
    ) -> None:
        self.source, self.views, self.seed, self.device = images.images.on(device), views, seed, device
        self.path = path
        count = min(MOST_SNAPSHOTS, epochs)
        self.due = {(place + 1) * epochs // count for place in range(count)}
        some = images.evaluated  # diagnostics compute the share of negatives of the query's class, if it has one
        shuffled = some[torch.randperm(len(some), generator=generator(seed, "snapshot images"))]
        self.images = shuffled[:MOST_IMAGES].sort().values  # positions in the training split
        self.query_images = shuffled[:MOST_QUERIES].sort().values  # some of the same
        self.taken: list[dict[str, Tensor]] = []

    def after_epoch(self, training: Training, row: dict[str, Number]) -> None:
        """Takes a snapshot if one is due after this epoch; epochs count from 1."""
        epoch, method = row["epoch"], training.method
        if epoch not in self.due:
            return
        seen = generator(self.seed, "snapshot views")
        images, sizes = self.source.take(self.query_images), self.source.image_sizes(self.query_images)
        size = method.encoder.view_size
        views = draw_views(images, self.views, size, [seen, seen], sizes=sizes)
        snapshot = {name: _embedded(method, view) for name, view in zip(("queries", "second"), views, strict=True)}
        plain = [
            _embedded(method, center_view(some, size, self.source.image_sizes(index)))
            for index, some in self.source.in_turn(self.images.split(BATCH_SIZE))
        ]
        snapshot["current"] = torch.cat(plain)
        stored = method.stored_embeddings(self.images.to(self.device))
        if stored is not None:
            snapshot["memory"] = stored.half().cpu()
        self.taken.append({"epoch": torch.tensor(epoch), **snapshot})

    def at_end(self, training: Training, metrics: dict[str, Number]) -> None:
        """Writes one packed file: each embedding as (snapshots, images, d), `epochs`, and the numbers of the images.

        Its description holds the kind of `memory` (bank, queue, batch) and the number of training images. `crossed` is
        True if queries are compared with the other half of the memory's rows.
        """
        tensors = {name: torch.stack([one[name] for one in self.taken]) for name in self.taken[0]}
        tensors["epochs"] = tensors.pop("epoch")
        tensors |= {"images": self.images, "query_images": self.query_images}
        method, images = training.method, len(self.source)
        about = {"memory": method.memory, "crossed": len(method.contrasts) > 1, "train_images": images}
        write_packed(self.path, tensors, about)

    def state_dict(self) -> dict[str, Any]:
        return {"taken": list(self.taken)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.taken = list(state["taken"])


def _embedded(method: Method, views: Float[Tensor, "b 3 h w"]) -> Float16[Tensor, "b d"]:
    return encode(method.encoder, views, ["embedding"])["embedding"].half().cpu()

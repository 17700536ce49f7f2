"""SimCLR: two views of each image in one batch, each the other's positive; all other views are the memory."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.compute.device import autocast
from annulus.compute.distributed import gather
from annulus.config.methods import SimCLRParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Moment
from annulus.methods.step import Setting, Step


class SimCLR(nn.Module):
    """In-batch negatives in both directions: each of 2b views is a query once, against the 2b - 2 of other images.

    Source: mutualinfo section 2 (SimCLR, Lemma B.1); Chen et al. 2020, arXiv:2002.05709, eq. 1 (NT-Xent).
    """

    views = 2
    stored = None  # no embedding of every image is kept

    def __init__(self, encoder: Encoder, params: SimCLRParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        self.contrast = Contrast(setting.objective, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Nothing: the batch is the memory."""

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the training images anew, where clusters are needed."""
        if self.contrast.needs_clusters:
            self.contrast.cluster(embed(), epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], moment: Moment) -> Step:
        """The mean over both directions of the objective of each view against the views of other images."""
        with autocast(views[0].device):
            both = self.encoder(torch.cat([*views])).chunk(2)  # one pass, one batch-norm over both views
        embedding = torch.cat([gather(each) for each in both])  # (2b, d)
        similarity = (embedding / self.params.temperature) @ embedding.T
        images, batch, count = index.repeat(2), len(index), len(embedding)
        # Seen from a view, columns are counted on from itself: after a batch comes the other view of its image.
        rows = torch.arange(count, device=index.device)[:, None]
        others = torch.cat([torch.arange(1, batch), torch.arange(batch + 1, count)]).to(index.device, non_blocking=True)
        columns = (rows + others) % count
        positive = similarity.gather(1, (rows + batch) % count).squeeze(1)
        scores = similarity.gather(1, columns)
        return Step(self.contrast(scores, images, moment, positive=positive, columns=images[columns]), embedding)

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Nothing is stored."""

"""SimCLR: two views of each image in one batch, each the other's positive; all other views are the memory."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.device import autocast
from annulus.compute.distributed import all_gather_with_grad
from annulus.config.methods import SimCLRParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Progress
from annulus.methods.critics import scaled
from annulus.methods.step import Method, Setting, Step


class SimCLR(Method):
    """In-batch negatives in both directions: each of 2b views is a query once, against the 2b - 2 of other images.

    Source: Chen et al. 2020, arXiv:2002.05709, Eq. 1 (NT-Xent); Wu et al. 2020, arXiv:2005.13149, Lemma B.1.
    """

    queries_per_image = 2

    def __init__(self, encoder: Encoder, params: SimCLRParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        self.contrast = Contrast(setting.contrast, setting.images, setting.seed, setting.device)
        self.to(setting.device)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """Each view against the views of other images, mean over both directions."""
        with autocast(views[0].device):
            both = self.encoder(torch.cat([*views])).chunk(2)  # one pass, one batch-norm over both views
        embedding = torch.cat([all_gather_with_grad(each) for each in both])  # (2b, d)
        similarity = scaled(embedding, self.params.temperature) @ embedding.T
        images, batch, count = index.repeat(2), len(index), len(embedding)
        # Seen from a view, columns are counted on from itself: after a batch comes the other view of its image.
        rows = torch.arange(count, device=index.device)[:, None]
        others = torch.arange(1, count - 1, device=index.device)
        others += others >= batch
        columns = (rows + others) % count
        positive = similarity.gather(1, (rows + batch) % count).squeeze(1)
        scores = similarity.gather(1, columns)
        estimate = self.contrast(scores, images, progress, positive=positive, column_images=images[columns])
        return Step(estimate, embedding)

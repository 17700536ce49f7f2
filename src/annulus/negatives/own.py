"""`self_index`: the columns of each query's own image.

None        without own columns: the other views of a batch
(b,)        one own column for every query: a bank
(b, w)      up to w own columns, padded with -1: a queue, which may hold several keys of an image, or none
"""

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

SelfIndex = Int[Tensor, "b"] | Int[Tensor, "b w"] | None


def own_columns(scores: Shaped[Tensor, "b n"], self_index: SelfIndex) -> Bool[Tensor, "b n"]:
    """Mask of the columns of the query's own image."""
    count = scores.shape[1]
    mask = torch.zeros(len(scores), count + 1, dtype=torch.bool, device=scores.device)
    if self_index is not None:
        columns = self_index.view(len(scores), -1)
        mask.scatter_(1, columns.where(columns >= 0, count), True)  # padding marks the last column, which is cut off
    return mask[:, :count]

"""Noise-contrastive estimation: each candidate by itself."""

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from annulus.bounds.infonce import present


def nce(
    positive: Float[Tensor, "b"],
    negatives: Float[Tensor, "b k"],
    log_partition: Float[Tensor, "b"] | Float[Tensor, ""],
    rows: int,
) -> Float[Tensor, ""]:
    """Telling the positive from k draws of uniform noise over `rows` rows, one by one; summed over the negatives.

    P = exp(score)/Z is called data with probability P/(P + k/rows). Where that is 1/2 for all, (1 + k) log 2.
    Not a bound on information: report InfoNCE of the same scores.

    Source: Wu et al. 2018, section 3.2; as their authors' later code has it. mutualinfo section 2 prints IR (original)
    as a softmax with a constant instead, whose estimate is InfoNCE's but for that constant.
    """
    counts = present(negatives).clamp(min=1).to(negatives.dtype)
    even = log_partition + (counts / rows).log()  # the score at which data and noise are as likely
    return -(logsigmoid(positive - even) + logsigmoid(even[:, None] - negatives).sum(dim=1)).mean()

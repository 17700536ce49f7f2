"""Local aggregation: the share that the close neighbours have of the background."""

from jaxtyping import Float, Int
from torch import Tensor


def la(close: Float[Tensor, "b c"], background: Float[Tensor, "b n"]) -> Float[Tensor, ""]:
    """-log of the share that the close neighbours have of the background, which holds them too.

    At chance log(n/c): log 2 where half of the background is close.

    Source: mutualinfo section 2 (LA-nce); ring eq. 5 is `la_ceiling` minus this.
    """
    return (background.logsumexp(dim=1) - close.logsumexp(dim=1)).mean()


def la_ceiling(close: Int[Tensor, "b"], background: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """log(n/c) for sizes of the background and the close set in it: the constant of ring eq. 5."""
    return (background / close).log().mean()


def la_original(
    close: Float[Tensor, "b c"],
    background: Float[Tensor, "b n"],
    log_partition: Float[Tensor, "b"] | Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """-(log p(C) - log p(B)) with p(i) = exp(score) / Z: equal to `la`, since Z cancels.

    Source: Zhuang et al. 2019; mutualinfo section 2 (LA original) and Lemma B.3.
    """
    log_close = close.logsumexp(dim=1) - log_partition
    log_background = background.logsumexp(dim=1) - log_partition
    return -(log_close - log_background).mean()

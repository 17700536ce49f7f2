"""Sections that say how scores become nats."""

from typing import Literal

from pydantic import ConfigDict, Field

from annulus.config.params import Params, Positive


class InfoNCEParams(Params):
    """One denominator per query. eqco_alpha: EqCo's margin, as if there were so many negatives; null: none."""

    eqco_alpha: Positive | None


class CPCParams(InfoNCEParams):
    """The positive weighs `alpha` in its denominator, the negatives what is left of K + 1."""

    alpha: Positive


class MLCPCParams(InfoNCEParams):
    """One denominator for the whole batch; alpha goes geometrically from the first to the second, step by step."""

    alpha_start: Positive
    alpha_end: Positive
    divide_by_alpha: bool  # as the authors' code does, which scales the gradient with the schedule


class PartitionParams(Params):
    """How the partition function of the original, normalised objectives is estimated.

    constant: `constant` times the memory's rows; first-batch: the mean of the first batch's negatives, for ever;
    moving-average: of every batch, the old estimate kept at `rate`; exact: the sum over the memory, per query.
    """

    partition: Literal["constant", "first-batch", "moving-average", "exact"]
    constant: Positive
    rate: float = Field(ge=0, lt=1)


class NCEParams(PartitionParams):
    """The original IR: positive against noise, each candidate by itself."""


class LAParams(Params):
    """Local aggregation as the difference of two logsumexp."""


class LAOriginalParams(PartitionParams):
    """Local aggregation as the ratio of two probabilities, each with the partition function."""


BoundParams = InfoNCEParams | CPCParams | MLCPCParams | NCEParams | LAParams | LAOriginalParams


class Bounds(Params):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    infonce: InfoNCEParams
    nce: NCEParams
    la: LAParams
    la_original: LAOriginalParams
    cpc: CPCParams
    mlcpc: MLCPCParams

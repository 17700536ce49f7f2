"""Sections that say how scores become nats."""

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from annulus.config.params import Params, Positive


class BoundParams(Params):
    """How scores become nats. takes_neighbours: whether a query may have several positives."""

    takes_neighbours: ClassVar[bool]


class InfoNCEParams(BoundParams):
    """One denominator per query. eqco_alpha: EqCo's margin, as if there were so many negatives; null: none."""

    takes_neighbours: ClassVar = True
    eqco_alpha: Positive | None


class BinaryNCEParams(BoundParams):
    """The original IR: positive against noise, each candidate by itself.

    normaliser says how the partition function is estimated. constant: `constant` times the memory's columns;
    first-batch: from the first batch's negatives, for the whole training; first-batch-candidates: the same with its
    positives; moving-average: from every batch, the old estimate keeping the share `rate`; exact: the sum over the
    memory, per query.
    """

    takes_neighbours: ClassVar = False
    normaliser: Literal["constant", "first-batch", "first-batch-candidates", "moving-average", "exact"]
    constant: Positive
    rate: float = Field(ge=0, lt=1)


class LAParams(BoundParams):
    """Local aggregation as the difference of two logsumexp."""

    takes_neighbours: ClassVar = True


class CPCParams(BoundParams):
    """In the denominator the positive has weight alpha and each of the K negatives (K + 1 - alpha)/K."""

    takes_neighbours: ClassVar = True
    eqco_alpha: Positive | None
    alpha: Positive


class MLCPCParams(BoundParams):
    """One denominator for the whole batch; alpha goes geometrically from the first to the second, step by step."""

    takes_neighbours: ClassVar = False
    eqco_alpha: Positive | None
    alpha_start: Positive
    alpha_end: Positive
    divide_by_alpha: bool  # as the authors' code does, which scales the gradient with the schedule


class Bounds(Params):
    model_config = ConfigDict(alias_generator=lambda name: name.replace("_", "-"))

    infonce: InfoNCEParams
    binary_nce: BinaryNCEParams
    la: LAParams
    cpc: CPCParams
    mlcpc: MLCPCParams

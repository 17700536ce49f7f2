"""Settings of a linear probe, and its training budget."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from annulus.errors import InputError
from annulus.settings import Decay, Rate, Rows, Section, Share, Steps


@dataclass(frozen=True, kw_only=True)
class LinearSettings(Section):
    """Settings of a linear probe. With `patience`, the rate falls tenfold on a plateau, `drops` times at most.

    The defaults of momentum and weight decay are from Wu et al. 2020, arXiv:2005.13149, Appendix C.2.

    >>> annulus.LinearSettings(weight_decay=0.0)
    LinearSettings(inputs='features', layer='pooled', momentum=0.9, weight_decay=0.0, patience=None, drops=0)
    """

    inputs: Literal["features", "views"] = "features"
    layer: Literal["pooled", "map"] = "pooled"
    momentum: Share = 0.9
    weight_decay: Decay = 1e-5
    patience: Steps | None = None
    drops: Annotated[int, Ge(0), Le(1000)] = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.patience is None) != (self.drops == 0):
            raise InputError(
                f"patience {self.patience} and drops {self.drops} go together; give both, or patience None and drops 0"
            )


@dataclass(frozen=True, kw_only=True)
class LinearBudget(Section):
    """Training budget of a linear probe.

    The defaults of epochs and batch size are from Wu et al. 2020, arXiv:2005.13149, Appendix C.2. The learning rate
    is ten times theirs: their 0.01 is for features that are not standardised.

    >>> annulus.LinearBudget(epochs=100)
    LinearBudget(epochs=100, batch_size=256, learning_rate=0.1)
    """

    epochs: Steps = 30
    batch_size: Rows = 256
    learning_rate: Rate = 0.1

"""Settings of the decoder of feature maps."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from annulus.settings import Rate, Rows, Section, Steps


@dataclass(frozen=True, kw_only=True)
class SegmentationSettings(Section):
    """Settings of a decoder of frozen feature maps. `width`: channels of its two convolutions."""

    width: Annotated[int, Ge(1), Le(4096)]
    epochs: Steps
    batch_size: Rows
    learning_rate: Rate

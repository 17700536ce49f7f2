"""Training settings of classifiers."""

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from annulus.optim.schedules import MilestoneSchedule
from annulus.settings import Decay, Fraction, Rate, Section, Share, Steps


@dataclass(frozen=True, kw_only=True)
class FitParams(Section):
    """SGD with momentum, and the augmentation of its images.

    Song and Ermon train for 240 epochs with momentum 0.9 and weight decay 5e-4. Their learning rate is 0.1, divided by
    ten after 150, 180 and 210 epochs. The code of Tian et al. has 0.05, and 0.01 for MobileNetV2 and the ShuffleNets.

    Source: Song and Ermon 2020, arXiv:2007.09852, Appendix C.3; Tian et al. 2020, arXiv:1910.10699, Section 4.
    """

    epochs: Steps
    batch_size: Annotated[int, Ge(2), Le(2**24)]
    learning_rate: Rate
    momentum: Share
    weight_decay: Decay
    schedule: MilestoneSchedule
    padding: Annotated[int, Ge(0), Le(1024)]  # black pixels on each side, before a crop of the image's size
    flip: Fraction  # share of images that are mirrored left to right

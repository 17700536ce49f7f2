"""Training settings of classifiers."""

from pydantic import Field

from annulus.config.params import Params
from annulus.optim.schedules import MilestoneSchedule
from annulus.settings import Decay, Rate, Steps


class FitParams(Params):
    """SGD with momentum, and the augmentation of its images.

    Song and Ermon train for 240 epochs at a learning rate of 0.1, divided by ten after 150, 180 and 210, with momentum
    0.9 and weight decay 5e-4. The code of Tian et al. has 0.05, and 0.01 for MobileNetV2 and the ShuffleNets.

    Source: Song and Ermon 2020, arXiv:2007.09852, Appendix C.3; Tian et al. 2020, arXiv:1910.10699, Section 4.
    """

    epochs: Steps
    batch_size: int = Field(ge=2, le=2**24)
    learning_rate: Rate
    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay
    schedule: MilestoneSchedule
    padding: int = Field(ge=0, le=1024)  # pixels of black on each side, of which a crop of the image's size is cut
    flip: float = Field(ge=0, le=1)  # the share of images that are mirrored left to right

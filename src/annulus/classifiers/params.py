"""The section of params.yaml that says how a classifier is trained."""

from pydantic import Field

from annulus.config.params import Count, Decay, Params, Rate
from annulus.config.training import MilestoneSchedule


class FitParams(Params):
    """SGD with momentum, and what its images go through.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 4; Song and Ermon 2020, arXiv:2007.09852, Section 5.2.
    """

    epochs: Count
    batch_size: int = Field(ge=2, le=2**24)
    learning_rate: Rate
    momentum: float = Field(ge=0, lt=1)
    weight_decay: Decay
    schedule: MilestoneSchedule
    padding: int = Field(ge=0, le=1024)  # pixels of black on each side, of which a crop of the image's size is cut
    flip: float = Field(ge=0, le=1)  # the share of images that are mirrored left to right

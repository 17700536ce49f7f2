"""Configuration that rebuilds a classifier, with its checks."""

import difflib
from dataclasses import dataclass
from typing import Any, Self

from annulus.errors import InputError
from annulus.files.images import Channels
from annulus.files.weights import check_keys, statistics

NAMES = (
    *("resnet8", "resnet14", "resnet20", "resnet32", "resnet44", "resnet56", "resnet110", "resnet8x4", "resnet32x4"),
    *("resnet50", "wrn_16_1", "wrn_16_2", "wrn_40_1", "wrn_40_2", "vgg8", "vgg13"),
    *("mobilenet_v2", "shufflenet_v1", "shufflenet_v2"),
)
MOST_CLASSES = 2**20


@dataclass(frozen=True)
class ClassifierConfig:
    """Arguments that rebuild a classifier; stored as JSON beside its weights."""

    name: str  # of the network: one of NAMES
    classes: int
    mean: Channels  # of the training images' red, green and blue, in [0, 1]
    std: Channels

    def __post_init__(self) -> None:
        """Checks the arguments.

        Raises:
            InputError: for an unknown name, with the nearest known one, an impossible number of classes, or a std of 0.
        """
        check_name(self.name)
        if not 1 <= self.classes <= MOST_CLASSES:
            raise InputError(f"a classifier of {self.classes} classes; give a number from 1 to {MOST_CLASSES}")
        if min(self.std) <= 0:
            raise InputError(
                f"the channels' standard deviations are {self.std}, expected numbers above 0 to divide by; "
                "take images of more than one colour"
            )

    @classmethod
    def checked(cls, described: Any) -> Self:
        """Parses the content of the JSON file.

        Raises:
            ValueError: for a missing or unknown key, or a value that no classifier has.
        """
        check_keys(described, cls)
        if not isinstance(described["name"], str) or type(described["classes"]) is not int:
            raise ValueError(
                f"name is {described['name']!r} and classes {described['classes']!r}, expected text and a whole number"
            )
        return cls(**described | statistics(described, 3))


def check_name(name: str) -> None:
    """Checks the name of a network.

    Raises:
        InputError: when it is unknown, with the nearest known name.
    """
    if name not in NAMES:
        close = difflib.get_close_matches(name.lower().replace("-", "_"), NAMES, n=1, cutoff=0.0)
        raise InputError(f"no network is named {name!r}; did you mean {close[0]!r}? Known: {', '.join(NAMES)}")

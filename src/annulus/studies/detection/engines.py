"""Choice of the detection library: torchvision on every machine, or Detectron2 where it is installed."""

from collections.abc import Callable
from typing import Any

from annulus.studies.detection.tasks import check_engine


def engine_of(name: str) -> Callable[..., Any]:
    """`train_and_detect` of an engine.

    Raises:
        InputError: as `check_engine`.
    """
    check_engine(name)
    if name == "detectron2":
        from annulus.studies.detection import detectron2_engine

        return detectron2_engine.train_and_detect
    from annulus.studies.detection import torchvision_engine

    return torchvision_engine.train_and_detect

"""Which library detects: torchvision on every machine, or Detectron2 where it is installed."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from annulus.config.params import nearest
from annulus.errors import InputError

ENGINES = ("torchvision", "detectron2")


def check_engine(name: str) -> None:
    """Refuse an engine that does not exist or is not installed, before anything is trained.

    Raises:
        InputError: naming the nearest one, or where to find it.
    """
    if name not in ENGINES:
        raise InputError(f"engine: {name!r} is none of {', '.join(ENGINES)}{nearest(name, ENGINES)}")
    if name == "detectron2" and find_spec("detectron2") is None:
        raise InputError(
            "engine: detectron2 is not installed here; build it as "
            "https://detectron2.readthedocs.io/en/latest/tutorials/install.html says, or take engine: torchvision"
        )


def engine_of(name: str) -> Callable[..., Any]:
    """`train_and_detect` of an engine.

    Raises:
        InputError: as `check_engine`.
    """
    check_engine(name)
    if name == "detectron2":
        from annulus.detection import detectron2_engine

        return detectron2_engine.train_and_detect
    from annulus.detection import torchvision_engine

    return torchvision_engine.train_and_detect

"""Settings of the generated scenes."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from annulus.settings import Section

PictureCount = Annotated[int, Ge(1), Le(10**6)]


@dataclass(frozen=True, kw_only=True)
class SceneParams(Section):
    """Number and size of the drawn pictures."""

    image_size: Annotated[int, Ge(32), Le(1024)]  # pixels a side
    train: PictureCount
    val: PictureCount
    most_objects: Annotated[int, Ge(1), Le(20)]  # in one picture, which has 1 to this many, all numbers equally likely
    format: Literal["png", "jpg"]  # PNG keeps every pixel; COCO and VOC have JPEG

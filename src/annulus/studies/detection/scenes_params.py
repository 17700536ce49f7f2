"""Settings of the generated scenes."""

from typing import Annotated, Literal

from pydantic import Field

from annulus.config.params import Params

Pictures = Annotated[int, Field(ge=1, le=10**6)]


class SceneParams(Params):
    """Number and size of the drawn pictures."""

    image_size: int = Field(ge=32, le=1024)  # pixels a side
    train: Pictures
    val: Pictures
    most_objects: int = Field(ge=1, le=20)  # in one picture, which has 1 to this many, all numbers equally likely
    format: Literal["png", "jpg"]  # PNG keeps every pixel; JPEG is what COCO and VOC have

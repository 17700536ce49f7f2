"""A network of timm as an encoder: `timm/resnet18`."""

from jaxtyping import Float, UInt8
from torch import Tensor

from annulus.encoders.named_encoder import NamedEncoder
from annulus.errors import InputError, nearest


class TimmEncoder(NamedEncoder):
    """timm's network of a name, with its transform for evaluation."""

    def __init__(self, name: str, dim: int | None, pretrained: bool) -> None:
        """
        Raises:
            InputError: for a name that timm does not have, or if it cannot provide the pretrained weights.
        """
        import timm

        model = name.removeprefix("timm/")
        if not timm.is_model(model):
            raise InputError(
                f"timm has no model {model!r}; timm.list_models() names them{nearest(model, timm.list_models())}"
            )
        try:
            network = timm.create_model(model, pretrained=pretrained, num_classes=0)
        except (RuntimeError, OSError) as error:
            raise InputError(f"{name} cannot be made by timm: {error}") from error
        super().__init__(name, network, network.head_hidden_size, dim, timm.data.resolve_model_data_config(network))

    @property
    def view_size(self) -> int:
        """Pixels a side of a view in evaluation."""
        return self.config["input_size"][-1]

    def view(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 y x"]:
        """The images in [0, 1], resized and cropped by timm's transform for evaluation."""
        import timm

        transform = timm.data.create_transform(**self.config, normalize=False)
        return super().view(transform(images))

    def prepared(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
        """Normalises the images.

        Raises:
            InputError: for images of another size, if the network takes only one size.
        """
        size = self.config["input_size"][1:]
        if self.network.pretrained_cfg.get("fixed_input_size") and images.shape[2:] != size:
            raise InputError(
                f"images are {' x '.join(map(str, images.shape[2:]))} pixels, and {self.name} takes "
                f"{' x '.join(map(str, size))}; give such views, or annulus.ModuleEncoder(timm.create_model(..., "
                "img_size=SIZE), DIM, HEAD)"
            )
        return super().prepared(images)

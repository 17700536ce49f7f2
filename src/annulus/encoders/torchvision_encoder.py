"""A network of torchvision as an encoder: `torchvision/resnet18`."""

from collections.abc import Sequence
from urllib.error import URLError

from jaxtyping import Float, UInt8
from torch import Tensor, nn

from annulus.encoders.named_encoder import NamedEncoder
from annulus.errors import InputError, nearest

CLASSES = 1000  # outputs of the last layer, which is left out


class TorchvisionEncoder(NamedEncoder):
    """torchvision's classifier of a name without its last layer, with the transform of its default weights."""

    def __init__(self, name: str, dim: int | None, pretrained: bool) -> None:
        """
        Raises:
            InputError: for a name that torchvision does not have, a network with several outputs or without a linear
                last layer, or if the pretrained weights cannot be downloaded.
        """
        from torchvision import models

        model, known = name.removeprefix("torchvision/"), models.list_models(module=models)
        if model not in known:
            raise InputError(
                f"torchvision has no classifier {model!r}; torchvision.models.list_models() names them"
                f"{nearest(model, known)}"
            )
        weights = models.get_model_weights(model).DEFAULT
        try:
            network = models.get_model(model, weights=weights if pretrained else None)
        except (RuntimeError, URLError) as error:
            raise InputError(f"{name} cannot be made by torchvision: {error}") from error
        transform = weights.transforms()
        config = {
            "resize_size": transform.resize_size[0],
            "crop_size": transform.crop_size[0],
            "interpolation": transform.interpolation.value,
            "mean": transform.mean,
            "std": transform.std,
        }
        last, width = _without_classes(network, name, known)
        super().__init__(name, network, width, dim, config)
        self.last = last  # path of the layer that is left out

    @property
    def view_size(self) -> int:
        """Pixels a side of a view in evaluation."""
        return self.config["crop_size"]

    def view(self, images: UInt8[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 y x"]:
        """The images in [0, 1], resized and cropped by torchvision's transform for evaluation."""
        from torchvision.transforms import InterpolationMode
        from torchvision.transforms.functional import center_crop, resize

        size, mode = self.config["resize_size"], InterpolationMode(self.config["interpolation"])
        return super().view(center_crop(resize(images, [size], mode), [self.config["crop_size"]] * 2))


def _without_classes(network: nn.Module, name: str, known: Sequence[str]) -> tuple[str, int]:
    """Replaces the last linear layer by the identity; returns its path and the number of its inputs.

    Raises:
        InputError: for a network without one, or with a second classifier.
    """
    paths = [path for path, layer in network.named_modules() if isinstance(layer, nn.Linear)]
    if not paths or network.get_submodule(paths[-1]).out_features != CLASSES or hasattr(network, "aux_logits"):
        raise InputError(
            f"{name} does not end in one linear layer of classes; give annulus.ModuleEncoder(NETWORK, DIM, HEAD), or "
            f"another name{nearest('resnet18', known)}"
        )
    width = network.get_submodule(paths[-1]).in_features
    network.set_submodule(paths[-1], nn.Identity())
    return paths[-1], width

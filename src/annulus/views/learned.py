"""A view generator's two views of an image, and the split that a generator in a file gives.

Source: Tian et al. 2020, arXiv:2005.10243, Sections 6.1, 6.2 and 6.3.
"""

import hashlib
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Self, get_type_hints

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.errors import InputError
from annulus.files.packed import Damaged, check_about, read_packed, write_packed
from annulus.views.flows import random_flow
from annulus.views.spaces import LEVEL, SPACES

Parts = tuple[Float[Tensor, "b 1 h w"], Float[Tensor, "b 2 h w"]]


@dataclass(frozen=True)
class GeneratorConfig:
    """Settings that rebuild a view generator, without its weights."""

    space: str  # whose channels it takes
    changes: str  # all channels, or the rest: those behind the first one
    couplings: int
    hidden: int  # width of a coupling's network
    volume_preserving: bool


class ViewGenerator(nn.Module):
    """An invertible flow over the channels of a colour space; its first channel, and the other two, are the views.

    Where it changes the `rest` only, the first view is the space's own first channel.
    """

    def __init__(self, config: GeneratorConfig, seed: int) -> None:
        """With random weights; the same seed gives the same ones."""
        super().__init__()
        self.config = config
        channels = {"all": 3, "rest": 2}[config.changes]
        self.flow = random_flow(channels, config.couplings, config.hidden, config.volume_preserving, seed)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        """Both views of RGB images in [0, 1]."""
        planes = SPACES[self.config.space].of_rgb(images)
        planes = planes.contiguous(memory_format=torch.channels_last)  # a third of the time on a CPU
        if self.config.changes == "all":
            return self.flow(planes).split([1, 2], dim=1)
        return planes[:, :1], self.flow(planes[:, 1:])


def save_generator(path: Path, generator: ViewGenerator) -> None:
    """
    Raises:
        InputError: when the disk is full or the folder cannot be written.
    """
    write_packed(path, generator.state_dict(), asdict(generator.config))


def load_generator(path: Path) -> ViewGenerator:
    """The generator that `save_generator` wrote, frozen.

    Raises:
        InputError: when the file is missing or holds no view generator.
    """
    tensors, about = read_packed(path)
    check_about(path, about, get_type_hints(GeneratorConfig), _writer(path))
    try:
        generator = ViewGenerator(GeneratorConfig(**about), seed=0)  # weights that the file's replace
        generator.load_state_dict(tensors)
    except (TypeError, LookupError, RuntimeError) as error:
        raise Damaged(path, f"holds no view generator ({' '.join(str(error).split())[:200]})", _writer(path)) from error
    if not all(weight.isfinite().all() for weight in generator.parameters()):
        raise Damaged(path, "a weight is NaN or infinite", _writer(path))
    return generator.eval().requires_grad_(False)


def hash_generator(path: Path) -> str:
    """SHA-256 of a generator's file.

    Raises:
        InputError: when the file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); run `dvc repro {_writer(path)}`") from error


def _writer(path: Path) -> str:
    """The stage that writes data/STUDY/generators/NAME/SEED.safetensors."""
    match path.parts:
        case [*_, study, "generators", name, _]:
            return f"stages/{study}/dvc.yaml:generator@{name}"
        case _:
            return "stages/view_learning/dvc.yaml:generator"


@dataclass(frozen=True)
class LearnedSplit:
    """The two views that the generator in a file makes of an image; the generator is frozen."""

    generator: str  # its file
    sha256: str  # of the file: other weights are another split

    names = "g1", "g23"
    planes = 1, 2  # channels of the parts
    least = LEVEL

    @classmethod
    def of(cls, generator: Path) -> Self:
        """The split of the file as it is now.

        Raises:
            InputError: when the file cannot be read.
        """
        return cls(str(generator), hash_generator(generator))

    @property
    def space(self) -> str:
        """The colour space whose channels the generator takes."""
        return _loaded(self, torch.device("cpu")).config.space

    @torch.no_grad()
    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        with torch.autocast(images.device.type, enabled=False):  # half precision would leave few shades
            return _loaded(self, images.device)(images.float())


@lru_cache(maxsize=64)
def _loaded(split: LearnedSplit, device: torch.device) -> ViewGenerator:
    path = Path(split.generator)
    if (found := hash_generator(path)) != split.sha256:
        raise InputError(
            f"{path} has other weights than those that were trained with (SHA-256 {found[:12]}, expected "
            f"{split.sha256[:12]}); train the encoder again"
        )
    return load_generator(path).to(device)

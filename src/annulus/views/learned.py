"""View generators, which compute two views of an image, and `LearnedSplit`, the split by a generator in a file.

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

    space: str  # colour space of its input
    changes: str  # "all" channels, or the "rest": all behind the first one
    couplings: int
    hidden: int  # width of a coupling's network
    volume_preserving: bool


class ViewGenerator(nn.Module):
    """An invertible flow over the channels of a colour space. One view is its first output channel, one the others.

    If it changes the `rest` only, the first view is the space's first channel.
    """

    def __init__(self, config: GeneratorConfig, seed: int) -> None:
        """Builds the flow with random weights; the same seed gives the same weights."""
        super().__init__()
        self.config = config
        channels = {"all": 3, "rest": 2}[config.changes]
        self.flow = random_flow(channels, config.couplings, config.hidden, config.volume_preserving, seed)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        """Computes both views of RGB images in [0, 1]."""
        planes = SPACES[self.config.space].from_rgb(images)
        planes = planes.contiguous(memory_format=torch.channels_last)  # a third of the time on a CPU
        if self.config.changes == "all":
            return self.flow(planes).split([1, 2], dim=1)
        return planes[:, :1], self.flow(planes[:, 1:])


def save_generator(path: Path, generator: ViewGenerator) -> None:
    """Writes weights and settings of a generator.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    write_packed(path, generator.state_dict(), asdict(generator.config))


def load_generator(path: Path) -> ViewGenerator:
    """Loads a file of `save_generator`; the generator is frozen.

    Raises:
        InputError: if the file is missing or does not hold a view generator.
    """
    tensors, about = read_packed(path)
    check_about(path, about, get_type_hints(GeneratorConfig), _writer(path))
    try:
        generator = ViewGenerator(GeneratorConfig(**about), seed=0)  # its weights are replaced
        generator.load_state_dict(tensors)
    except (TypeError, LookupError, RuntimeError) as error:
        raise Damaged(
            path, f"does not hold a view generator ({' '.join(str(error).split())[:200]})", _writer(path)
        ) from error
    if not all(weight.isfinite().all() for weight in generator.parameters()):
        raise Damaged(path, "a weight is NaN or infinite", _writer(path))
    return generator.eval().requires_grad_(False)


def hash_generator(path: Path) -> str:
    """SHA-256 of a generator's file.

    Raises:
        InputError: if the file cannot be read.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}); run `dvc repro {_writer(path)}`") from error


def _writer(path: Path) -> str:
    """Name of the stage that writes the file data/generators/NAME/SEED.safetensors."""
    match path.parts:
        case [*_, "generators", name, _]:
            return f"generator@{name}"
        case _:
            return "generator"


@dataclass(frozen=True)
class LearnedSplit:
    """The two views of an image by a frozen generator in a file."""

    generator: str  # path of the file
    sha256: str  # of the file, since other weights are another split

    names = "g1", "g23"
    planes = 1, 2  # channels of the parts
    least = LEVEL

    @classmethod
    def of(cls, generator: Path) -> Self:
        """Returns the split by the current content of the file.

        Raises:
            InputError: if the file cannot be read.
        """
        return cls(str(generator), hash_generator(generator))

    @property
    def space(self) -> str:
        """Colour space of the generator's input."""
        return _loaded(self, torch.device("cpu")).config.space

    @torch.no_grad()
    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        with torch.autocast(images.device.type, enabled=False):  # half precision has few shades
            return _loaded(self, images.device)(images.float())


@lru_cache(maxsize=64)
def _loaded(split: LearnedSplit, device: torch.device) -> ViewGenerator:
    path = Path(split.generator)
    if (sha256 := hash_generator(path)) != split.sha256:
        raise InputError(
            f"{path} has other weights than in the encoder's training (SHA-256 {sha256[:12]}, expected "
            f"{split.sha256[:12]}); train the encoder again"
        )
    return load_generator(path).to(device)

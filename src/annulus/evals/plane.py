"""Features as places in a plane: by principal components or by UMAP."""

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from annulus.device.device import threads
from annulus.errors import InputError, require
from annulus.settings import Section

NEIGHBOURS = 15  # of UMAP, its default


@dataclass(frozen=True)
class MapSettings(Section):
    """Settings of the map of features: by their two principal components, or by UMAP (extra annulus-ssl[umap])."""

    by: Literal["pca", "umap"]

    def check_installed(self) -> None:
        """Checks that UMAP is installed if the map needs it.

        Raises:
            InputError: if it is not installed.
        """
        if self.by == "umap":
            try:
                require("map.by: umap", "umap", ["umap"])
            except ModuleNotFoundError as error:
                raise InputError(f"{error}; or take map.by: pca") from error

    def plane(self, features: Float[Tensor, "n d"], random: torch.Generator) -> Float[Tensor, "n 2"]:
        """Computes a place for each image."""
        return principal_plane(features) if self.by == "pca" else umap_plane(features, random)


def principal_plane(features: Float[Tensor, "n d"]) -> Float[Tensor, "n 2"]:
    """Coordinates along the two directions of largest variance; the first is the wider one.

    A component's largest weight is positive, so the same features give the same picture. With one feature the second
    coordinate is 0.
    """
    features = F.pad(features, (0, max(0, 2 - features.shape[1])))
    centred = (features - features.mean(dim=0)).double()
    _, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    axes = axes[:, -2:].flip(1)
    return centred @ (axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign())


def umap_plane(features: Float[Tensor, "n d"], random: torch.Generator) -> Float[Tensor, "n 2"]:
    """Coordinates by UMAP of cosine similarities (arXiv:1802.03426). Large distances carry little information.

    UMAP has no map of fewer than three images, of one feature, or of equal images: these get `principal_plane`.
    """
    if len(features) < 3 or features.shape[1] < 2 or (features == features[0]).all():
        return principal_plane(features)
    from umap import UMAP  # here: it is in the extra annulus-ssl[umap], and compiles for seconds

    seed = int(torch.randint(2**31, (), generator=random))
    reducer = UMAP(min(NEIGHBOURS, len(features) - 1), metric="cosine", init="pca", random_state=seed, n_jobs=1)
    with threads(torch.get_num_threads()):  # numba would set this process's threads to the number of cores, for good
        return torch.from_numpy(reducer.fit_transform(features.numpy())).double()

"""Correlations between class scores over the test images, of a student beside its teacher."""

import io
from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from torch import Tensor

from annulus.files.images import load_images
from annulus.files.results import write_bytes
from annulus_lab.studies.distillation.classifiers.saved import load_classifier
from annulus_lab.studies.distillation.classifiers.training import check_images, scores

CPU = torch.device("cpu")


def correlations(scores: Float[Tensor, "n c"]) -> Float[Tensor, "c c"]:
    """Correlation of the scores of each pair of classes over the images; 0 for a class with constant scores."""
    centred = scores.double() - scores.double().mean(dim=0)
    unit = centred / centred.norm(dim=0).clamp_min(torch.finfo(torch.float64).tiny)
    return unit.T @ unit


def difference(teacher: Float[Tensor, "n c"], student: Float[Tensor, "n c"]) -> Float[Tensor, "c c"]:
    """Correlations of the teacher minus correlations of the student; 0 for equal correlations.

    Source: Tian et al. 2020, arXiv:1910.10699, Figure 2.
    """
    return correlations(teacher) - correlations(student)


def differences(test: Path, teacher: Path, students: Mapping[str, Path]) -> dict[str, Float[Tensor, "c c"]]:
    """Difference of each student from the teacher, on these images.

    Raises:
        InputError: when a network has other classes than the images.
    """
    images, networks = load_images(test), {name: load_classifier(path) for name, path in students.items()}
    teacher_network = load_classifier(teacher)
    for network in (teacher_network, *networks.values()):
        check_images(network, images, "test")
    teacher_scores = scores(teacher_network, images, CPU)
    return {name: difference(teacher_scores, scores(network, images, CPU)) for name, network in networks.items()}


def save_picture(differences: Mapping[str, Float[Tensor, "c c"]], path: Path) -> None:
    """Writes a PNG with a panel for each student; its heading has the mean absolute difference."""
    figure = Figure(figsize=(3.0 * len(differences), 3.3), layout="constrained")
    panels = figure.subplots(1, len(differences), squeeze=False)[0]
    for panel, (name, matrix) in zip(panels, differences.items(), strict=True):
        image = panel.imshow(matrix.numpy(), cmap="RdBu", vmin=-1, vmax=1, interpolation="nearest")
        panel.set_title(f"{name}: {matrix.abs().mean():.3f}", fontsize=9)
        panel.set_xticks([])
        panel.set_yticks([])
    figure.colorbar(image, ax=list(panels), label="teacher less student", shrink=0.8)
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", dpi=110)
    write_bytes(path, drawn.getvalue())

"""Correlations of scores against NumPy's, and their picture."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from PIL import Image

from annulus.datasets.shapes import draw_shapes
from annulus.errors import InputError
from annulus.files.images import ImageSet, save_images
from annulus.files.store import Resident
from annulus_lab.studies.distillation import correlation
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.saved import save_classifier
from annulus_lab.studies.distillation.correlation import correlations, difference, differences, save_picture


def test_correlations_are_numpy_s_and_do_not_see_scale_or_offset():
    generator = torch.Generator().manual_seed(0)
    teacher, student = (torch.randn(50, 4, generator=generator) for _ in range(2))
    expected = np.corrcoef(teacher.double().numpy().T)
    np.testing.assert_allclose(correlations(teacher), expected, atol=1e-12)
    np.testing.assert_allclose(difference(3 * teacher + 5, teacher), np.zeros((4, 4)), atol=1e-6)
    np.testing.assert_allclose(difference(teacher, student), expected - np.corrcoef(student.double().T), atol=1e-6)
    assert correlations(torch.ones(5, 2)).isfinite().all()


def test_differences_are_of_the_teacher_minus_each_student_on_the_test_images(tmp_path):
    rows, pixels, scores = torch.arange(20), draw_shapes(np.arange(20), 8, 0), {}
    save_images(tmp_path / "test.safetensors", ImageSet(Resident(pixels), rows % 4, rows, tuple("abcd")))
    files = {name: tmp_path / f"{name}.safetensors" for name in ("teacher", "alone", "crd", "other")}
    for seed, (name, path) in enumerate(files.items()):
        network = build_classifier("resnet8", 5 if name == "other" else 4, seed).eval()
        save_classifier(network, path)
        scores[name] = network(pixels / 255).detach()
    students = {name: files[name] for name in ("alone", "crd")}
    actual = differences(tmp_path / "test.safetensors", files["teacher"], students)
    assert list(actual) == ["alone", "crd"]
    for name, matrix in actual.items():
        expected = np.corrcoef(scores["teacher"].double().T) - np.corrcoef(scores[name].double().T)
        np.testing.assert_allclose(matrix, expected, atol=1e-4)
        assert matrix.abs().max() > 0.01
    for teacher, student in (("other", "crd"), ("teacher", "other")):
        with pytest.raises(InputError, match="scores 5 classes, and the test images have 4"):
            differences(tmp_path / "test.safetensors", files[teacher], {"one": files[student]})


def test_the_picture_has_a_panel_for_each_student_headed_by_its_mean_absolute_difference(tmp_path, monkeypatch):
    figures, sizes = [], []
    monkeypatch.setattr(correlation, "Figure", lambda **options: figures.append(Figure(**options)) or figures[-1])
    for names in (["alone"], ["alone", "crd"]):
        save_picture(dict.fromkeys(names, torch.tensor([[0.0, 0.5], [-0.5, 0.0]])), tmp_path / "one.png")
        sizes.append(Image.open(tmp_path / "one.png").size)
    assert [panel.get_title() for panel in figures[1].axes[:2]] == ["alone: 0.250", "crd: 0.250"]
    assert [panel.images[0].get_clim() for panel in figures[1].axes[:2]] == [(-1, 1)] * 2, "one scale for all"
    assert sizes[1][0] > 1.5 * sizes[0][0]
    assert sizes[1][1] == sizes[0][1]


def test_the_picture_is_drawn_before_its_file_is_opened(tmp_path, monkeypatch):
    """A kill during the drawing leaves no file."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: file.write(b"%d" % len(list(tmp_path.iterdir()))))
    save_picture({"alone": torch.eye(3)}, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes() == b"0"

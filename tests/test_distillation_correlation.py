"""Correlations of scores against NumPy's, and their picture."""

import numpy as np
import torch
from matplotlib.figure import Figure
from PIL import Image

from annulus_lab.studies.distillation import correlation
from annulus_lab.studies.distillation.correlation import correlations, difference, save_picture


def test_correlations_are_numpy_s_and_do_not_see_scale_or_offset():
    generator = torch.Generator().manual_seed(0)
    teacher, student = (torch.randn(50, 4, generator=generator) for _ in range(2))
    expected = np.corrcoef(teacher.double().numpy().T)
    np.testing.assert_allclose(correlations(teacher), expected, atol=1e-12)
    np.testing.assert_allclose(difference(3 * teacher + 5, teacher), np.zeros((4, 4)), atol=1e-6)
    np.testing.assert_allclose(difference(teacher, student), expected - np.corrcoef(student.double().T), atol=1e-6)
    assert correlations(torch.ones(5, 2)).isfinite().all()


def test_the_picture_has_a_panel_for_each_student_headed_by_its_mean_absolute_difference(tmp_path, monkeypatch):
    figures, sizes = [], []
    monkeypatch.setattr(correlation, "Figure", lambda **options: figures.append(Figure(**options)) or figures[-1])
    for names in (["alone"], ["alone", "crd"]):
        save_picture(dict.fromkeys(names, torch.tensor([[0.0, 0.5], [-0.5, 0.0]])), tmp_path / "one.png")
        sizes.append(Image.open(tmp_path / "one.png").size)
    assert [panel.get_title() for panel in figures[1].axes[:2]] == ["alone: 0.250", "crd: 0.250"]
    assert sizes[1][0] > 1.5 * sizes[0][0]
    assert sizes[1][1] == sizes[0][1]


def test_the_picture_is_drawn_before_its_file_is_opened(tmp_path, monkeypatch):
    """A kill during the drawing leaves no file."""
    monkeypatch.setattr(Figure, "savefig", lambda figure, file, **_: file.write(b"%d" % len(list(tmp_path.iterdir()))))
    save_picture({"alone": torch.eye(3)}, tmp_path / "one.png")
    assert (tmp_path / "one.png").read_bytes() == b"0"

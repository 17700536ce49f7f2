"""Sheets of pictures in the page: they are small, and a damaged or huge file gives one sentence."""

import os
import re

import pytest
from PIL import Image
from report_root import with_lock

from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.page.sections import DRAWINGS, MAP, FigureDrawing, Map, drawings, embedding_map
from annulus_lab.report.page.sheets import SHEETS, Sheet, sheets
from annulus_lab.report.papers.metrics import Metrics

NAME = next(iter(SHEETS))


@pytest.fixture
def path(tmp_path):
    path = tmp_path / metrics_path(NAME)
    path.parent.mkdir(parents=True)
    return path


def load(path, root):
    return next(sheet for name, sheet in zip(SHEETS, sheets(Metrics(root)), strict=True) if name == NAME)


def test_a_large_picture_comes_into_the_page_as_a_small_one(path, tmp_path):
    Image.effect_noise((1500, 1000), 80).convert("RGB").save(path)
    sheet = load(path, tmp_path)
    assert isinstance(sheet, Sheet)
    assert path.stat().st_size > 1_200_000
    assert len(sheet.source) < 500_000


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda path: Image.new("1", (5_000, 5_000)).save(path), "5000 x 5000 pixels, more than the page takes"),
        (lambda path: Image.new("L", (99, 99)).save(path) or path.write_bytes(path.read_bytes()[:60]), "no PNG file"),
        (lambda path: path.write_bytes(b"text"), "no PNG file"),
        (os.mkfifo, "no PNG file that can be read: .*a pipe or a device"),
        (lambda path: None, "is not there"),
    ],
)
def test_a_damaged_sheet_is_one_sentence_and_never_a_hang(path, tmp_path, damage, sentence):
    damage(path)
    sheet = load(path, tmp_path)
    assert sheet.reason.startswith(f"{metrics_path(NAME)} ")
    assert re.search(sentence, sheet.reason)


def test_the_annulus_and_its_annealing_stand_in_the_page_and_one_that_is_too_large_or_missing_does_not(tmp_path):
    annulus, annealing = (tmp_path / "metrics" / name for name in DRAWINGS)
    annulus.parent.mkdir(parents=True)
    annulus.write_text("<svg>" + " " * 500_000)
    annealing.write_text('<svg d="M152.3 122.9h0"/>')
    large, drawing = drawings(tmp_path)
    assert large.reason == "metrics/figures/annulus.svg has more than 400000 bytes"
    assert isinstance(drawing, FigureDrawing)
    assert drawing.source == "data:image/svg+xml,%3Csvg d=%22M152 123h0%22/%3E"
    annealing.unlink()
    missing = drawings(tmp_path)[1]
    assert missing.command == "annulus picture --annealing --svg metrics/figures/annealing.svg"


def test_the_map_has_its_size_and_one_that_is_none_is_a_sentence(tmp_path):
    path = tmp_path / "metrics" / MAP
    path.parent.mkdir(parents=True)
    assert embedding_map(Metrics(tmp_path)).reason == f"metrics/{MAP} is not there"
    path.write_text('<svg viewBox="0 0 640 460"><title id="t">A map of the embeddings, coloured by class</title></svg>')
    sheet = embedding_map(Metrics(tmp_path))
    assert isinstance(sheet, Map)
    assert (sheet.width, sheet.height, sheet.colours) == (640, 460, "classes")
    assert sheet.source.startswith("data:image/svg+xml,%3Csvg ")
    for text, sentence in (("<svg>", "is no map of this version"), (" " * 500_000, "has more than 400000 bytes")):
        path.write_text(text)
        assert embedding_map(Metrics(tmp_path)).reason == f"metrics/{MAP} {sentence}"


def test_a_map_of_another_run_than_dvc_lock_names_is_not_shown(tmp_path):
    name, drawing = f"metrics/{MAP}", '<svg viewBox="0 0 640 460"/>'
    files = with_lock({"params.yaml": "sampler: ring\nsamplers: {ring: {}}\n", name: drawing})
    (tmp_path / name).parent.mkdir(parents=True)
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert isinstance(embedding_map(Metrics(tmp_path)), Map)
    (tmp_path / name).write_text(drawing.replace("640", "320"))
    assert embedding_map(Metrics(tmp_path)).reason == f"{name} is of another run than dvc.lock names"

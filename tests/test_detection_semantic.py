"""A class for each pixel of scenes, and a decoder of frozen maps on them."""

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from by_path import script
from declared import ROOT
from detection_cases import boxed
from detector_cases import beside_transfer, encoder
from PIL import Image
from stated import stated_params

from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.files.images import IGNORED
from annulus_lab.studies.detection import detector_runs
from annulus_lab.studies.detection.annotated import Annotated, Category, Picture, decode_mask
from annulus_lab.studies.detection.detector_runs import run_encoders
from annulus_lab.studies.detection.layouts import write_scenes
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.semantic import evaluate_segmentation, semantic
from annulus_lab.studies.detection.splits import read_splits
from annulus_lab.studies.shared.study import MainStudy

SEED = 0


@pytest.fixture
def scene(tmp_path):
    """A picture of 24 x 16 pixels with a large object, a small one on it, and a crowd below the large one."""
    pixels = np.arange(16 * 24 * 3, dtype=np.uint8).reshape(16, 24, 3)
    Image.fromarray(pixels).save(tmp_path / "scene.png")
    boxes = ((8, 4, 2, 2), 9, False), ((6, 2, 8, 10), 5, False), ((0, 8, 24, 8), 5, True)
    things = tuple(boxed(*box, category=category, crowd=crowd, shape=(16, 24)) for box, category, crowd in boxes)
    picture = Picture(1, tmp_path / "scene.png", 24, 16, things, (), ())
    categories = Category(5, "disc", None), Category(9, "ring", None)
    small, large, crowd = (decode_mask(one, 16, 24) for one in things)
    truth = np.where(small, 2, np.where(large, 1, np.where(crowd, IGNORED, 0)))
    return Annotated("masks", (picture,), categories, None, None, None), pixels, truth


def test_a_pixel_has_the_class_of_the_smaller_object_and_the_middle_is_kept(scene):
    annotated, pixels, truth = scene
    images = semantic(annotated, 16)
    middle = slice(4, 20)
    assert torch.equal(images.images.take(torch.tensor([0]))[0], torch.from_numpy(pixels[:, middle]).permute(2, 0, 1))
    assert np.array_equal(images.masks[0], truth[:, middle])
    smaller = semantic(annotated, 8)
    assert set(smaller.masks.unique().tolist()) == {0, 1, 2, IGNORED}, "no class is mixed from two"


def test_annotations_that_no_decoder_can_learn_are_refused(scene):
    with pytest.raises(InputError, match="annotations of kind boxes have no masks to segment; take masks or lvis"):
        semantic(replace(scene[0], kind="boxes"), 16)
    many = tuple(Category(number, str(number), None) for number in range(300))
    with pytest.raises(InputError, match="300 categories; a mask numbers at most 254"):
        semantic(replace(scene[0], categories=many), 16)


def named(settings, key):
    return {"key": list(key)}


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The study at scale tiny in an empty folder, its settings, its scenes, and encoders for each variant."""
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "stages/detection/params.yaml").read_text().replace("scale: demo", "scale: tiny", 1)
    own = beside_transfer(tmp_path)
    own.write_text(text)
    study = MainStudy(stated_params(tmp_path / "root.yaml"), own)
    files = script("stages/detection/settings.py").main(study)
    settings = files["segments"] | {"seeds": [SEED, SEED + 1]}
    write_scenes(tmp_path / "scenes", settings["kind"], study.section("drawn", SceneParams), 0)
    for number, variant in enumerate(("main", "uniform", "untrained")):
        for seed in settings["seeds"]:
            save_encoder(encoder(seed=number), tmp_path / variant / f"{seed}.safetensors")
    return settings, files["table"]


def test_the_numbers_are_those_of_all_pictures_and_draws_are_shared(tiny, tmp_path):
    settings = tiny[0] | {"scenes": tmp_path / "scenes", "encoder": tmp_path / f"main/{SEED}.safetensors"}
    first, again = (evaluate_segmentation(settings, ("main", SEED)) for _ in range(2))
    assert all(
        torch.equal(torch.as_tensor(first[name]), torch.as_tensor(again[name])) for name in ("loss", "predicted")
    )
    assert set(first["ap"]) == {"mean_iou_percent", "pixel_accuracy_percent"}
    for name, value in first["ap"].items():
        draws = first["resampled"][name]
        assert (draws[0], len(draws)) == (pytest.approx(value), 101)
        assert np.std(draws[1:]) > 0
    _, test = read_splits(tmp_path / "scenes", "masks", False)
    masks = semantic(test, settings["segments"]["side"]).masks[: len(first["predicted"])]
    assert first["predicted"].shape == masks.shape


def test_stage_and_table(tiny, tmp_path):
    settings, table = tiny
    paths = {name: tmp_path / name for name in ("scenes", "main", "uniform", "untrained")}
    grid = tmp_path / "segments.png"
    (tmp_path / "scenes/scenes.json").write_text('{"root": null}')
    results = script("stages/detection/segments.py").main(settings, Namespace(**paths, pictures=grid))
    numbers = results.metrics
    assert numbers["main_mean_iou_percent"] == pytest.approx(
        np.mean([numbers[f"main_{seed}_mean_iou_percent"] for seed in settings["seeds"]])
    )
    gain = numbers["main_mean_iou_percent"] - numbers["untrained_mean_iou_percent"]
    assert numbers["main_over_untrained_mean_iou_percent"] == pytest.approx(gain)
    assert Image.open(grid).width > 6 * 160
    assert table["tasks"][-1] == "segments"


def test_a_stage_that_goes_on_with_another_seed_or_encoder_keeps_the_rest(tiny, tmp_path):
    (tmp_path / "scenes/scenes.json").write_text('{"root": null}')
    folders = {name: tmp_path / name for name in ("main", "uniform", "untrained")}

    def checkpoint_folders(*seeds: int) -> set[Path]:
        settings = tiny[0] | {"seeds": list(seeds)}
        _, _, tasks = run_encoders("segments", settings, tmp_path / "scenes", folders, named)
        return {checkpoint.folder for checkpoint in tasks.checkpoints}

    one, both = checkpoint_folders(SEED), checkpoint_folders(SEED, SEED + 1)
    assert one < both
    weights = tmp_path / f"untrained/{SEED}.safetensors"
    before = weights.read_bytes()
    save_encoder(encoder(seed=2, mean=(0.1, 0.2, 0.3)), weights)
    assert weights.read_bytes() == before, "of other images, with their statistics beside"
    assert len(checkpoint_folders(SEED, SEED + 1) & both) == 5


def test_the_code_of_a_task_is_that_of_the_function_that_computes_it(tiny, tmp_path, monkeypatch):
    (tmp_path / "scenes/scenes.json").write_text('{"root": null}')
    files: list[Path] = []
    monkeypatch.setattr(detector_runs, "hash_code", lambda file: files.append(file) or {})
    run_encoders("segments", tiny[0] | {"seeds": [SEED]}, tmp_path / "scenes", {"main": tmp_path / "main"}, named)
    assert files == [Path(__file__)], "an edit of the decoder does not go on with its old results"


def test_a_task_without_masks_is_refused(tmp_path):
    text = (ROOT / "stages/detection/params.yaml").read_text().replace("  task: coco\n", "  task: voc\n", 1)
    own = beside_transfer(tmp_path)
    own.write_text(text)
    study = MainStudy(stated_params(tmp_path / "root.yaml"), own)
    with pytest.raises(InputError, match="scenes of voc have no masks; take coco or lvis"):
        script("stages/detection/settings.py").main(study)

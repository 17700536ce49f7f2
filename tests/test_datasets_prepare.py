import argparse
import hashlib
import logging
from dataclasses import replace
from pathlib import Path

import numpy as np
import prepare
import pytest
import torch
from PIL import Image

from annulus.datasets import downloads, parts
from annulus.datasets import folder as folder_module
from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import prepare_images
from annulus.datasets.settings import DownloadSettings, FolderSettings, GeneratedSettings, PhotosSettings, PrepareBudget
from annulus.errors import InputError
from annulus.files.images import load_images

SPLITS = ("train", "validation", "test")
SHAPES = GeneratedSettings(image_size=16, view_size=16, validation_fraction=0.1)
ALL = PrepareBudget(train_images=None, test_images=None, unlabelled_images=None)


def scale(train: int | None, test: int | None) -> PrepareBudget:
    return PrepareBudget(train_images=train, test_images=test, unlabelled_images=None)


def folder_params(root: object, bad: int = 0, fraction: float = 0.1) -> FolderSettings:
    settings = {"root": str(root), "image_size": 8, "view_size": 8, "validation_fraction": fraction}
    return FolderSettings(**settings, max_bad_files=bad, store="memory")


def counts(prepared) -> dict[str, list[int]]:
    return {split: torch.bincount(getattr(prepared, split).labels).tolist() for split in SPLITS}


@pytest.fixture
def root(tmp_path, generator) -> Path:
    """Three classes with 20 training and 10 test images each; a class's images differ from each other."""
    for split, count in (("train", 20), ("test", 10)):
        for label, name in enumerate(("ant", "bee", "cat")):
            (tmp_path / "own" / split / name).mkdir(parents=True)
            for number in range(count):
                image = torch.randint(256, (10, 10, 3), generator=generator, dtype=torch.uint8).numpy()
                image[:, :, 0] = label
                Image.fromarray(image).save(tmp_path / "own" / split / name / f"{number}.png")
    return tmp_path / "own"


@pytest.mark.usefixtures("untouched_global_randomness")
def test_shapes_are_balanced_in_every_part_and_rows_are_disjoint_and_the_seed_decides():
    first, again, other = (prepare_images("shapes", SHAPES, scale(1000, 200), seed) for seed in (3, 3, 4))
    assert counts(first) == {"train": [9] * 100, "validation": [1] * 100, "test": [2] * 100}
    assert sorted(first.train.rows.tolist() + first.validation.rows.tolist()) == list(range(1000))
    assert first.test.rows.tolist() == list(range(200))
    assert [getattr(first, split).digest for split in SPLITS] == [getattr(again, split).digest for split in SPLITS]
    assert first.validation.rows.tolist() != other.validation.rows.tolist()
    assert first.test.digest != other.test.digest


def test_more_shapes_begin_with_the_fewer_ones_and_parts_are_packed_as_before_there_were_masks(tmp_path):
    """An empty validation part has the others' shape, too."""
    params = replace(SHAPES, validation_fraction=0.0)
    few, many = (prepare_images("shapes", params, scale(count, 100), seed=0) for count in (100, 200))
    assert torch.equal(many.train.images.pixels[:100], few.train.images.pixels)
    save_prepared(tmp_path / "images", few)
    assert load_images(tmp_path / "images" / "validation.safetensors").images.pixels.shape == (0, 3, 16, 16)
    content = (tmp_path / "images" / "test.safetensors").read_bytes()
    assert hashlib.sha256(content).hexdigest()[:16] == "ebfb9e2272c3a3f1"
    assert load_images(tmp_path / "images" / "test.safetensors").masks is None


def test_a_limited_folder_is_even_and_only_the_chosen_files_are_read(root, monkeypatch):
    read, decode_files = [], folder_module.decode_files
    monkeypatch.setattr(
        folder_module, "decode_files", lambda files, *rest: read.extend(files) or decode_files(files, *rest)
    )
    prepared = prepare_images("folder", folder_params(root, fraction=0.2), scale(30, 9), seed=0)
    assert len(read) == 39
    assert counts(prepared) == {"train": [8] * 3, "validation": [2] * 3, "test": [3] * 3}
    files = [root / "train" / name / f"{number}.png" for name in ("ant", "bee", "cat") for number in range(20)]
    for part in (prepared.train, prepared.validation):  # rows are places in the sorted folder
        for image, label, row in zip(part.images.pixels, part.labels, part.rows, strict=True):
            with Image.open(files[row]) as stored:
                expected = np.asarray(stored.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
            np.testing.assert_array_equal(image, expected)
            assert label == row // 20


def test_more_asked_than_there_are_takes_all_and_says_so(root, caplog):
    with caplog.at_level(logging.INFO, "annulus"):
        prepared = prepare_images("folder", folder_params(root), scale(1000, 30), seed=0)
    assert len(prepared.train) + len(prepared.validation) == 60
    assert "train_images is 1000 and there are 60; taking all" in caplog.text
    assert "test_images" not in caplog.text
    assert "images are taken" not in caplog.text


def test_fewer_than_there_are_are_taken_and_it_says_so(root, caplog):
    with caplog.at_level(logging.INFO, "annulus"):
        prepare_images("folder", folder_params(root), scale(30, 30), seed=0)
    assert caplog.messages == ["train: 30 of 60 images are taken; scales.SCALE.prepare limits them (null: all)"]


def test_bad_files_within_the_limit_are_left_out_named_and_counted(root, caplog):
    (root / "train" / "ant" / "3.png").write_bytes(b"")
    (root / "test" / "cat" / "9.png").write_bytes(b"no image")
    with caplog.at_level(logging.WARNING, "annulus"):
        prepared = prepare_images("folder", folder_params(root, bad=2), ALL, seed=0)
    assert "2 of 90 image files cannot be read: train/ant/3.png (empty file), test/cat/9.png" in caplog.text
    assert prepared.metrics()["bad_files"] == 2
    assert 3 not in prepared.train.rows.tolist() + prepared.validation.rows.tolist()
    assert prepared.test.rows.tolist() == list(range(29))


def test_a_folder_with_too_little_is_refused(root):
    many = (
        r"22 of 90 image files cannot be read: train/bee/0.png \(empty file\), .*train/bee/9.png "
        r"\(empty file\) and 12 more. max_bad_files is 21: .* or raise datasets.folder.max_bad_files"
    )
    for place, count, bad, test_images, sentence in (
        ("test/ant", 0, 0, 2, "test_images 2 is fewer than the 3 classes; raise it in scales.SCALE.prepare, or"),
        ("test/ant", 10, 10, None, r"of ant; every class needs one, and test/ant/0.png \(emp.* cannot be read: rep"),
        ("train/bee", 12, 21, None, many),
    ):
        for number in range(count):
            (root / place / f"{number}.png").write_bytes(b"")
        with pytest.raises(InputError, match=sentence):
            prepare_images("folder", folder_params(root, bad=bad), scale(None, test_images), seed=0)


def test_a_relative_root_lies_in_dvc_s_project_and_one_may_begin_with_the_home_folder(root, monkeypatch, tmp_path):
    expected = prepare_images("folder", folder_params(root), scale(9, 9), seed=0).test.digest
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder, project, name in ((".", None, "own"), ("elsewhere", ".", "own"), (".", "elsewhere", "~/own")):
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.delenv("DVC_ROOT", raising=False)
        if project is not None:
            monkeypatch.setenv("DVC_ROOT", str(tmp_path / project))
        assert prepare_images("folder", folder_params(name), scale(9, 9), seed=0).test.digest == expected


def test_a_download_is_looked_for_in_its_root(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(downloads, "open_download", lambda *arguments: calls.append(arguments) or {})
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    params = DownloadSettings(root="data/downloads", image_size=96, view_size=96, validation_fraction=0.1)
    for scale in (ALL, replace(ALL, unlabelled_images=0)):
        with pytest.raises(KeyError):
            prepare_images("stl10", params, scale, seed=0)
    assert calls == [("stl10", tmp_path / "data/downloads", 96, unlabelled) for unlabelled in (True, False)]


@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("", "'' is empty"),
        (" ", "' ' is empty"),
        ("x" * 300, r"'x{10,}\.\.\.x{10,}' cannot be opened \(File name too long\)"),
        ("loop/inside", r"'loop/inside' cannot be opened \(Too many levels of symbolic links\)"),
        ("~nobody-of-this-name/x", "cannot be opened .*home directory"),
        ("a\0b", r"'a\\x00b' cannot be opened \(.*embedded null .*\)"),
    ],
)
def test_a_root_that_no_path_can_be_is_refused(place, reason, monkeypatch, tmp_path):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / "loop").symlink_to("loop")
    download = DownloadSettings(root=place, image_size=16, view_size=16, validation_fraction=0.1)
    sizes = {"image_size": 16, "view_size": 16, "validation_fraction": 0.1, "test_fraction": 0.1}
    photos = PhotosSettings(root=place, **sizes, classes="top", store="memory")
    for dataset, params in (("folder", folder_params(place)), ("cifar10", download), ("photos", photos)):
        with pytest.raises(
            InputError, match=rf"^datasets\.{dataset}\.root: (?!datasets).*{reason}.*; name (a|another) folder"
        ):
            prepare_images(dataset, params, ALL, seed=0)


def run(params: object, dataset: str, folder: Path, train: int = 200, test: int = 100):
    own = {"datasets.${dataset}": params, "scales.${scale}.prepare": scale(train, test)}
    values = {"seeds": [5], "dataset": dataset, **own}
    assert list(values) == prepare.READS
    return prepare.main(
        values,
        argparse.Namespace(images=folder / "images", split=folder / "split.json", metrics=folder / "prepare.json"),
    )


def test_the_stage_writes_three_files_and_flat_metrics(tmp_path):
    metrics = run(SHAPES, "shapes", tmp_path / "out").metrics
    sets = {split: load_images(tmp_path / "out" / "images" / f"{split}.safetensors") for split in SPLITS}
    assert {split: len(images) for split, images in sets.items()} == {"train": 180, "validation": 20, "test": 100}
    mean, std = sets["train"].channel_statistics()
    expected = {f"{split}_images": len(images) for split, images in sets.items()}
    expected |= {"classes": 100, "image_size": 16, "bad_files": 0, "test_images_also_in_train": 0}
    expected |= {"red_mean": mean[0], "blue_std": std[2]}
    assert {name: metrics[name] for name in expected} == expected
    assert len(metrics["digest"]) == 16
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["images", "split.json"]


def test_test_images_that_are_training_images_are_counted_with_a_warning(root, tmp_path, caplog):
    for number in range(7):  # copies of training or validation images, some of them twice
        source = root / "train" / "cat" / f"{number // 2}.png"
        (root / "test" / "cat" / f"{number}.png").write_bytes(source.read_bytes())
    with caplog.at_level(logging.WARNING, "annulus"):
        metrics = run(folder_params(root, fraction=0.5), "folder", tmp_path / "out", train=60, test=30).metrics
    assert metrics["test_images_also_in_train"] == 7
    assert "7 test images are also training images, pixel by pixel" in caplog.text


def test_a_full_disk_leaves_what_stood_there(tmp_path, monkeypatch):
    run(SHAPES, "shapes", tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}
    save_images = parts.save_images

    def full(path, images):
        if path.name == "test.safetensors":
            raise OSError(28, "No space left on device")
        save_images(path, images)

    monkeypatch.setattr(parts, "save_images", full)
    with pytest.raises(InputError, match=r"cannot write .*images: No space left on device; free some space"):
        run(SHAPES, "shapes", tmp_path, train=300)
    assert {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["images", "split.json"]

import argparse
import logging
import re
from pathlib import Path

import numpy as np
import prepare
import pytest
import torch
from PIL import Image

from annulus.config.images import DownloadParams, FolderParams, ShapesParams
from annulus.config.training import PrepareScale
from annulus.datasets.prepare import prepare_images, save_prepared
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.pipeline.stage import run_stage

SPLITS = ("train", "validation", "test")
SHAPES = ShapesParams(image_size=16, view_size=16, validation_fraction=0.1)


def scale(train: int | None, test: int | None) -> PrepareScale:
    return PrepareScale(train_images=train, test_images=test)


def folder_params(root: Path, bad: int = 0, fraction: float = 0.1) -> FolderParams:
    return FolderParams(root=str(root), image_size=8, view_size=8, validation_fraction=fraction, max_bad_files=bad)


@pytest.fixture
def root(tmp_path, generator) -> Path:
    """Three classes with 60 training and 20 test images each; a class's images differ from each other."""
    for split, count in (("train", 60), ("test", 20)):
        for label, name in enumerate(("ant", "bee", "cat")):
            (tmp_path / "own" / split / name).mkdir(parents=True)
            for number in range(count):
                image = torch.randint(256, (10, 10, 3), generator=generator, dtype=torch.uint8).numpy()
                image[:, :, 0] = label
                Image.fromarray(image).save(tmp_path / "own" / split / name / f"{number}.png")
    return tmp_path / "own"


# --- shapes ---------------------------------------------------------------------------------------------


def test_shapes_are_balanced_in_every_part_and_rows_are_disjoint():
    before = torch.get_rng_state()
    prepared = prepare_images("shapes", SHAPES, scale(1000, 200), seed=0)
    assert torch.bincount(prepared.train.labels).tolist() == [9] * 100
    assert torch.bincount(prepared.validation.labels).tolist() == [1] * 100
    assert torch.bincount(prepared.test.labels).tolist() == [2] * 100
    rows = prepared.train.rows.tolist() + prepared.validation.rows.tolist()
    assert sorted(rows) == list(range(1000))
    assert prepared.test.rows.tolist() == list(range(200))
    assert torch.equal(torch.get_rng_state(), before)


def test_the_same_seed_gives_the_same_images_and_another_seed_others():
    first, again, other = (prepare_images("shapes", SHAPES, scale(200, 100), seed) for seed in (3, 3, 4))
    assert [getattr(first, split).digest for split in SPLITS] == [getattr(again, split).digest for split in SPLITS]
    assert first.validation.rows.tolist() != other.validation.rows.tolist()
    assert first.test.digest != other.test.digest


def test_more_shapes_begin_with_the_fewer_ones():
    few, many = (
        prepare_images("shapes", SHAPES.model_copy(update={"validation_fraction": 0.0}), scale(count, 100), seed=0)
        for count in (100, 400)
    )
    assert torch.equal(many.train.images[:100], few.train.images)


def test_without_a_limit_there_are_as_many_shapes_as_cifar_has(monkeypatch):
    def black(rows, size, key):
        return torch.zeros(len(rows), 3, size, size, dtype=torch.uint8)

    monkeypatch.setattr("annulus.datasets.prepare.draw_shapes", black)
    prepared = prepare_images("shapes", SHAPES, scale(None, None), seed=0)
    assert (len(prepared.train), len(prepared.validation), len(prepared.test)) == (45_000, 5_000, 10_000)


def test_an_empty_validation_part_has_the_shape_of_the_others(tmp_path):
    params = SHAPES.model_copy(update={"validation_fraction": 0.0})
    save_prepared(tmp_path / "images", prepare_images("shapes", params, scale(100, 100), seed=0))
    assert load_images(tmp_path / "images" / "validation.safetensors").images.shape == (0, 3, 16, 16)


# --- folder ---------------------------------------------------------------------------------------------


def test_a_limited_folder_is_even_and_only_the_chosen_files_are_read(root, monkeypatch):
    read: list[Path] = []
    from annulus.datasets import folder

    decode_files = folder.decode_files
    monkeypatch.setattr(
        folder, "decode_files", lambda files, *rest: (read.extend(files), decode_files(files, *rest))[1]
    )
    prepared = prepare_images("folder", folder_params(root, fraction=0.2), scale(30, 9), seed=0)
    assert len(read) == 39
    assert torch.bincount(prepared.train.labels).tolist() == [8, 8, 8]
    assert torch.bincount(prepared.validation.labels).tolist() == [2, 2, 2]
    assert torch.bincount(prepared.test.labels).tolist() == [3, 3, 3]


def test_rows_are_places_in_the_sorted_folder(root):
    prepared = prepare_images("folder", folder_params(root), scale(30, None), seed=0)
    files = [root / "train" / name / f"{number}.png" for name in ("ant", "bee", "cat") for number in range(60)]
    for part in (prepared.train, prepared.validation):
        for image, label, row in zip(part.images, part.labels, part.rows, strict=True):
            with Image.open(files[row]) as stored:
                expected = np.asarray(stored.resize((8, 8), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
            np.testing.assert_array_equal(image, expected)
            assert label == row // 60


def test_more_asked_than_there_are_takes_all_and_says_so(root, caplog):
    with caplog.at_level(logging.INFO, "annulus"):
        prepared = prepare_images("folder", folder_params(root), scale(1000, 60), seed=0)
    assert len(prepared.train) + len(prepared.validation) == 180
    assert "train_images: 1000 are asked for and there are 180; taking all" in caplog.text
    assert "test_images" not in caplog.text


def test_a_relative_root_lies_in_dvc_s_project(root, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    params = folder_params(Path("own"))
    expected = prepare_images("folder", params, scale(9, 9), seed=0).test.digest
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    assert prepare_images("folder", params, scale(9, 9), seed=0).test.digest == expected
    assert prepare_images("folder", folder_params(root), scale(9, 9), seed=0).test.digest == expected


def test_bad_files_over_the_limit_are_named_up_to_ten(root):
    for number in range(12):
        (root / "train" / "bee" / f"{number}.png").write_bytes(b"")
    with pytest.raises(
        InputError,
        match=r"12 of 240 image files cannot be read: train/bee/0.png \(empty file\), .*train/bee/9.png "
        r"\(empty file\) and 2 more. max_bad_files is 11: .* or raise datasets.folder.max_bad_files",
    ):
        prepare_images("folder", folder_params(root, bad=11), scale(None, None), seed=0)


def test_bad_files_within_the_limit_are_left_out_named_and_counted(root, caplog):
    (root / "train" / "ant" / "3.png").write_bytes(b"")
    (root / "test" / "cat" / "19.png").write_bytes(b"no image")
    with caplog.at_level(logging.WARNING, "annulus"):
        prepared = prepare_images("folder", folder_params(root, bad=2), scale(None, None), seed=0)
    assert "2 of 240 image files cannot be read: train/ant/3.png (empty file), test/cat/19.png" in caplog.text
    assert prepared.metrics()["bad_files"] == 2
    assert 3 not in prepared.train.rows.tolist() + prepared.validation.rows.tolist()
    assert prepared.test.rows.tolist() == list(range(59))


def test_a_class_whose_every_file_is_bad_is_refused(root):
    for number in range(20):
        (root / "test" / "ant" / f"{number}.png").write_bytes(b"")
    with pytest.raises(InputError, match="no test image can be used of ant; every class needs one"):
        prepare_images("folder", folder_params(root, bad=20), scale(None, None), seed=0)


def test_fewer_images_than_classes_are_refused(root):
    with pytest.raises(InputError, match="test_images 2 is fewer than the 3 classes; raise it in the scale"):
        prepare_images("folder", folder_params(root), scale(None, 2), seed=0)


def test_fewer_shapes_than_classes_are_refused():
    with pytest.raises(InputError, match="train_images 3 is fewer than the 100 classes"):
        prepare_images("shapes", SHAPES, scale(3, 10), seed=0)


def test_test_images_that_are_training_images_are_counted(root):
    for number in range(7):  # a copy each in the training or the validation part, one of them twice
        source = root / "train" / "cat" / f"{number // 2}.png"
        (root / "test" / "cat" / f"{number}.png").write_bytes(source.read_bytes())
    prepared = prepare_images("folder", folder_params(root, fraction=0.5), scale(None, None), seed=0)
    assert prepared.metrics()["test_images_also_in_train"] == 7


def test_a_download_is_looked_for_in_its_root(tmp_path, monkeypatch):
    asked = []

    def refused(name, root, image_size):
        asked.append((name, root, image_size))
        raise InputError("refused")

    monkeypatch.setattr("annulus.datasets.prepare.open_download", refused)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    params = DownloadParams(root="data/downloads", image_size=96, view_size=96, validation_fraction=0.1)
    with pytest.raises(InputError, match="refused"):
        prepare_images("stl10", params, scale(None, None), seed=0)
    assert asked == [("stl10", tmp_path / "data/downloads", 96)]


def test_a_root_may_begin_with_the_home_folder(root, monkeypatch, tmp_path):
    expected = prepare_images("folder", folder_params(root), scale(9, 9), seed=0).test.digest
    monkeypatch.setenv("HOME", str(root.parent))
    monkeypatch.setenv("DVC_ROOT", str(tmp_path / "elsewhere"))
    found = prepare_images("folder", folder_params(Path("~") / root.name), scale(9, 9), seed=0)
    assert found.test.digest == expected


@pytest.mark.parametrize("dataset", ["folder", "cifar10"])
@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("x" * 300, r"'x{10,}\.\.\.x{10,}' cannot be opened \(File name too long\)"),
        ("x/" * 3000, r"cannot be opened \(File name too long\)"),
        ("loop/inside", r"'loop/inside' cannot be opened \(Too many levels of symbolic links\)"),
        ("~nobody-of-this-name/x", "cannot be opened .*home directory"),
        ("a\0b", r"'a\\x00b' cannot be opened \(embedded null byte\)"),
        ("a\ud800b", r"'a\\ud800b' cannot be opened"),
    ],
)
def test_a_root_that_no_path_can_be_is_refused(dataset, place, why, monkeypatch, tmp_path):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / "loop").symlink_to("loop")
    sizes = {"image_size": 16, "view_size": 16, "validation_fraction": 0.1}
    more = {"max_bad_files": 0} if dataset == "folder" else {}
    params = (FolderParams if more else DownloadParams)(root=place, **sizes, **more)
    with pytest.raises(InputError, match=rf"^datasets\.{dataset}\.root: .*{why}.*; name a folder"):
        prepare_images(dataset, params, scale(None, None), seed=0)


# --- the stage ------------------------------------------------------------------------------------------


def run(params: object, dataset: str, folder: Path, train: int = 200, test: int = 100):
    values = {
        "seed": 5,
        "dataset": dataset,
        "datasets.${dataset}": params,
        "scales.${scale}.prepare": scale(train, test),
    }
    assert list(values) == prepare.READS
    return prepare.main(values, argparse.Namespace(images=folder / "images", metrics=folder / "prepare.json"))


def test_the_stage_writes_three_files_and_flat_metrics(tmp_path):
    metrics = run(SHAPES, "shapes", tmp_path / "out").metrics
    sets = {split: load_images(tmp_path / "out" / "images" / f"{split}.safetensors") for split in SPLITS}
    assert {split: len(images) for split, images in sets.items()} == {"train": 180, "validation": 20, "test": 100}
    mean, std = sets["train"].channel_statistics()
    expected = {
        "train_images": 180,
        "validation_images": 20,
        "test_images": 100,
        "classes": 100,
        "image_size": 16,
        "bad_files": 0,
        "test_images_also_in_train": 0,
        "seed": 5,
        "red_mean": mean[0],
        "blue_std": std[2],
    }
    assert {name: metrics[name] for name in expected} == expected
    assert len(metrics["digest"]) == 16
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["images"]


def test_two_runs_write_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        run(SHAPES, "shapes", tmp_path / name)
    for split in SPLITS:
        files = [tmp_path / name / "images" / f"{split}.safetensors" for name in ("a", "b")]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_the_stage_warns_of_test_images_seen_in_training(root, tmp_path, caplog):
    (root / "test" / "cat" / "0.png").write_bytes((root / "train" / "cat" / "0.png").read_bytes())
    with caplog.at_level(logging.WARNING, "annulus"):
        run(folder_params(root), "folder", tmp_path / "out", train=180, test=60)
    assert "1 test images are also training images, pixel by pixel" in caplog.text


def test_a_failure_leaves_what_stood_there(root, tmp_path):
    run(folder_params(root), "folder", tmp_path / "out")
    before = (tmp_path / "out" / "images" / "test.safetensors").read_bytes()
    (root / "train" / "ant" / "1.png").write_bytes(b"")
    with pytest.raises(InputError, match="1 of 240"):
        run(folder_params(root), "folder", tmp_path / "out", train=180, test=60)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["images"]
    assert (tmp_path / "out" / "images" / "test.safetensors").read_bytes() == before


def test_a_full_disk_leaves_what_stood_there(tmp_path, monkeypatch):
    run(SHAPES, "shapes", tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()}
    from annulus.datasets import prepare as library

    save_images = library.save_images

    def full(path, images):
        if path.name == "test.safetensors":
            raise OSError(28, "No space left on device")
        save_images(path, images)

    monkeypatch.setattr(library, "save_images", full)
    with pytest.raises(InputError, match=r"cannot write .*images: No space left on device; free some space"):
        run(SHAPES, "shapes", tmp_path, train=300)
    assert {path.name: path.read_bytes() for path in (tmp_path / "images").iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == ["images"]


def test_a_folder_that_cannot_be_made_says_so(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"cannot write .*/file/images: .*; free some space or fix"):
        run(SHAPES, "shapes", tmp_path / "file")


def test_a_user_s_mistake_ends_in_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    text = (Path(prepare.__file__).parents[1] / "params.yaml").read_text()
    params = tmp_path / "params.yaml"
    params.write_text(re.sub(r"(?m)^dataset: \w+", "dataset: folder", text))
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    argv = [f"--{name}={tmp_path / 'out' / name}" for name in prepare.PATHS] + [f"--params={params}"]
    with pytest.raises(SystemExit, match=rf"^ERROR: datasets.folder.root: {tmp_path}/data/folder does not exist"):
        run_stage(prepare.main, prepare.READS, prepare.PATHS, argv)
    assert [path.name for path in tmp_path.iterdir()] == ["params.yaml"]

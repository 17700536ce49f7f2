"""Images without a class are read, limited and packed. They train encoders; code that reads a class omits them."""

import logging
import shutil
from dataclasses import fields, replace
from pathlib import Path

import pytest
import torch
from method_cases import assert_equal_states
from PIL import Image
from settings import CPU, SMALL, load, observer, read, stripes

from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import packing, prepare_images
from annulus.datasets.settings import FolderSettings, GeneratedSettings, PrepareBudget
from annulus.errors import InputError
from annulus.files.images import UNLABELLED, ImageSet, load_images
from annulus.training.embeddings import embeddings
from annulus.training.nearest import nearest_label_accuracy
from annulus.training.setup import build_training
from annulus.training.snapshots import Snapshots
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared.runs import Splits, build_trial, probe
from annulus_lab.studies.view_learning.batches import labelled_images


@pytest.fixture
def root(tmp_path) -> Path:
    """Two classes with ten training and three test images each, and seven without a class; red is the file's number."""
    images = [(f"{split}/{name}", count) for split, count in (("train", 10), ("test", 3)) for name in ("cat", "dog")]
    for place, count in (*images, ("unlabelled", 4), ("unlabelled/b/c", 1), ("unlabelled/a", 2)):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            Image.new("RGB", (9, 9), (number, len(place), 0)).save(tmp_path / place / f"img{number}.png")
    (tmp_path / "unlabelled/.DS_Store").touch()
    return tmp_path


def prepare(root: Path, store: str = "memory", bad: int = 0, **limits: int | None):
    sizes = {"image_size": 8, "view_size": 8, "validation_fraction": 0.2}
    params = FolderSettings(root=str(root), **sizes, max_bad_files=bad, store=store)
    scale = PrepareBudget(**dict.fromkeys(field.name for field in fields(PrepareBudget)) | limits)
    with packing("folder", params) as shards:
        sets = prepare_images("folder", params, scale, 0, shards)
        save_prepared(root / "images", sets)
    return sets


@pytest.mark.parametrize("store", ["memory", "raw"])
def test_they_follow_the_training_images_folder_after_folder(root, store, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(root))
    sets = prepare(root, store)
    assert sets.train.labels.tolist() == [0] * 8 + [1] * 8 + [UNLABELLED] * 7
    assert sets.train.rows[16:].tolist() == list(range(20, 27))
    pixels = sets.train.images.take(torch.arange(23))
    assert pixels[16:, 0, 0, 0].tolist() == [0, 1, 2, 3, 0, 1, 0]
    assert pixels[16:, 1, 0, 0].tolist() == [len("unlabelled")] * 4 + [len("unlabelled/a")] * 2 + [
        len("unlabelled/b/c")
    ]
    assert [len(sets.validation), sets.validation.labels.min()] == [4, 0]
    metrics = sets.metrics()
    assert [metrics["train_images"], metrics["unlabelled_images"]] == [23, 7]
    again = load_images(root / "images/train.safetensors")
    assert (again.digest, again.labels.tolist()) == (sets.train.digest, sets.train.labels.tolist())
    assert again.with_class.tolist() == list(range(16))
    assert again.labelled().labels.tolist() == [0] * 8 + [1] * 8
    assert sets.test.labelled() is sets.test


def test_a_limit_takes_some_of_them_and_leaves_the_others_as_they_are(root, caplog):
    whole, fewer, none = (prepare(root, train_images=10, unlabelled_images=limit) for limit in (None, 3, 0))
    assert [len(sets.train) - 8 for sets in (whole, fewer, none)] == [7, 3, 0]
    for sets in (fewer, none):
        assert torch.equal(sets.train.labelled().rows, whole.train.labelled().rows)
        assert torch.equal(sets.validation.rows, whole.validation.rows)
    assert set(fewer.train.rows[8:].tolist()) < set(range(20, 27))
    assert "unlabelled_images" not in none.metrics()
    with caplog.at_level(logging.INFO, "annulus"):
        assert len(prepare(root, unlabelled_images=8).train) == 23
    assert "unlabelled_images is 8 and there are 7; taking all" in caplog.text


def test_what_cannot_be_read_or_is_not_there_is_said(root):
    (root / "unlabelled/a/img0.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"1 of 33 image files cannot be read: unlabelled/a/img0.png \(empty file\)"):
        prepare(root)
    assert len(prepare(root, bad=1).train) == 22
    (root / "unlabelled/b/loop").symlink_to(root / "unlabelled")
    with pytest.raises(InputError, match="unlabelled/b/loop is a link to a folder around it; remove the link"):
        prepare(root)
    shutil.rmtree(root / "unlabelled")
    assert len(prepare(root).train) == 16
    (root / "unlabelled").touch()
    with pytest.raises(InputError, match="unlabelled is not a folder; put images without a class into a folder there"):
        prepare(root)
    shapes = GeneratedSettings(image_size=16, view_size=16, validation_fraction=0.1)
    scale = PrepareBudget(train_images=200, test_images=100, unlabelled_images=5)
    with pytest.raises(InputError, match="unlabelled_images is 5, and shapes has none here; put them below"):
        prepare_images("shapes", shapes, scale, 0)


def test_folders_that_nothing_reads_are_named(root, caplog):
    (root / "unlabeled").mkdir()
    with caplog.at_level(logging.INFO, "annulus"):
        prepare(root)
    assert "folders that are not used: unlabeled (train, test, unlabelled are)" in caplog.text


def test_a_memory_that_images_without_a_class_fill_is_not_refused_before_they_are_counted():
    ring = {"sampler": "ring", "samplers.ring": {"inner": 0.0005, "outer": 0.002}, "scale": "tiny"}
    assert load(ring | {"dataset": "folder", "scales.tiny.prepare.unlabelled_images": None})
    for changes in ({"dataset": "folder"}, {"dataset": "shapes", "scales.tiny.prepare.unlabelled_images": None}):
        with pytest.raises(InputError, match="hold none of the memory's 359 other rows"):
            load(ring | changes)


def hide_labels(images: ImageSet, labelled: int) -> ImageSet:
    """The same images; only the first `labelled` keep their class."""
    labels = torch.where(torch.arange(len(images)) < labelled, images.labels, UNLABELLED)
    return replace(images, labels=labels)


@pytest.mark.parametrize("method", ["ir", "moco"])
def test_an_encoder_learns_the_same_without_the_classes_and_is_followed_by_those_that_are_there(method, tmp_path):
    every, some, validation = stripes(70, 0), hide_labels(stripes(70, 0), 20), stripes(10, 1)
    params = read({"method": method})
    trainings = [build_training(params, images, validation, CPU) for images in (every, some)]
    for training in trainings:
        file = tmp_path / "snapshots"
        training.observers.append(Snapshots(training.source, training.settings.views, 3, 0, CPU, file))
    histories = [training.run() for training in trainings]
    assert [row["loss_nats"] for row in histories[0]] == [row["loss_nats"] for row in histories[1]]
    whole, one = (training.method for training in trainings)
    assert_equal_states(whole, one)

    rows = one.stored if method == "ir" else embeddings(one.encoder, some, CPU)
    queries = embeddings(one.encoder, validation, CPU)
    expected = nearest_label_accuracy(queries, rows[:20], validation.labels, some.labels[:20])
    assert histories[1][-1]["validation_nn1_percent"] == expected
    assert observer(trainings[1], Snapshots).images.tolist() == list(range(20))


@pytest.mark.parametrize("inputs", ["features", "views"])
def test_probes_and_the_labels_of_view_generators_are_of_those_with_a_class_alone(inputs):
    params = load(SMALL | {"knn.k": 5, "linear.inputs": inputs})
    trial, some = build_trial(resolved(params, RUN), seed=0), hide_labels(stripes(70, 0), 20)
    training = build_training(trial.run, some, stripes(10, 1), CPU)
    others = {"validation": stripes(10, 1), "test": stripes(30, 2), "hashes": {}}
    assert probe(training, Splits(some, **others), trial) == probe(training, Splits(some.labelled(), **others), trial)
    assert labelled_images(some, 1.0, 0).rows.tolist() == list(range(20))

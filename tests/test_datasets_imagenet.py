"""ImageNet's and Tiny ImageNet's archives, made up: each image shows its class, for each source of the labels."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from settings import load

from annulus.datasets.prepare import prepare_images
from annulus.errors import InputError

WNIDS = ("n01440764", "n01443537", "n02102040")
KIT = Path("ILSVRC2012_devkit_t12", "data")


def picture(path: Path, label: int) -> None:
    """Writes an image with one brightness for each class."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((70, 90, 3), 40 + 80 * label, np.uint8)).save(path, "JPEG", quality=95)


def archives(root: Path, dataset: str) -> None:
    tiny, truth = dataset == "tinyimagenet", [2, 0, 1, 1]
    for label, wnid in enumerate(WNIDS):
        for number in range(5):
            picture(root / "train" / wnid / f"{'images/' if tiny else ''}{wnid}_{number}.JPEG", label)
    for number, label in enumerate(truth):
        name = f"images/val_{number}" if tiny else f"ILSVRC2012_val_{number + 1:08}"
        picture(root / "val" / f"{name}.JPEG", label)
    if tiny:
        lines = [f"val_{number}.JPEG\t{WNIDS[label]}\t0\t32\t44\t62\n" for number, label in enumerate(truth)]
        (root / "val" / "val_annotations.txt").write_text("".join(lines))
        return
    (root / KIT).mkdir(parents=True)
    ids = {0: 7, 1: 3, 2: 5}  # the kit's numbers do not follow the classes' order
    (root / KIT / "ILSVRC2012_validation_ground_truth.txt").write_text("".join(f"{ids[label]}\n" for label in truth))
    kinds = [(name, object) for name in ("ILSVRC2012_ID", "WNID", "words")]
    savemat(root / KIT / "meta.mat", {"synsets": np.array([(ids[n], WNIDS[n], "a fish") for n in (1, 2, 0)], kinds)})


def prepare(root: Path, dataset: str, shards: Path | None = None):
    store = "memory" if shards is None else "jpeg"
    changes = {"root": str(root), "image_size": 32, "view_size": 32, "validation_fraction": 0.2, "store": store}
    params = load({f"datasets.{dataset}.{key}": value for key, value in changes.items()} | {"dataset": dataset})
    return prepare_images(dataset, params.get("datasets.${dataset}"), params.get("scales.paper.prepare"), 0, shards)


@pytest.mark.parametrize("dataset", ["imagenet", "tinyimagenet"])
def test_labels_are_those_of_the_archives_in_memory_and_packed(dataset, tmp_path):
    archives(tmp_path / "root", dataset)
    (tmp_path / "shards").mkdir()
    for parts in (prepare(tmp_path / "root", dataset), prepare(tmp_path / "root", dataset, tmp_path / "shards")):
        assert parts.train.classes == parts.test.classes == WNIDS
        assert (len(parts.train), len(parts.validation), len(parts.test)) == (12, 3, 4)
        assert parts.test.labels.tolist() == [0, 1, 1, 2]
        for part in (parts.train, parts.validation, parts.test):
            brightness = part.images.take(torch.arange(len(part)))[:, :, 10, 10].float().mean(dim=1)
            torch.testing.assert_close(brightness, 40.0 + 80 * part.labels, atol=3, rtol=0)


def test_a_validation_part_in_class_folders_needs_no_kit(tmp_path):
    archives(tmp_path, "imagenet")
    shutil.rmtree(tmp_path / "val")
    shutil.rmtree(tmp_path / "ILSVRC2012_devkit_t12")
    for label, wnid in enumerate(WNIDS):
        picture(tmp_path / "val" / wnid / "any.JPEG", label)
    assert prepare(tmp_path, "imagenet").test.labels.tolist() == [0, 1, 2]
    (tmp_path / "val" / ".ipynb_checkpoints").mkdir()
    assert prepare(tmp_path, "imagenet").test.labels.tolist() == [0, 1, 2]
    (tmp_path / "val" / WNIDS[0]).rename(tmp_path / "val" / "n09999999")
    with pytest.raises(InputError, match=r"the class folders of train and val differ; get ILSVRC2012_img_train.tar"):
        prepare(tmp_path, "imagenet")


def test_a_hidden_folder_is_no_class_and_a_number_without_a_label_is_told(tmp_path):
    archives(tmp_path, "imagenet")
    (tmp_path / "val/.ipynb_checkpoints").mkdir()
    assert prepare(tmp_path, "imagenet").test.labels.tolist() == [0, 1, 1, 2]
    (tmp_path / "val/ILSVRC2012_val_00000004.JPEG").rename(tmp_path / "val/ILSVRC2012_val_00000009.JPEG")
    with pytest.raises(InputError, match=r"ILSVRC2012_val_00000009.JPEG has no label; get"):
        prepare(tmp_path, "imagenet")


TRUTH, TINY = KIT / "ILSVRC2012_validation_ground_truth.txt", "val/val_annotations.txt"


@pytest.mark.parametrize(
    ("part", "content", "sentence"),
    [
        ("train", None, r"datasets.imagenet.root: .*train does not exist; get ILSVRC2012_img_train.tar, .*"),
        (KIT / "meta.mat", None, r"meta.mat is missing or is not the kit's \(.*\); get .*image-net.org"),
        (KIT / "meta.mat", b"no matrix", r"meta.mat is missing or is not the kit's \(.*\); get"),
        (TRUTH, b"7\n3\n", r"2 labels in .*ground_truth.txt, but 4 images in val; get"),
        (TRUTH, b"7\n3\n9\n3\n", r"val: ILSVRC2012_val_00000003.JPEG has no label; get"),
        (TINY, b"\xff", r"val_annotations.txt cannot be read \(.*\); get"),
        (TINY, b"", r"val_0.JPEG has no label; get .*200.zip"),
        (f"train/{WNIDS[1]}/images", None, r"train/n01443537/images has no images; get"),
    ],
)
def test_what_is_missing_is_told_with_where_to_get_it(part, content, sentence, tmp_path):
    dataset = "tinyimagenet" if part == TINY or "images" in str(part) else "imagenet"
    archives(tmp_path, dataset)
    path = tmp_path / part
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        prepare(tmp_path, dataset)

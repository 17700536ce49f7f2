"""Layout of each real archive, rebuilt with few small files: labels, pixels, splits and error sentences."""

import hashlib
import io
import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.io import savemat
from torchvision.datasets import Omniglot, utils

from annulus.datasets import decode
from annulus.errors import InputError
from annulus_lab.studies.transfer import crops
from annulus_lab.studies.transfer.crops import cropped, scaled
from annulus_lab.studies.transfer.layouts import LAYOUTS
from annulus_lab.studies.transfer.target import open_target

SIZE = 16
NO_LIMITS = {"train": None, "test": None}


def open_splits(name: str, root: Path):
    return open_target(name, str(root), SIZE, NO_LIMITS, 0)


def picture(path: Path, level: int, size: tuple[int, int] = (20, 20)) -> None:
    """Writes a picture of one grey level, which identifies the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (level,) * 3).save(path.with_suffix(".png"))
    path.with_suffix(".png").rename(path)


def levels(source) -> list[int]:
    """Grey level of every image, read at its centre."""
    images, bad = source.read(torch.arange(len(source.labels)))
    assert not bad
    assert images.shape == (len(source.labels), 3, SIZE, SIZE)
    return images[:, 0, SIZE // 2, SIZE // 2].tolist()


def classes_and_levels(source) -> list[tuple[str, int]]:
    """Class and grey level of every image."""
    return [(source.classes[label], level) for label, level in zip(source.labels.tolist(), levels(source), strict=True)]


def idx(array: list) -> bytes:
    """The array as bytes in MNIST's format."""
    bytes_ = np.array(array, np.uint8)
    return bytes([0, 0, 8, bytes_.ndim]) + b"".join(n.to_bytes(4, "big") for n in bytes_.shape) + bytes_.tobytes()


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fashionmnist", "FashionMNIST")])
def test_mnist_and_fashion_mnist(name, folder, tmp_path):
    raw = tmp_path / folder / "raw"
    raw.mkdir(parents=True)
    for part, labels in (("train", [1, 0, 3]), ("t10k", [0, 9])):
        images = [np.full((28, 28), 10 * label + 5) for label in labels]
        (raw / f"{part}-images-idx3-ubyte").write_bytes(idx(images))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(idx(labels))
    sources = open_splits(name, tmp_path)
    assert sources["train"].labels.tolist() == [1, 0, 3]
    assert [levels(sources[split]) for split in ("train", "test")] == [[15, 5, 35], [5, 95]]
    assert len(sources["test"].classes) == 10


def test_aircraft_are_cut_to_their_boxes_and_validation_is_for_training(tmp_path):
    data = tmp_path / "fgvc-aircraft-2013b/data"
    (data / "images").mkdir(parents=True)
    for number, level in enumerate((50, 100, 150)):
        image = Image.new("RGB", (60, 40))
        image.paste((level,) * 3, (10, 5, 50, 35))  # the margin stays black; a real picture has a name there
        image.save(data / f"images/{number}.jpg", quality=95)
    lists = {"images_box": "".join(f"{number} 11 6 50 35\n" for number in range(3)), "variants": "737-200\nA330\n"}
    lists |= {"images_variant_trainval": "0 A330\n2 737-200\n", "images_variant_test": "1 A330\n"}
    for name, text in lists.items():
        (data / f"{name}.txt").write_text(text)
    sources = open_splits("aircraft", tmp_path)
    assert sources["train"].classes == ("737-200", "A330")
    assert [sources[split].labels.tolist() for split in ("train", "test")] == [[1, 0], [1]]
    images, _ = sources["train"].read(torch.tensor([1, 0]))
    assert (images.flatten(1).float() - torch.tensor([[150.0], [50.0]])).abs().max() < 12, "nothing of the margin"


def test_dtd_takes_its_first_division(tmp_path):
    for number, (split, name) in enumerate({"train": "dotted", "val": "lined", "test": "lined"}.items()):
        picture(tmp_path / f"dtd/dtd/images/{name}/{name}_{number}.jpg", 40 * number)
        (tmp_path / "dtd/dtd/labels").mkdir(exist_ok=True, parents=True)
        others = f"dotted/dotted_0.jpg\nlined/lined_{max(number, 1)}.jpg\n"
        (tmp_path / f"dtd/dtd/labels/{split}1.txt").write_text(others)
    sources = open_splits("dtd", tmp_path)
    assert classes_and_levels(sources["train"]) == [("dotted", 0), ("lined", 40), ("dotted", 0), ("lined", 40)]
    assert classes_and_levels(sources["test"]) == [("dotted", 0), ("lined", 80)]


def test_traffic_signs(tmp_path):
    for number, level in enumerate((30, 60)):
        picture(tmp_path / f"gtsrb/GTSRB/Training/{number:05d}/00000_00000.ppm", level)
        picture(tmp_path / f"gtsrb/GTSRB/Final_Test/Images/{number:05d}.ppm", level + 9)
    (tmp_path / "gtsrb/GT-final_test.csv").write_text("Filename;ClassId\n00000.ppm;1\n00001.ppm;0\n")
    sources = open_splits("trafficsign", tmp_path)
    assert classes_and_levels(sources["train"]) == [("00", 30), ("01", 60)]
    assert classes_and_levels(sources["test"]) == [("01", 39), ("00", 69)]


def test_flowers_train_on_both_small_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("torchvision.datasets.Flowers102._check_integrity", lambda self: True)  # MD5 of the real files
    for number in range(1, 5):
        picture(tmp_path / f"flowers-102/jpg/image_{number:05d}.jpg", 40 * number)
    savemat(tmp_path / "flowers-102/imagelabels.mat", {"labels": np.array([[1, 2, 2, 1]])})
    division = {"trnid": np.array([[1, 2]]), "valid": np.array([[3, 3]]), "tstid": np.array([[4, 4]])}
    savemat(tmp_path / "flowers-102/setid.mat", division)
    sources = open_splits("vggflower", tmp_path)
    assert sources["train"].labels.tolist() == [0, 1, 1, 1]
    assert levels(sources["train"]) == [40, 80, 120, 120]
    assert classes_and_levels(sources["test"])[0] == ("001.pink primrose", 160)


def test_omniglot_is_divided_by_who_drew(tmp_path, monkeypatch):
    root = tmp_path / "omniglot-py"
    root.mkdir()
    sums = {}
    for part, alphabet in (("images_background", "Greek"), ("images_evaluation", "Tagalog")):
        (root / f"{part}.zip").write_bytes(part.encode())
        sums[part] = hashlib.md5(part.encode()).hexdigest()
        for drawer in range(1, 21):
            picture(root / part / alphabet / "character01" / f"0001_{drawer:02d}.png", drawer)
    monkeypatch.setattr(Omniglot, "zips_md5", sums)
    sources = open_splits("omniglot", tmp_path)
    assert sources["train"].classes == ("Greek-character01", "Tagalog-character01")
    assert levels(sources["train"]) == 2 * list(range(1, 15))
    assert levels(sources["test"]) == 2 * list(range(15, 21))


def cub(root: Path) -> None:
    """Writes three images of two birds; the lists are not sorted by image number."""
    names = {3: ("001.Auk/auk_a.jpg", 1, 1), 1: ("002.Wren/wren.jpg", 2, 0), 2: ("001.Auk/auk_b.jpg", 1, 0)}
    for number, (path, _, _) in names.items():
        picture(root / "images" / path, 40 * number)
    (root / "images.txt").write_text("".join(f"{number} {path}\n" for number, (path, _, _) in names.items()))
    (root / "image_class_labels.txt").write_text("".join(f"{one} {label}\n" for one, (_, label, _) in names.items()))
    (root / "train_test_split.txt").write_text("".join(f"{one} {train}\n" for one, (_, _, train) in names.items()))
    (root / "classes.txt").write_text("1 001.Auk\n2 002.Wren\n")


def test_cub_is_read_by_its_four_lists(tmp_path):
    cub(tmp_path)
    sources = open_splits("cub", tmp_path)
    assert classes_and_levels(sources["train"]) == [("001.Auk", 120)]
    assert classes_and_levels(sources["test"]) == [("002.Wren", 40), ("001.Auk", 80)]


def test_fungi_test_on_the_validation_part_and_keep_classes_of_one_name_apart(tmp_path):
    categories = [{"id": 1, "name": "Amanita"}, {"id": 0, "name": "Amanita"}]
    for split, first in (("train", 0), ("val", 2)):
        images = [{"id": first + one, "file_name": f"images/{one}_Amanita/{first + one}.JPG"} for one in range(2)]
        for image in images:
            picture(tmp_path / image["file_name"], 30 * image["id"])
        boxes = [{"image_id": first + one, "category_id": 1 - one} for one in range(2)]
        content = {"images": images, "annotations": boxes, "categories": categories}
        (tmp_path / f"{split}.json").write_text(json.dumps(content))
    sources = open_splits("fungi", tmp_path)
    assert classes_and_levels(sources["train"]) == [("0001.Amanita", 0), ("0000.Amanita", 30)]
    assert classes_and_levels(sources["test"]) == [("0001.Amanita", 60), ("0000.Amanita", 90)]


def test_quickdraw_tests_on_the_last_tenth_of_each_class(tmp_path):
    (tmp_path / "numpy_bitmap").mkdir()
    for name, count in (("cat", 20), ("bee hive", 3)):
        drawings = np.repeat(np.arange(count, dtype=np.uint8)[:, None], 784, axis=1)
        np.save(tmp_path / "numpy_bitmap" / f"{name}.npy", drawings + (100 if name == "cat" else 0))
    sources = open_splits("quickdraw", tmp_path)
    assert sources["train"].classes == ("bee hive", "cat")
    assert classes_and_levels(sources["test"]) == [("bee hive", 2), ("cat", 118), ("cat", 119)]
    assert levels(sources["train"]) == [0, 1, *range(100, 118)]


def coco(root: Path, split: str, boxes: list[dict]) -> None:
    """One photograph: black, with a white square of 20 pixels from (10, 30)."""
    for folder in (split, "annotations"):
        (root / folder).mkdir(exist_ok=True)
    image = Image.new("RGB", (80, 60))
    image.paste((255,) * 3, (10, 30, 30, 50))
    image.save(root / f"{split}/000000000007.jpg", quality=100)
    names = {3: "car", 90: "toothbrush", 5: "airplane"}
    content = {
        "images": [{"id": 7, "file_name": "000000000007.jpg"}],
        "annotations": [{"image_id": 7, **box} for box in boxes],
        "categories": [{"id": id, "name": name} for id, name in names.items()],
    }
    (root / f"annotations/instances_{split}.json").write_text(json.dumps(content))


def test_boxes_of_coco_are_a_fifth_larger_around_their_middle(tmp_path, monkeypatch):
    square, corner, far = ({"bbox": box} for box in ([10, 30, 20, 20], [0, 0, 10, 10], [90, 0, 5, 5]))
    coco(tmp_path, "train2017", [square | {"category_id": 90}, corner | {"category_id": 3}])
    coco(tmp_path, "val2017", [far | {"category_id": 3}, square | {"category_id": 5}, square | {"category_id": 90}])
    sources = open_splits("mscoco", tmp_path)
    assert sources["train"].classes == ("car", "toothbrush"), "categories that have training boxes"
    files = []
    monkeypatch.setattr(crops, "opened", lambda path: files.append(path.name) or decode.opened(path))
    images, _ = sources["train"].read(torch.tensor([0, 1]))
    assert files == ["000000000007.jpg"], "once for both boxes"
    assert images[1].float().mean() < 2
    assert images[0].float().mean() / 255 == pytest.approx(1 / 1.44, abs=0.06), "20 of 24 pixels a side"
    assert sources["test"].labels.tolist() == [0, 1]
    _, bad = sources["test"].read(torch.arange(2))
    assert bad == {0: "val2017/000000000007.jpg (no pixel lies in the box [89.5, -0.5, 6.0, 6.0])"}


ONE = {"images": {"id": 0, "file_name": "a"}, "categories": {"id": 3, "name": "car"}}
ONE["annotations"] = {"image_id": 0, "category_id": 3, "bbox": [0, 0, 9, 9]}
OTHER = {"id": 5, "name": "airplane"}


@pytest.mark.parametrize("name", ["fungi", "mscoco"])
@pytest.mark.parametrize(
    ("part", "more", "sentence"),
    [
        ("images", ONE["images"], r"\S*val\S* has 2 images of 1 ids; each needs one of its own"),
        (
            "categories",
            OTHER,
            r"1 categories differ between \S*train\S* and \S*val\S*, \(5, 'airplane'\) first; take",
        ),
        (
            "annotations",
            ONE["annotations"] | {"category_id": 9},
            r"an annotation of \S*val\S* has the category_id 9, which",
        ),
        (
            "annotations",
            ONE["annotations"] | {"image_id": 9},
            r"an annotation of \S*val\S* has the image_id 9, which is",
        ),
    ],
)
def test_annotations_that_do_not_fit_together_are_refused(name, part, more, sentence, tmp_path):
    form = "{}.json" if name == "fungi" else "annotations/instances_{}2017.json"
    for split in ("train", "val"):
        (tmp_path / f"{split}2017").mkdir()
        content = {each: [record] + [more] * (each == part and split == "val") for each, record in ONE.items()}
        (tmp_path / form.format(split)).parent.mkdir(exist_ok=True)
        (tmp_path / form.format(split)).write_text(json.dumps(content))
    with pytest.raises(InputError, match=rf"target {name}: \S* does not hold it \({sentence}"):
        open_splits(name, tmp_path)


@pytest.mark.parametrize(("labels", "count"), [([3, 5], 2), ([], 0)])
def test_an_image_of_fungi_with_two_labels_or_none_is_refused(labels, count, tmp_path):
    content = ONE | {"images": [ONE["images"]], "categories": [ONE["categories"], OTHER]}
    for split, ids in (("train", [5]), ("val", labels)):
        content["annotations"] = [{"image_id": 0, "category_id": label} for label in ids]
        (tmp_path / f"{split}.json").write_text(json.dumps(content))
    with pytest.raises(
        InputError, match=rf"fungi: \S* does not hold it \(test image 0 has {count} labels, expected one"
    ):
        open_splits("fungi", tmp_path)


def test_a_crop_s_pixels_by_hand():
    """Columns 10 to 30 scale to 8 to 32. Half a pixel less, 7.5 and 31.5, rounds to even: 8 and 32, both included."""
    image = Image.fromarray(np.arange(100, dtype=np.uint8)[None].repeat(100, axis=0)).convert("RGB")
    pixels = cropped(image, scaled(np.array([10.0, 10.0, 20.0, 20.0])), 25)
    assert pixels[0, :, 0].tolist() == list(range(8, 33))
    pixels = cropped(image, np.array([11.0, 11.0, 5.0, 5.0]), 7)
    assert pixels[0, :, 0].tolist() == list(range(10, 17)), "10.5 rounds to 10, 15.5 to 16"


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_absent_target_is_one_sentence_with_root_layout_and_page(name, tmp_path, monkeypatch):
    def no_network(*_):
        raise OSError("no route to host")

    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: url)
    monkeypatch.setattr(utils, "_urlretrieve", no_network)
    page, layout = (re.escape(each) for each in LAYOUTS[name])
    sentence = rf"target {name}: {tmp_path} does not hold it \([^\n]*\)\. It needs {layout}, from {page}; or "
    sentence += rf"train/CLASS/\* and test/CLASS/\*. Set roots.{name} in [^\n]*$"
    with pytest.raises(InputError, match=sentence):
        open_splits(name, tmp_path)


def test_any_target_is_read_from_class_folders_too(tmp_path):
    for split, level in (("train", 10), ("test", 20)):
        for name in ("0", "1"):
            picture(tmp_path / split / name / "1.png", level + int(name))
    sources = open_splits("mnist", tmp_path)
    assert classes_and_levels(sources["test"]) == [("0", 20), ("1", 21)]


def test_a_target_of_one_class_or_with_a_malformed_file_is_refused(tmp_path):
    (tmp_path / "numpy_bitmap").mkdir()
    np.save(tmp_path / "numpy_bitmap/cat.npy", np.zeros((20, 784), np.uint8))
    with pytest.raises(InputError, match="target quickdraw has one class, cat; at least two are needed"):
        open_splits("quickdraw", tmp_path)
    for wrong in (np.zeros((20, 784)), *(np.zeros(shape, np.uint8) for shape in ((20, 783), 784, (1, 784)))):
        np.save(tmp_path / "numpy_bitmap/cat.npy", wrong)
        with pytest.raises(InputError, match=rf"quickdraw: .* does not hold it \(.*cat.npy is {wrong.dtype} of shape"):
            open_splits("quickdraw", tmp_path)
    cub(tmp_path)
    (tmp_path / "train_test_split.txt").write_text("3 1\n1 0\n2 2\n")
    with pytest.raises(InputError, match=r"cub: .* \(train_test_split.txt marks image 2 2, expected 0 or 1\)"):
        open_splits("cub", tmp_path)
    (tmp_path / "images.txt").write_text("9 001.Auk/auk_z.jpg\n")
    with pytest.raises(InputError, match=r"target cub: .* does not hold it \(.*'9'"):
        open_splits("cub", tmp_path)


def small(root: Path, name: str) -> None:
    """Writes the root of a target with few images."""
    if name == "mnist":
        (root / "MNIST/raw").mkdir(parents=True)
        for part in ("train", "t10k"):
            (root / f"MNIST/raw/{part}-images-idx3-ubyte").write_bytes(idx(np.zeros((4, 28, 28))))
            (root / f"MNIST/raw/{part}-labels-idx1-ubyte").write_bytes(idx([0, 1, 2, 3]))
    if name == "dtd":
        (root / "dtd/dtd/labels").mkdir(parents=True)
        for split in ("train", "val", "test"):
            (root / f"dtd/dtd/labels/{split}1.txt").write_text("dotted/a.jpg\nlined/b.jpg\n")
        for each in ("dotted/a", "lined/b"):
            picture(root / f"dtd/dtd/images/{each}.jpg", 9)
    if name == "quickdraw":
        (root / "numpy_bitmap").mkdir()
        for each in ("bee", "cat"):
            np.save(root / f"numpy_bitmap/{each}.npy", np.zeros((20, 784), np.uint8))
    if name == "fungi":
        content = {"images": [{"id": 0, "file_name": "a"}], "annotations": [{"image_id": 0, "category_id": 0}]}
        for split in ("train", "val"):
            content["categories"] = [{"id": 0, "name": "a"}, {"id": 1, "name": "b"}]
            (root / f"{split}.json").write_text(json.dumps(content))


PIPE = "a pipe"
NAN = json.dumps({"images": 5, "annotations": [], "categories": [{"id": 0, "name": "a"}]})


def npy_header(drawings: int) -> bytes:
    """Bytes of an array whose header declares `drawings` drawings, with the pixels of two."""
    file = io.BytesIO()
    about = {"descr": "|u1", "fortran_order": False, "shape": (drawings, 784)}
    np.lib.format.write_array_header_1_0(file, about)
    return file.getvalue() + bytes(2 * 784)


GARBAGE = {
    ("fungi", "train.json"): (b"\xff", b"[" * 10**5, b"[]", b"null", NAN.encode(), PIPE),
    ("quickdraw", "numpy_bitmap/cat.npy"): (
        *(b"", b"PK\x03\x04", b"\x93NUMPY", b"garbage", PIPE),
        *map(npy_header, (10**20, 10**16, 2**60, -5)),
    ),
    ("mnist", "MNIST/raw/train-images-idx3-ubyte"): (b"", b"abc", b"garbage" * 9, idx(np.zeros((4, 20, 20)))),
    ("mnist", "MNIST/raw/train-labels-idx1-ubyte"): (
        b"abc",
        bytes([0, 0, 99, 1, 0, 0]),
        idx([0, 1]),
        idx([0, 1, 2, 99]),
    ),
    ("dtd", "dtd/dtd/labels/test1.txt"): (b"", b"\xff", b"garbage", b"a/b/c", PIPE),
}


@pytest.mark.parametrize(("name", "file", "content"), [(*key, each) for key, some in GARBAGE.items() for each in some])
def test_garbage_in_a_target_s_files_is_one_sentence(name, file, content, tmp_path):
    small(tmp_path, name)
    open_splits(name, tmp_path)
    (tmp_path / file).unlink()
    os.mkfifo(tmp_path / file) if content == PIPE else (tmp_path / file).write_bytes(content)
    with pytest.raises(InputError, match=rf"^target {name}: \S* does not hold it \([^\n]+\)\. It needs [^\n]*$"):
        open_splits(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "there", "hint"),
    [
        ("quickdraw", "cat.npy", r"its \*.npy belong into a folder numpy_bitmap"),
        ("quickdraw", "full/numpy_bitmap/cat.npy", "its folder full is the root"),
        ("trafficsign", "GTSRB/Training/00000/1.ppm", "its folder GTSRB belongs into a folder gtsrb"),
        ("trafficsign", "gtsrb/GTSRB/Final_Training/Images/00000/1.ppm", "Final_Training/Images is GTSRB/Training of"),
    ],
)
def test_files_one_folder_off_are_told_where_they_belong(name, there, hint, tmp_path, monkeypatch):
    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: pytest.fail("a download"))
    monkeypatch.setattr("torchvision.datasets.GTSRB.download", lambda self: None)
    (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / there).touch()
    with pytest.raises(InputError, match=hint):
        open_splits(name, tmp_path)

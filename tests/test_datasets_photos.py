"""`photos`: own images in any layout. Every form ends in the same packed store, and each fault is one sentence."""

import csv
import errno
import inspect
import io
import json
import logging
import math
import os
import sys
import tarfile
import unicodedata
import warnings
import zipfile
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from annulus.datasets import archives, listing, photos
from annulus.datasets.aside import aside
from annulus.datasets.parts import read_names, save_prepared
from annulus.datasets.photos import find, open_photos
from annulus.datasets.prepare import packing, prepare_images
from annulus.datasets.settings import PhotosSettings, PrepareBudget
from annulus.datasets.tables import class_name
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import UNLABELLED, load_images

LIMITS = PrepareBudget(train_images=None, test_images=None, unlabelled_images=None)
COLOUR = {"cat": 40, "dog": 90}
HAS_FILTER = hasattr(tarfile, "data_filter")


def picture(place: Path, red: int, green: int = 0) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (9, 12), (red, green, 0)).save(place)
    return place


def tree(root: Path, each: int = 10) -> Path:
    """Two class folders; red is the image's number, green its class."""
    for name, green in COLOUR.items():
        for number in range(each):
            picture(root / name / f"{number}.png", number, green)
    return root


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    return tmp_path


def prepare_photos(root: Path, store: str = "memory", seed: int = 0, **changes):
    """Prepares the images. Skips the test if they are in a tar and this Python cannot unpack it safely."""
    try:
        return prepare(root, store, seed, **changes)
    except InputError as error:
        if HAS_FILTER or "cannot keep a tar within its folder" not in str(error):
            raise
        pytest.skip("Python before 3.11.4")


def prepare(root: Path, store: str = "memory", seed: int = 0, **changes):
    sizes = {"image_size": 8, "view_size": 8, "validation_fraction": 0.2, "test_fraction": 0.3, "classes": "top"}
    params = PhotosSettings(root=str(root), store=store, **sizes | changes)
    with packing("photos", params) as shards:
        made = prepare_images("photos", params, LIMITS, seed, shards)
        save_prepared(root.parent / "packed", made)
    return made


def colours_by_part(made) -> dict[str, list[tuple[int, int]]]:
    """Red and green of each part's images, which identify an image."""
    parts = {"train": made.train, "validation": made.validation, "test": made.test}
    colours = {name: part.images.take(torch.arange(len(part)))[:, :2, 4, 4] for name, part in parts.items()}
    return {name: sorted(map(tuple, pixels.tolist())) for name, pixels in colours.items()}


EVERY = sorted((number, green) for green in COLOUR.values() for number in range(10))


def check_classes(made, counts=(11, 3, 6)) -> None:
    """The three parts hold all images, each with its class."""
    assert made.train.classes == ("cat", "dog")
    assert tuple(map(len, (made.train, made.validation, made.test))) == counts
    assert sorted(image for part in colours_by_part(made).values() for image in part) == EVERY
    for part in (made.train, made.validation, made.test):
        green = part.images.take(torch.arange(len(part)))[:, 1, 4, 4]
        assert [COLOUR[part.classes[label]] for label in part.labels] == green.tolist()


@pytest.mark.parametrize("store", ["memory", "raw", "jpeg"])
def test_a_flat_folder_has_no_class_and_ends_in_the_packed_store(here, store):
    for number in range(20):
        picture(here / "own" / f"{number}.jpg", number)
    made = prepare_photos(here / "own", store)
    assert [len(made.train), len(made.validation), len(made.test)] == [14, 0, 6]
    assert made.train.classes == ()
    assert set(made.train.labels.tolist()) == {UNLABELLED}
    again = load_images(here / "packed/test.safetensors")
    assert (again.digest, again.classes, again.labels.tolist()) == (made.test.digest, (), [UNLABELLED] * 6)
    assert again.evaluated.tolist() == list(range(6))
    metrics = made.metrics()
    assert [metrics[name] for name in ("train_images", "unlabelled_images", "classes")] == [14, 14, 0]


def test_class_folders_are_split_by_share_and_seed_evenly_and_the_split_is_listed(here):
    tree(here / "own")
    made, again, other = (prepare_photos(here / "own", seed=seed) for seed in (0, 0, 1))
    check_classes(made)
    assert torch.bincount(made.test.labels).tolist() == [3, 3]
    assert made.split == again.split != other.split
    assert {part: len(names) for part, names in made.split.items()} == {"train": 11, "validation": 3, "test": 6}
    assert sorted(name for names in made.split.values() for name in names) == sorted(
        f"{kind}/{number}.png" for kind in COLOUR for number in range(10)
    )
    for part in ("train", "validation", "test"):
        listed = sorted((int(Path(name).stem), COLOUR[Path(name).parent.name]) for name in made.split[part])
        assert listed == colours_by_part(made)[part]


@pytest.mark.parametrize(("second", "counts"), [("val", (16, 4, 20)), ("test", (16, 4, 20))])
def test_train_with_val_or_test_is_taken_as_it_is(here, second, counts):
    tree(here / "own/train")
    tree(here / "own" / second)
    made = prepare_photos(here / "own")
    assert tuple(map(len, (made.train, made.validation, made.test))) == counts
    assert made.split == {}
    names = read_names(here / "packed")
    assert names == made.names
    for part, images in (("train", made.train), ("validation", made.validation), ("test", made.test)):
        files = [Path(name) for name in names[part]]
        assert [int(file.stem) for file in files] == images.images.take(torch.arange(len(images)))[:, 0, 4, 4].tolist()
        assert [file.parent.name for file in files] == [images.classes[label] for label in images.labels]


def test_with_all_three_val_is_the_validation_part_and_a_folder_beside_them_is_named(here, caplog):
    tree(here / "own/train")
    tree(here / "own/valid", each=2)
    tree(here / "own/test", each=3)
    picture(here / "own/unlabelled/1.png", 1)
    picture(here / "own/more/1.png", 1)
    made = prepare_photos(here / "own")
    assert tuple(map(len, (made.train, made.validation, made.test))) == (21, 4, 6)
    assert (made.train.labels == UNLABELLED).sum() == 1
    assert "1 images beside test, train, valid are left out: more/1.png" in caplog.text


@pytest.mark.parametrize(
    ("classes", "expected"),
    [("top", ("city", "wild")), ("innermost", ("city/cat", "wild/cat", "wild/wolf")), ("none", ())],
)
def test_nested_folders_are_classes_as_the_settings_say(here, classes, expected):
    for place in ("city/cat", "wild/cat", "wild/wolf"):
        for number in range(4):
            picture(here / "own" / place / f"{number}.png", number)
    assert prepare_photos(here / "own", classes=classes).train.classes == expected


def test_one_folder_around_all_is_no_class_and_one_class_tells_nothing_apart(here):
    tree(here / "own/pets")
    check_classes(prepare_photos(here / "own"))
    for number in range(4):
        picture(here / "one/cat" / f"{number}.png", number)
    assert prepare_photos(here / "one").train.classes == ()


def test_test_images_without_a_class_give_way_to_the_validation_part_and_are_refused_without_one(here):
    tree(here / "own/train")
    picture(here / "own/test/1.png", 1)
    with pytest.raises(InputError, match=r"no test image has a class; put the test images into class folders, move"):
        prepare_photos(here / "own")
    tree(here / "own/val", each=2)
    made = prepare_photos(here / "own")
    assert tuple(map(len, (made.train, made.validation, made.test))) == (16, 4, 4)


def test_a_part_that_lacks_a_class_is_refused_before_a_file_is_read(here, monkeypatch):
    tree(here / "own/train")
    picture(here / "own/test/cat/1.png", 1)
    monkeypatch.setattr("annulus.datasets.decode.decode", None)
    with pytest.raises(InputError, match=r"no test image is of dog; every class needs one: add some, or remove"):
        prepare_photos(here / "own")


def test_a_folder_of_a_split_without_another_is_a_class_and_is_named(here, caplog):
    tree(here / "own")
    tree(here / "own/train")
    assert prepare_photos(here / "own").train.classes == ("cat", "dog", "train")
    assert "train taken as a class; only train/ with test/ or val/ beside it divides the images" in caplog.text


def test_classes_of_one_folder_stay_where_images_without_a_class_lie_beside_it(here, caplog):
    tree(here / "own/train")
    picture(here / "own/unlabelled/more/1.png", 1)
    made = prepare_photos(here / "own")
    assert made.train.classes == ("cat", "dog")
    assert tuple(map(len, (made.train, made.validation, made.test))) == (12, 3, 6)
    assert (made.train.labels == UNLABELLED).sum() == 1
    assert "WARNING" not in caplog.text


@pytest.mark.parametrize("content", [None, "notes.txt"])
def test_a_folder_of_a_split_without_images_is_named(here, content, caplog):
    tree(here / "own/pets/train")
    (here / "own/pets/Test").mkdir()
    if content:
        (here / "own/pets/Test" / content).write_text("hello")
    check_classes(prepare_photos(here / "own"))
    assert "own: folders of a split without an image: pets/Test" in caplog.text


def test_folders_that_are_named_like_splits_and_count_as_classes_are_named(here, caplog):
    tree(here / "own/train2017")
    tree(here / "own/val2017")
    assert prepare_photos(here / "own").train.classes == ("train2017", "val2017")
    assert "own: train2017, val2017 taken as a class; only train/ with test/ or val/ beside it" in caplog.text


def test_folders_deeper_than_python_calls_are_read(here):
    file = picture(here / "own" / Path(*["a"] * 300) / "1.png", 1)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        result = find(here / "own", here / "unpacked")
    finally:
        sys.setrecursionlimit(limit)
    assert result.root / result.names[0] == file


def table(rows: list[dict[str, str]], path: Path, delimiter: str = ",") -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return path


def labelled_rows(root: Path, **more: str) -> list[dict[str, str]]:
    """Rows of a table of the images of `tree` below root/images, with their labels."""
    tree(root / "images")
    paths = [(f"images/{kind}/{number}.png", kind) for kind in COLOUR for number in range(10)]
    return [{"File_Name": path, "label": kind, **more} for path, kind in paths]


@pytest.mark.parametrize("kind", ["csv", "tsv", "parquet"])
def test_a_table_of_paths_and_labels(here, kind):
    rows = labelled_rows(here)
    if kind == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        elsewhere = here.with_name("elsewhere")  # one path leads out of the table's folder
        elsewhere.mkdir()
        moved = (here / rows[0]["File_Name"]).rename(elsewhere / "moved.png")
        rows[0] |= {"File_Name": str(moved)}
        parquet.write_table(arrow.Table.from_pylist(rows), here / "own.parquet")
    else:
        table(rows, here / f"own.{kind}", "\t" if kind == "tsv" else ",")
    check_classes(prepare_photos(here / f"own.{kind}"))


def test_a_table_may_say_the_split_name_absolute_paths_and_files_that_are_missing(here, caplog):
    rows = labelled_rows(here, split="train")
    for row in rows[7:10] + rows[17:]:
        row["split"] = "val"
    rows[0]["File_Name"] = str(here / rows[0]["File_Name"])
    rows.append({"File_Name": "images/gone.png", "label": "cat", "split": "train"})
    (here / "tables").mkdir()
    for row in rows[1:]:
        row["File_Name"] = f"../{row['File_Name']}"
    check_classes(prepare_photos(table(rows, here / "tables/own.csv")), (11, 3, 6))
    assert "1 of 21 image files cannot be read: ../images/gone.png (No such file or directory)" in caplog.text


def test_rows_without_a_path_are_counted_and_labels_have_no_blanks_around(here, caplog):
    rows = labelled_rows(here)
    rows[0]["label"] = " cat "
    blank = [{"File_Name": path, "label": "dog"} for path in ("", " ")]
    check_classes(prepare_photos(table([*rows, *blank], here / "own.csv")))
    assert "own.csv: 2 rows without a File_Name are left out" in caplog.text


@pytest.mark.parametrize("line", ["images/cat/3.png", "images/cat/3.png,cat,more"])
def test_a_row_of_another_number_of_fields_is_refused_with_its_line(here, line):
    path = table(labelled_rows(here), here / "own.csv")
    path.write_text(path.read_text().replace("images/cat/3.png,cat", line))
    with pytest.raises(InputError, match=r"own.csv: line 5 has other than the 2 fields of the header; correct it"):
        prepare_photos(path)


def test_words_of_a_split_that_are_not_known_are_named(here, caplog):
    rows = labelled_rows(here, split="train")
    rows[3]["split"] = rows[14]["split"] = "odd"
    with pytest.raises(InputError, match=r"18 are of split train, 2 are of no split, and none is test or val"):
        prepare_photos(table(rows, here / "own.csv"))
    assert "own.csv: column split has words that name no split: odd" in caplog.text
    for row in rows:
        row["split"] = row["split"].replace("train", "even")
    check_classes(prepare_photos(table(rows, here / "own.csv")))
    assert "own.csv: column split has words that name no split: even, odd" in caplog.text
    for row in rows:
        row["split"] = row["split"].replace("even", "train").replace("odd", "Eval")
    made = prepare_photos(table(rows, here / "own.csv"))
    assert (made.split, colours_by_part(made)["test"]) == ({}, [(3, 40), (4, 90)])


@pytest.mark.parametrize(
    ("first", "second", "lack"),
    [("test", "", "train"), ("", "val", "train"), ("train", "", "test"), ("val", "test", "train")],
)
@pytest.mark.parametrize("form", ["table", "shards", "saved"])
def test_splits_of_which_a_part_is_unknown_are_refused_and_not_drawn_anew(here, form, first, second, lack):
    rows = labelled_rows(here)
    words = [first if row["label"] == "cat" else second for row in rows]
    if form == "table":
        path = table([row | {"split": word} for row, word in zip(rows, words, strict=True)], here / "own.csv")
    elif form == "shards":
        path = here / "own"
        for word, kind in ((first, "cat"), (second, "dog")):
            files = {row["File_Name"]: here / row["File_Name"] for row in rows if row["label"] == kind}
            tar(path / f"{word or 'part'}-0.tar", files)
    else:
        datasets = pytest.importorskip("datasets")
        path, parts = here / "own", {}
        for word, kind in ((first, "cat"), (second, "dog")):
            images = [str(here / row["File_Name"]) for row in rows if row["label"] == kind]
            columns = {"image": images, "label": [kind] * len(images)}
            parts[word or "part"] = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
        datasets.DatasetDict(parts).save_to_disk(path)
    with pytest.raises(InputError, match=rf"of the images 10 are of .*, 10 are of .*, and none is {lack}.*; mark the"):
        prepare_photos(path)


@pytest.mark.parametrize("word", ["train", "test", ""])
def test_one_split_of_all_images_divides_nothing_and_is_drawn(here, word):
    check_classes(prepare_photos(table(labelled_rows(here, split=word), here / "own.csv")))


def test_a_class_with_a_quoted_newline_is_not_the_one_without_and_is_refused(here):
    rows = labelled_rows(here)
    rows[0]["label"] = "c\nat"
    with pytest.raises(InputError, match=r"the class name 'c\\nat' is not printable"):
        prepare_photos(table(rows, here / "own.csv"))


def test_a_folder_that_datasets_saved_has_the_names_of_its_classes(here):
    datasets = pytest.importorskip("datasets")
    tree(here / "images")
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["dog", "cat"])})
    paths = [(str(here / f"images/{kind}/{number}.png"), kind) for kind in COLOUR for number in range(10)]
    columns = {"image": [path for path, _ in paths], "label": [["dog", "cat"].index(kind) for _, kind in paths]}
    whole = datasets.Dataset.from_dict(columns, features=features)
    whole.save_to_disk(here / "whole")
    check_classes(prepare_photos(here / "whole"))
    parts = whole.train_test_split(test_size=5, seed=0)
    parts.save_to_disk(here / "parts")
    made = prepare_photos(here / "parts")
    assert (len(made.train) + len(made.validation), len(made.test), made.split) == (15, 5, {})
    (here / "shards/data").mkdir(parents=True)
    for split, part in parts.items():  # the form of a hub: images as bytes, names of classes in the metadata
        part.to_parquet(here / f"shards/data/{split}-00000-of-00001.parquet")
    same = prepare_photos(here / "shards")
    assert (colours_by_part(same)["test"], same.train.classes) == (colours_by_part(made)["test"], ("cat", "dog"))


def test_parquet_with_the_bytes_of_images(here):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    tree(here / "images")
    rows = [
        {"picture": (here / f"images/{kind}/{number}.png").read_bytes(), "class": kind}
        for kind in COLOUR
        for number in range(10)
    ]
    parquet.write_table(arrow.Table.from_pylist(rows), here / "own.parquet")
    check_classes(prepare_photos(here / "own.parquet"))


@pytest.mark.parametrize("form", ["parquet", "saved"])
def test_of_several_columns_of_images_the_one_of_a_usual_name_is_taken(here, form):
    arrow, datasets = pytest.importorskip("pyarrow"), pytest.importorskip("datasets")
    from pyarrow import parquet

    tree(here / "images")
    files = [here / f"images/{kind}/{number}.png" for kind in COLOUR for number in range(10)]
    mask = picture(here / "mask.png", 200)

    def write_set(column: str) -> Path:
        columns = {"mask": [mask] * 20, column: files, "label": [file.parent.name for file in files]}
        if form == "saved":
            made = datasets.Dataset.from_dict({name: list(map(str, values)) for name, values in columns.items()})
            for name in ("mask", column):
                made = made.cast_column(name, datasets.Image())
            made.save_to_disk(here / column)
            return here / column
        columns |= {name: [file.read_bytes() for file in columns[name]] for name in ("mask", column)}
        parquet.write_table(arrow.table(columns), here / f"{column}.parquet")
        return here / f"{column}.parquet"

    check_classes(prepare_photos(write_set("Image")))
    with pytest.raises(
        InputError, match=r"photo\S* has 2 columns of images, mask, photo; rename the one to use to image"
    ):
        prepare_photos(write_set("photo"))


def add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    about = tarfile.TarInfo(name)
    about.size = len(content)
    archive.addfile(about, io.BytesIO(content))


@pytest.mark.parametrize("label", ["cls", "json"])
def test_webdataset_tars(here, label):
    pytest.importorskip("webdataset")
    tree(here / "images")
    (here / "own").mkdir()
    for shard, kind in enumerate(COLOUR):
        with tarfile.open(here / f"own/{shard:06}.tar", "w") as archive:
            for number in range(10):
                key = f"{shard}{number:03}"
                add(archive, f"{key}.png", (here / f"images/{kind}/{number}.png").read_bytes())
                text = json.dumps({"label": kind, "caption": "a pet"}) if label == "json" else kind
                add(archive, f"{key}.{label}", text.encode())
    check_classes(prepare_photos(here / "own"))


@pytest.mark.parametrize("name", ["own.zip", "own.tar", "own.tar.gz", "own.tar.xz", "own.tgz"])
def test_an_archive_of_class_folders_with_what_macos_leaves(here, name):
    tree(here / "images/pets")
    (here / "images/__MACOSX").mkdir()
    (here / "images/__MACOSX/._1.png").write_bytes(b"fork")
    if name.endswith(".zip"):
        with zipfile.ZipFile(here / name, "w") as archive:
            for path in (here / "images").rglob("*.png"):
                archive.write(path, path.relative_to(here / "images"))
    else:
        (here / "images/pets/_annotations.coco.json").write_text("{}")  # belongs to no image
        coded = {"own.tar": "", "own.tar.xz": "xz"}.get(name, "gz")
        with tarfile.open(here / name, f"w:{coded}") as archive:
            archive.add(here / "images", "images")
    check_classes(prepare_photos(here / name))
    assert not list((here / ".annulus").glob("unpacked-*")), "what was unpacked is gone"


def tar(place: Path, files: dict[str, Path], *more: tarfile.TarInfo) -> Path:
    """A tar of these files by name, then of members without content."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(place, "w") as archive:
        for name, file in files.items():
            archive.add(file, name)
        for member in more:
            archive.addfile(member)
    return place


def named_files(here: Path, form: str) -> dict[str, Path]:
    """Images of `tree` by their names, which `form` makes of {kind} and {number}."""
    tree(here / "images")
    return {
        form.format(kind=kind, number=number): here / f"images/{kind}/{number}.png"
        for kind in COLOUR
        for number in range(10)
    }


@pytest.mark.parametrize("form", ["{kind}/{number}.png", "pets/{kind}/{number}.png"])
@pytest.mark.parametrize("cut", [7, 10])
def test_several_tars_are_parts_of_one_tree(here, form, cut):
    files = list(named_files(here, form).items())
    for number, part in enumerate((files[:cut], files[cut:])):
        tar(here / f"own/{number}.tar", dict(part))
    check_classes(prepare_photos(here / "own"))


def test_a_tar_s_name_or_its_folders_say_its_split(here):
    files = list(named_files(here, "{kind}/{number}.png").items())
    train, test = dict(files[:7] + files[10:17]), dict(files[7:10] + files[17:])
    tar(here / "named/train-0.tar", train), tar(here / "named/test-0.tar", test)
    tar(here / "inside/0.tar", {f"train/{name}": file for name, file in train.items()})
    tar(here / "inside/1.tar", {f"test/{name}": file for name, file in test.items()})
    for own in ("named", "inside"):
        made = prepare_photos(here / own)
        check_classes(made)
        assert (made.split, colours_by_part(made)["test"]) == (
            {},
            [(n, green) for n in (7, 8, 9) for green in (40, 90)],
        )


def test_links_within_a_tar_are_images_and_those_that_lead_out_are_named(here, caplog):
    files = named_files(here, "{kind}/{number}.png")
    hard, soft, outside = (tarfile.TarInfo(f"cat/{name}.png") for name in ("hard", "soft", "outside"))
    hard.type, hard.linkname = tarfile.LNKTYPE, "cat/1.png"
    soft.type, soft.linkname = tarfile.SYMTYPE, "2.png"
    outside.type, outside.linkname = tarfile.SYMTYPE, "/etc/hostname"
    made = prepare_photos(tar(here / "own.tar", files, hard, soft, outside))
    assert sorted(image for part in colours_by_part(made).values() for image in part) == sorted(
        [*EVERY, (1, 40), (2, 40)]
    )
    assert "no images, left out (1): cat/outside.png" in caplog.text


@pytest.mark.parametrize("fault", ["header", "cut in a header", "cut between files"])
def test_a_tar_that_is_damaged_or_cut_is_refused(here, fault):
    path = tar(here / "own.tar", named_files(here, "{kind}/{number}.png"))
    with tarfile.open(path) as archive:
        start = archive.getmembers()[5].offset
    content = bytearray(path.read_bytes())
    if fault == "header":
        content[start + 150] ^= 1
    path.write_bytes(content if fault == "header" else content[: start + 100 * (fault == "cut in a header")])
    with pytest.raises(InputError, match=r"own.tar is cut or damaged after 5 files; make or copy it again"):
        prepare_photos(path)


def test_a_zip_of_windows_has_folders_and_one_with_a_name_twice_is_refused(here):
    files = named_files(here, "{kind}\\{number}.png")
    with zipfile.ZipFile(here / "own.zip", "w") as archive:
        for name, file in files.items():
            archive.writestr(zipfile.ZipInfo(name), file.read_bytes())
    check_classes(prepare_photos(here / "own.zip"))
    with zipfile.ZipFile(here / "own.zip", "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr(zipfile.ZipInfo("cat\\3.png"), b"")
    with pytest.raises(InputError, match=r"own.zip has 1 names twice, 'cat/3.png' first; pack it again"):
        prepare_photos(here / "own.zip")


@pytest.mark.parametrize("again", ["cat/3.png", "./cat/3.png", "cat//3.png"])
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_name_that_stands_twice_in_an_archive_is_refused_in_any_writing(here, kind, again):
    files = [*named_files(here, "{kind}/{number}.png").items(), (again, here / "images/dog/3.png")]
    if kind == "zip":
        with zipfile.ZipFile(here / "own.zip", "w") as archive, warnings.catch_warnings(action="ignore"):
            for name, file in files:
                archive.writestr(name, file.read_bytes())
    else:
        with tarfile.open(here / "own.tar", "w") as archive:
            for name, file in files:
                add(archive, name, file.read_bytes())
    with pytest.raises(InputError, match=rf"own.{kind} has 1 names twice, 'cat/3.png' first; pack it again"):
        prepare_photos(here / f"own.{kind}")


def test_a_sample_whose_files_are_not_neighbours_is_refused(here):
    pytest.importorskip("webdataset")
    tree(here / "images", each=2)
    with tarfile.open(here / "own.tar", "w") as archive:
        for number in range(2):
            add(archive, f"{number}.png", (here / f"images/cat/{number}.png").read_bytes())
        for number in range(2):
            add(archive, f"{number}.cls", b"cat")
    with pytest.raises(InputError, match=r"the files of the sample 0 do not follow each other; .* `tar --sort=name`"):
        prepare_photos(here / "own.tar")


def test_a_full_disk_is_no_fault_of_the_archive(here, monkeypatch):
    path = tar(here / "own.tar", named_files(here, "{kind}/{number}.png"))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    with pytest.raises(
        InputError, match=r"own.tar cannot be unpacked: the disk is full; free some space, then run again"
    ):
        prepare_photos(path)


def test_a_sample_of_two_images_is_refused(here):
    pytest.importorskip("webdataset")
    content = picture(here / "1.png", 1).read_bytes()
    with tarfile.open(here / "own.tar", "w") as archive:
        for name in ("0.left.png", "0.right.png"):
            add(archive, name, content)
        add(archive, "0.cls", b"3")
    with pytest.raises(InputError, match=r"own.tar: the sample 0 has 2 images, left.png, right.png; give one a sample"):
        prepare_photos(here / "own.tar")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_writes_nothing_outside_of_its_folder(here, kind):
    content = picture(here / "images/1.png", 1).read_bytes()
    if kind == "zip":
        with zipfile.ZipFile(here / "own.zip", "w") as archive:
            archive.writestr("../../outside.png", content)
    else:
        with tarfile.open(here / "own.tar", "w") as archive:
            add(archive, "../../outside.png", content)
    with pytest.raises(InputError, match="outside"):
        prepare_photos(here / f"own.{kind}")
    assert not list(here.rglob("outside.png"))


def test_a_python_whose_tarfile_has_no_filter_is_named_with_the_way_out(here, monkeypatch):
    tar(here / "own.tar", named_files(here, "{kind}/{number}.png"))
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    with pytest.raises(InputError, match=r"cannot keep a tar within its folder; unpack .*own.tar and give its folder"):
        prepare(here / "own.tar")


def test_an_archive_that_would_fill_the_disk_is_refused(here, monkeypatch):
    tree(here / "images")
    with zipfile.ZipFile(here / "own.zip", "w") as archive:
        archive.write(here / "images/cat/1.png", "1.png")
    monkeypatch.setattr("annulus.datasets.archives.RESERVED", 2**60)
    with pytest.raises(InputError, match=r"own.zip unpacks to \d+ bytes, and .* free some space, or unpack"):
        prepare_photos(here / "own.zip")


def test_what_a_killed_process_unpacked_is_removed_and_what_one_holds_is_not(here):
    leftover = picture(here / ".annulus/unpacked-killed/files/0/cat/1.png", 1)
    with aside() as held:
        assert not leftover.parents[3].exists()
        kept = picture(held / "1.png", 1)
        check_classes(prepare_photos(tar(here / "own.tar", named_files(here, "{kind}/{number}.png"))))
        assert kept.exists()
    assert not list((here / ".annulus").glob("unpacked-*"))


@pytest.mark.parametrize("kind", ["tar", "parquet"])
def test_room_for_all_shards_is_looked_for_before_the_first_is_unpacked(here, kind, monkeypatch):
    files = list(named_files(here, "{kind}/{number}.png").items())
    for number, part in enumerate((files[:10], files[10:])):
        path = here / f"own/{number}.{kind}"
        if kind == "tar":
            tar(path, dict(part))
        else:
            arrow = pytest.importorskip("pyarrow")
            from pyarrow import parquet

            path.parent.mkdir(exist_ok=True)
            parquet.write_table(arrow.table({"image": [file.read_bytes() for _, file in part]}), path)
    one = sum(file.stat().st_size for _, file in files[:10]) if kind == "tar" else path.stat().st_size
    monkeypatch.setattr(archives, "RESERVED", 0)
    monkeypatch.setattr(archives.shutil, "disk_usage", lambda _: SimpleNamespace(free=one * 3 // 2))
    with pytest.raises(InputError, match=r"own unpacks to [\d,]+ bytes, and .* free some space"):
        find(here / "own", here / "unpacked")
    assert not (here / "unpacked").exists()


def test_what_is_no_image_and_what_cannot_be_read_is_named_and_left_out(here, caplog):
    tree(here / "own")
    (here / "own/notes.txt").write_text("hello")
    (here / "own/cat/list.csv").write_text("a,b")
    (here / "own/cat/cut.jpg").write_bytes(b"\xff\xd8\xff")
    with caplog.at_level(logging.WARNING, "annulus"):
        made = prepare_photos(here / "own")
    assert sorted(image for part in colours_by_part(made).values() for image in part) == EVERY
    assert made.metrics()["bad_files"] == 1
    assert "no images, left out (2): cat/list.csv, notes.txt" in caplog.text
    assert "1 of 21 image files cannot be read: cat/cut.jpg" in caplog.text


def test_heic_is_read_with_pillow_heif_and_without_it_is_named(here, caplog, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    tree(here / "own")
    heif.from_pillow(Image.new("RGB", (64, 64), (200, 100, 50))).save(here / "own/cat/phone.HEIC", quality=95)
    made = prepare_photos(here / "own")
    assert made.metrics()["bad_files"] == 0
    assert any(abs(red - 200) < 8 for part in colours_by_part(made).values() for red, _ in part)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert prepare_photos(here / "own").metrics()["bad_files"] == 1
    assert "cat/phone.HEIC (HEIC, which pillow-heif reads: pip install pillow-heif)" in caplog.text


@pytest.mark.parametrize(
    ("package", "name"), [("pyarrow", "own.parquet"), ("datasets", "saved"), ("webdataset", "own.tar")]
)
def test_a_package_that_is_missing_is_one_sentence(here, package, name, monkeypatch):
    (here / "own.parquet").touch()
    (here / "saved").mkdir()
    (here / "saved/dataset_dict.json").touch()
    with tarfile.open(here / "own.tar", "w") as archive:
        add(archive, "1.png", b"")
        add(archive, "1.cls", b"3")
    find_spec = sys.modules["annulus.errors"].find_spec
    monkeypatch.setattr("annulus.errors.find_spec", lambda module: None if module == package else find_spec(module))
    with pytest.raises(InputError, match=rf"needs {package}, which this Python.*annulus-ssl\[formats\]"):
        find(here / name, here / "unpacked")


def test_paths_that_cannot_be_are_one_sentence_with_what_is_expected(here):
    with pytest.raises(InputError, match=r"datasets.photos.root: .*gone does not exist; give a folder of images"):
        prepare_photos(here / "gone")
    (here / "empty").mkdir()
    with pytest.raises(InputError, match="empty holds no images; give a folder of images"):
        prepare_photos(here / "empty")
    (here / "own.doc").touch()
    with pytest.raises(InputError, match=r"own.doc is a file of another kind; give a folder of images"):
        prepare_photos(here / "own.doc")
    for name in ("own.zip", "own.tar", "own.parquet"):
        (here / name).write_bytes(b"no archive")
        with pytest.raises(InputError, match=f"{name} cannot be read .*; make or copy it again"):
            prepare_photos(here / name)
    with pytest.raises(InputError, match=r"has the columns a, b, and no column of paths; name one of them path, file"):
        prepare_photos(table([{"a": "1", "b": "2"}], here / "own.csv"))
    tree(here / "own")
    picture(here / "own/owl/1.png", 1)
    with pytest.raises(InputError, match=r"there is only one image of owl; each class needs two, to train"):
        prepare_photos(here / "own")
    assert prepare_photos(here / "own", classes="none").train.classes == ()


def test_a_folder_that_may_not_be_entered_is_one_sentence(here, monkeypatch):
    def refuse(path, **_):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    tree(here / "own")
    monkeypatch.setattr(photos.unpack, "is_saved_to_disk", refuse)  # chmod would not stop root
    with pytest.raises(InputError, match=r"own cannot be opened: Permission denied; give a folder of images"):
        find(here / "own", here / "unpacked")


def test_a_link_to_a_folder_around_it_is_refused(here):
    tree(here / "own")
    (here / "own/cat/loop").symlink_to(here / "own")
    with pytest.raises(InputError, match="own/cat/loop is a link to a folder around it; remove the link"):
        find(here / "own", here / "unpacked")


@pytest.mark.parametrize(
    ("classes", "sentence"),
    [
        (
            "top",
            r"no test image can be used of cat; every class needs one, and cat/\d.png \(empty file\) cannot be read: r",
        ),
        ("none", r"no test image can be read: \w+/\d.png \(empty file\), \w+/\d.png .*; repair or remove them"),
    ],
)
def test_where_the_drawn_test_images_are_unreadable_they_are_named(here, classes, sentence):
    tree(here / "own")
    for name in prepare_photos(here / "own", classes=classes, test_fraction=0.1).split["test"]:
        if classes == "none" or name.startswith("cat"):
            (here / "own" / name).write_bytes(b"")
    with pytest.raises(InputError, match=sentence):
        prepare_photos(here / "own", classes=classes, test_fraction=0.1)


def test_where_no_image_can_be_read_the_sentence_names_no_limit_that_photos_have_not(here):
    for number in range(4):
        picture(here / "own" / f"{number}.png", number).write_bytes(b"")
    with pytest.raises(InputError, match=r"4 of 4 image files cannot be read: .*; fix or remove them$"):
        prepare_photos(here / "own")


@pytest.mark.parametrize("fraction", [0.01, 0.25, 0.5])
@pytest.mark.parametrize("classes", [[], ["a", "b", "c"]])
def test_test_images_are_those_of_one_comparison_a_class(fraction, classes):
    labels = torch.tensor([0] * 10 + [1] * 2 + [2] * 23 + [UNLABELLED] * 5 if classes else [UNLABELLED] * 40)
    order = torch.randperm(40, generator=generator(3, "test images"))
    expected = []
    for label in range(3) if classes else [UNLABELLED]:
        rows = order[labels[order] == label].tolist()
        expected += rows[: min(max(round(fraction * len(rows)), 1), len(rows) - 1)]
    assert photos._tested(labels, classes, fraction, 3).tolist() == sorted(expected)


def test_sources_of_no_class_are_limited_by_their_split(here):
    for number in range(20):
        picture(here / "own" / f"{number}.png", number)
    sources = open_photos(find(here / "own", here / "unpacked"), 8, 0.25, 0)
    assert {part: len(source.labels) for part, source in sources.items()} == {"train": 15, "test": 5}
    settings = {"root": str(here / "own"), "image_size": 8, "view_size": 8, "validation_fraction": 0.0}
    params = PhotosSettings(**settings, test_fraction=0.25, classes="top", store="memory")
    limits = PrepareBudget(train_images=6, test_images=2, unlabelled_images=0)
    made = prepare_images("photos", params, limits, 0)
    assert [len(made.train), len(made.test)] == [6, 2]


ASIDE = ("@eaDir", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found", "__MACOSX", "FOUND.000")


@pytest.mark.parametrize("form", ["folder", "zip", "tar", "tars of samples"])
def test_folders_that_systems_and_file_servers_add_are_left_alone(here, form):
    tree(here / "own")
    for name in (*ASIDE, ".Trashes", ".thumbnails"):
        picture(here / "own" / name / "cat.png", 7)
        picture(here / "own/cat" / name.lower() / "3.png/SYNOPHOTO_THUMB_M.jpg", 7)
    (here / "own/cat/Thumbs.db").write_bytes(b"thumbs")
    files = [path for path in sorted((here / "own").rglob("*")) if path.is_file()]
    path = here / f"own.{form}"
    if form == "folder":
        path = here / "own"
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for file in files:
                archive.write(file, file.relative_to(here / "own"))
    else:
        pytest.importorskip("webdataset")
        path = path.with_suffix(".tar")
        with tarfile.open(path, "w") as archive:
            for file in files:
                name = file.relative_to(here / "own")
                archive.add(file, str(name))
                if form != "tar":
                    add(archive, str(name.with_suffix(".cls")), name.parts[0].encode())
    check_classes(prepare_photos(path))


def zip_with_names(path: Path, names: list[tuple[bytes, bool]], system: int, content: bytes) -> Path:
    """Writes a zip of one file under these names in bytes, with the UTF-8 flag or without."""
    with zipfile.ZipFile(path, "w") as archive:
        for number, (name, _) in enumerate(names):
            member = zipfile.ZipInfo(f"{number:04}".ljust(len(name), "_"))
            member.create_system = system
            archive.writestr(member, content)
        places = [member.header_offset for member in archive.infolist()]
        start = archive.start_dir
    whole = bytearray(path.read_bytes())
    for number, (name, flag) in enumerate(names):
        stub = f"{number:04}".ljust(len(name), "_").encode()
        for at, flags in ((whole.index(stub, places[number]), -24), (whole.index(stub, start), -38)):
            whole[at : at + len(name)] = name
            whole[at + flags + 1] |= 8 * flag
    path.write_bytes(whole)
    return path


@pytest.mark.parametrize(
    ("name", "system", "page", "flag"),
    [
        ("caf\u00e9", 3, "utf-8", True),
        ("caf\u00e9", 3, "utf-8", False),  # Linux
        ("cafe\u0301", 3, "utf-8", False),  # macOS
        ("caf\u00e9", 0, "cp437", False),  # Windows
        ("caf\u00e9", 3, "cp437", False),
        ("\u00c1gua", 0, "cp850", False),
        ("caf\u00e9", 3, "cp1252", False),
        ("\u043a\u043e\u0442", 0, "cp866", False),
        ("\u5c0f\u72d7", 0, "gbk", False),
    ],
)
def test_a_folder_is_one_class_in_the_zip_of_any_system(here, name, system, page, flag):
    content = picture(here / "1.png", 1).read_bytes()
    coded = [f"{name}/{number}.png".encode(page) for number in range(3)]
    names = [*((one, flag) for one in coded), (b"dog/1.png", False)]
    names += [(f"{unicodedata.normalize('NFC', name)}/9.png".encode(), True)]  # added by a modern program
    result = find(zip_with_names(here / "own.zip", names, system, content), here / "unpacked")
    assert sorted(result.classes) == sorted(["dog", *[unicodedata.normalize("NFC", name)] * 4])


def test_a_zip_s_name_of_no_script_keeps_python_s_letters(here):
    content = picture(here / "1.png", 1).read_bytes()
    names = [(b"20\xf8/1.png", False), (b"caf\x82/20\xf8.png", False)]  # degrees
    result = find(zip_with_names(here / "own.zip", names, 0, content), here / "unpacked")
    assert sorted(result.classes) == ["20\u00b0", "caf\u00e9"]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("pa.array([['cat']] * 10 + [['dog']] * 10)", ("cat", "dog")),
        ("pa.array(['cat'] * 10 + ['dog'] * 10).dictionary_encode()", ("cat", "dog")),
        ("pd.Series(['cat'] * 10 + ['dog'] * 10, dtype='category')", ("cat", "dog")),
        ("pa.array([b'cat'] * 10 + [b'dog'] * 10)", ("cat", "dog")),
        ("pa.array(['cafe\\u0301'] * 10 + ['dog'] * 10)", ("caf\u00e9", "dog")),
        ("pa.array([False] * 10 + [True] * 10)", ("False", "True")),
        ("pd.Series([0.0] * 10 + [1.0] * 10)", ("0", "1")),
        ("pd.Series([0] * 10 + [1] * 10, dtype='Int64')", ("0", "1")),
        ("pa.array([Decimal('0.00')] * 10 + [Decimal('1.00')] * 10)", ("0", "1")),
        ("pa.array([0.5] * 10 + [1.5] * 10)", ("0.5", "1.5")),
        ("np.array([0] * 10 + [1] * 10, np.uint8)", ("0", "1")),
    ],
)
@pytest.mark.parametrize("form", ["paths", "images"])
def test_labels_of_each_column_type_are_their_plain_text(here, column, expected, form):
    pa, pd, np = (pytest.importorskip(name) for name in ("pyarrow", "pandas", "numpy"))
    from pyarrow import parquet

    labels = eval(column, {"pa": pa, "pd": pd, "np": np, "Decimal": Decimal})
    files = [row["File_Name"] for row in labelled_rows(here)]
    images = files if form == "paths" else [(here / name).read_bytes() for name in files]
    parquet.write_table(pa.table({"image": images, "label": pa.array(labels)}), here / "own.parquet")
    result = find(here / "own.parquet", here / "unpacked")
    assert result.classes == (expected[0],) * 10 + (expected[1],) * 10


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (math.nan, None),
        (None, None),
        ([], None),
        (["nan"], None),
        (["cat", "dog"], None),
        (["cat", "cat"], "cat"),
        (-1.0, "-1"),
        ("1.0", "1"),
        ("1.05", "1.05"),
        ("['cat']", "cat"),
        ("['cat', 'dog']", None),
        ("[cat]", "[cat]"),
        ("NaN", None),
        ("<NA>", None),
        ("None", None),
        (r"\N", None),
        ("nano", "nano"),
        ("", None),
    ],
)
def test_a_label_is_its_own_or_missing(here, first, expected):
    assert class_name(first) == expected


def test_labels_that_are_missing_or_several_are_told(here, caplog):
    rows = labelled_rows(here)
    rows[3]["label"], rows[4]["label"], rows[5]["label"] = "NA", "nan", "['cat', 'dog']"
    result = find(table(rows, here / "own.csv"), here / "unpacked")
    assert result.classes == ("cat",) * 3 + (None,) * 3 + ("cat",) * 4 + ("dog",) * 10
    assert "own.csv: column label has words of missing values, images without a class: NA, nan" in caplog.text
    assert "own.csv: 1 rows have several labels in label, and count as images without a class" in caplog.text


def test_a_label_of_structures_is_refused(here):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    for number, label in enumerate(({"id": 1}, [{"id": 1}], [[1]])):
        paths = [row["File_Name"] for row in labelled_rows(here)]
        parquet.write_table(arrow.table({"path": paths, "label": [label] * 20}), here / f"{number}.parquet")
        with pytest.raises(InputError, match=r"parquet: the column label holds structures; give it one text or number"):
            find(here / f"{number}.parquet", here / "unpacked")


@pytest.mark.parametrize("in_lists", [False, True])
def test_numbers_of_classes_in_lists_and_floats_have_their_names(here, in_lists):
    datasets = pytest.importorskip("datasets")
    tree(here / "images")
    kind = datasets.ClassLabel(names=["dog", "cat"])
    features = {"image": datasets.Image(), "label": datasets.List(kind) if in_lists else kind}
    labels = [1] * 9 + [-1] + [0] * 10
    columns = {
        "image": [str(here / f"images/{kind}/{number}.png") for kind in COLOUR for number in range(10)],
        "label": [[label] for label in labels] if in_lists else labels,
    }
    whole = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    whole.save_to_disk(here / "saved")
    whole.to_parquet(here / "own.parquet")
    for number, path in enumerate((here / "saved", here / "own.parquet")):
        result = find(path, here / f"unpacked{number}")
        assert result.classes == ("cat",) * 9 + (None,) + ("dog",) * 10
    assert class_name(1.0, ["dog", "cat"]) == "cat"


def windows(name: str) -> str:
    return name.replace("/", "\\")


@pytest.mark.parametrize(
    "form",
    [windows, "./{}".format, " {} ".format, "images/../{}".format, lambda name: f"file://{Path(name).absolute()}"],
)
def test_paths_of_a_table_are_found_as_other_programs_write_them(here, form, monkeypatch):
    rows = labelled_rows(here)
    monkeypatch.chdir(here)
    for row in rows:
        row["File_Name"] = form(row["File_Name"])
    check_classes(prepare_photos(table(rows, here / "own.csv")))


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_table_and_a_disk_may_compose_letters_differently(here, forms):
    rows = labelled_rows(here)
    on_disk, in_table = (unicodedata.normalize(form, "b\u00e9b\u00e9") for form in forms)
    (here / "images/cat").rename(here / "images" / on_disk)
    for row in rows:
        row["File_Name"] = row["File_Name"].replace("cat", in_table)
    check_classes(prepare_photos(table(rows, here / "own.csv")))


def test_a_file_in_several_rows_is_one_image(here, caplog):
    rows = labelled_rows(here)
    again = [row | {"File_Name": windows(row["File_Name"])} for row in rows[:4]]
    check_classes(prepare_photos(table([*rows, *again], here / "own.csv")))
    rows.append(rows[2] | {"label": "dog"})
    result = find(table(rows, here / "own.csv"), here / "unpacked")
    assert result.classes == ("cat",) * 2 + (None,) + ("cat",) * 7 + ("dog",) * 10
    assert "own.csv: 1 files have rows of several classes, and count as images without a class: images/cat/2.png" in (
        caplog.text
    )


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_on_both_sides_of_a_split_is_refused(here, form):
    rows = [row | {"split": "train"} for row in labelled_rows(here)]
    rows += [row | {"split": "test", "File_Name": f"./{row['File_Name']}"} for row in rows[:2]]
    path = table(rows, here / "own.csv")
    if form == "parquet":
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        images = [{"bytes": None, "path": row["File_Name"]} for row in rows]
        columns = {"image": images, "split": [row["split"] for row in rows]}
        path = here / "own.parquet"
        parquet.write_table(arrow.table(columns), path)
    with pytest.raises(
        InputError, match=r"rows of one file have several splits \(test, train\), for 2 files: .*; give"
    ):
        find(path, here / "unpacked")


@pytest.mark.parametrize("form", ["tar", "parquet"])
@pytest.mark.parametrize("place", [".", "data"])
def test_shards_beside_a_few_pictures_are_the_images_and_a_table_beside_many_is_not(here, form, place, caplog):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    files = named_files(here, "{kind}/{number}.png")
    shard = here / "own" / place / f"train-00000-of-00001.{form}"
    if form == "tar":
        tar(shard, files)
    else:
        shard.parent.mkdir(parents=True)
        contents = [file.read_bytes() for file in files.values()]
        labels = [name.split("/")[0] for name in files]
        parquet.write_table(arrow.table({"image": contents, "label": labels}), shard)
    (shard.parent / f"._{shard.name}").write_bytes(b"fork")
    (here / "own/README.md").write_text("card")
    picture(here / "own/preview.png", 7), picture(here / "own/assets/second.jpg", 7)
    check_classes(prepare_photos(here / "own"))
    assert "own: images beside the shards, left out (2): assets/second.jpg, preview.png" in caplog.text
    tree(here / "own", each=20)
    assert len(find(here / "own", here / "unpacked").names) == 42


def test_what_a_file_holds_and_not_its_name_says_how_it_is_read(here, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    tree(here / "own")
    for name in ("phone.jpg", "phone"):
        with (here / "own/cat" / name).open("wb") as file:
            heif.from_pillow(Image.new("RGB", (64, 64), (200, 100, 50))).save(file, format="HEIF", quality=95)
    Image.new("RGB", (64, 64), (150, 0, 0)).save(here / "own/dog/camera.heic", "JPEG")
    made = prepare_photos(here / "own", store="jpeg")
    assert made.metrics()["bad_files"] == 0
    reds = [red for part in colours_by_part(made).values() for red, _ in part if red > 100]
    assert sorted(round(red, -1) for red in reds) == [150, 200, 200]
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    assert prepare_photos(here / "own").metrics()["bad_files"] == 2


POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"


@pytest.mark.parametrize("name", ["own.csv", "own.zip", "own.tar", "own.parquet", "own/data/train-0.parquet"])
def test_pointers_of_git_lfs_are_named_with_the_command_that_fetches(here, name, caplog):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text(POINTER)
    with pytest.raises(
        InputError, match=r"is a pointer of Git LFS, not the file; run `git lfs pull` in its repository"
    ):
        find(here / (name if name.startswith("own.") else "own"), here / "unpacked")


def test_an_image_that_is_a_pointer_of_git_lfs_is_named(here, caplog):
    tree(here / "own")
    for name in ("cat/1.png", "cat/weights.bin"):
        (here / "own" / name).write_text(POINTER)
    assert prepare_photos(here / "own").metrics()["bad_files"] == 1
    assert "no images, left out (1): cat/weights.bin" in caplog.text
    assert "cat/1.png (a pointer of Git LFS; run `git lfs pull`)" in caplog.text


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["own.zip", "own.tar", "own.parquet", "saved", "shards"])
def test_a_pipe_is_refused_and_not_waited_for(here, name):
    place = {"saved": "saved/data-00000-of-00001.arrow", "shards": "shards/0.parquet"}.get(name, name)
    (here / place).parent.mkdir(exist_ok=True)
    os.mkfifo(here / place)
    if name == "saved":
        pytest.importorskip("datasets")
        (here / "saved/dataset_info.json").write_text("{}")
        (here / "saved/state.json").write_text('{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}')
    with pytest.raises(InputError, match=r"cannot be read \(Is a pipe or a device, not a file\)"):
        find(here / name, here / "unpacked")


def test_metadata_that_nest_deeply_have_no_names_of_classes(here):
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    content = picture(here / "1.png", 1).read_bytes()
    shards = arrow.table({"image": [content] * 4, "label": [0, 0, 1, 1]})
    parquet.write_table(shards.replace_schema_metadata({"huggingface": "[" * 100_000}), here / "own.parquet")
    assert find(here / "own.parquet", here / "unpacked").classes == ("0", "0", "1", "1")


@pytest.mark.timeout(60)
def test_folders_of_splits_within_class_folders_are_searched_once(here, monkeypatch, caplog):
    places = [(f"{number}/{kind}", "folder") for number in range(20_000) for kind in ("train", "test")]
    images = [(f"{number}/train/1.png", "image") for number in range(20_000)]
    monkeypatch.setattr(listing, "_walked", lambda root: [*places, *images])
    names, _ = listing.list_files(here)  # a comparison of each folder with each name would take minutes
    assert len(names) == 20_000
    assert f"{here}: folders of a split without an image: 0/test, 1/test, 2/test" in caplog.text

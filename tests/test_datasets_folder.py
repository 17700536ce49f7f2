import inspect
import logging
import os
import shutil
import sys
from pathlib import Path

import pytest
import torch
from PIL import Image

from annulus.datasets.folder import join_names, natural, open_folder, with_unlabelled
from annulus.errors import InputError

SPLITS = ("train", "test")


@pytest.fixture
def root(tmp_path) -> Path:
    """Two classes, a few images each; the red channel is the file's number."""
    for split, count in (("train", 12), ("test", 3)):
        for green, name in enumerate(("cat", "dog")):
            folder = tmp_path / "images" / split / name
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (9, 9), (number, green, 0)).save(folder / f"img{number}.png")
    return tmp_path / "images"


def read_all(root: Path):
    source = open_folder(root, 8)["train"]
    return source, *source.read(torch.arange(len(source.labels)))


def test_rows_follow_classes_and_names_in_natural_order(root):
    train, images, bad = read_all(root)
    assert train.classes == ("cat", "dog")
    assert train.labels.tolist() == [0] * 12 + [1] * 12
    assert images[:, 0, 0, 0].tolist() == [*range(12), *range(12)]  # img2 before img10
    assert torch.equal(images[:, 1, 0, 0].long(), train.labels)
    assert bad == {}
    names = ["b", "a10", "a9", "a010", "A", "10", "9", "é", "a", "a9b2", "a9b10", "10a"]
    expected = ["9", "10", "10a", "A", "a", "a9", "a9b2", "a9b10", "a010", "a10", "b", "é"]
    assert sorted(names, key=natural) == expected
    assert join_names(["a", "b"]) == "a, b"
    assert join_names([str(number) for number in range(13)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"


def test_numbers_of_any_length_are_in_order():
    names = ["a0", "a00", "a1", "a02", "a10", "a" + "1" * 5000, "a" + "2" * 5000, "a1" + "0" * 5000, "b"]
    assert sorted(names[4:] + names[:4], key=natural) == names


def test_folders_without_a_class_are_read_in_any_depth(root):
    file = root / "unlabelled" / Path(*["a"] * 300) / "1.png"
    file.parent.mkdir(parents=True)
    Image.new("RGB", (8, 8)).save(file)
    train = open_folder(root, 8)["train"]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack(0)) + 200)
    try:
        read = with_unlabelled(train, root, 8)
    finally:
        sys.setrecursionlimit(limit)
    assert read.files[len(train.labels)] == file


def test_hidden_and_side_files_are_left_alone_and_counted(root, caplog):
    for name in (".DS_Store", "._img0.png", "Thumbs.db", "desktop.ini"):
        (root / "train" / "cat" / name).write_bytes(b"x")
    for name in (".ipynb_checkpoints", "__MACOSX"):
        (root / "train" / "cat" / name).mkdir()
    (root / "train" / "labels.csv").touch()
    with caplog.at_level(logging.INFO, "annulus"):
        assert len(open_folder(root, 8)["train"].labels) == 24
    assert f"{root}/train/cat: hidden and side files, not used: 6" in caplog.text
    assert "1 files beside the class folders are not used" in caplog.text


@pytest.mark.timeout(20)
def test_an_image_is_known_by_its_name_or_by_what_it_holds_and_what_is_none_is_named(root, tmp_path, caplog):
    cat = root / "train" / "cat"
    (cat / "img0.png").rename(cat / "a photo")
    (cat / "img2.png").rename(cat / "photo.txt")
    for name in ("README.txt", "labels.csv", "Notes"):
        (cat / name).write_text("no image")
    (cat / "cut.png").write_text("no image")
    (cat / "phone.heic").write_text("not read")
    (cat / "img1.png").rename(os.fsdecode(os.fsencode(cat) + b"/caf\xe9.png"))
    (cat / "loop.png").symlink_to("loop.png")
    (cat / "nowhere.png").symlink_to(tmp_path / "nowhere")
    os.mkfifo(cat / "pipe.png")  # must not block
    (root / "train" / "loop").symlink_to("loop")  # beside the class folders
    (root / "train" / "dog").rename(tmp_path / "elsewhere")
    (root / "train" / "dog").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.INFO, "annulus"):
        _, images, bad = read_all(root)
    assert f"{cat}: no images, not used (3): Notes, README.txt, labels.csv" in caplog.messages
    assert len(images) == 29
    assert sorted(bad.values()) == [
        "train/cat/cut.png (not an image in a format that is read here)",
        "train/cat/loop.png (Too many levels of symbolic links)",
        "train/cat/nowhere.png (No such file or directory)",
        "train/cat/phone.heic (not an image in a format that is read here)",
        "train/cat/pipe.png (Is a pipe or a device, not a file)",
    ]


def test_a_name_with_an_accent_is_one_class_however_a_file_system_stores_it(root):
    """A name may store the letter with its accent as one character or as two, in two splits or in one."""
    rename(root, "cat", "ne\u0301e", "train")
    rename(root, "cat", "n\u00e9e", "test")
    shutil.copytree(root / "test/n\u00e9e", root / "train/n\u00e9e")
    sources = open_folder(root, 8)
    assert sources["train"].classes == sources["test"].classes == ("dog", "n\u00e9e")
    assert sources["train"].labels.bincount().tolist() == [12, 15]
    images, bad = sources["train"].read(torch.arange(27))
    assert not bad
    assert sources["train"].labels.tolist() == [1 - green for green in images[:, 1, 0, 0].tolist()]


def replace_folder(folder: Path, *inside: str, link: bool = False) -> None:
    """Replaces a folder by one with these files alone, or by a link to itself."""
    shutil.rmtree(folder)
    folder.symlink_to(folder.name) if link else folder.mkdir()
    for name in inside:
        (folder / name).touch()


def rename(root: Path, old: str, new: str | bytes, *splits: str) -> None:
    for split in splits:
        (root / split / old).rename(os.fsdecode(os.fsencode(root / split) + b"/" + os.fsencode(new)))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (shutil.rmtree, r"datasets.folder.root: .*/images does not exist; .* needs train/CLASS/\* and"),
        (lambda root: (shutil.rmtree(root), root.touch()), "images is not a folder"),
        (lambda root: shutil.rmtree(root / "test"), "images/test does not exist; .*images needs train/CLASS"),
        (lambda root: replace_folder(root / "test", "README.txt"), "test has no class folders; .* needs train/CLASS"),
        (
            lambda root: [shutil.rmtree(root / split / "dog") for split in SPLITS],
            "has one class, cat; give at least two",
        ),
        (
            lambda root: rename(root, "dog", "hound", "train"),
            r"train and .*/test differ \(only in train: hound; only in test: dog\); give both the same",
        ),
        (lambda root: replace_folder(root / "test/dog", ".DS_Store"), "test/dog has no images; every class needs some"),
        (lambda root: (root / "train/cat/more").mkdir(), "cat/more is a folder; images lie directly in their class"),
        (lambda root: (root / "train" / "lost.PNG").touch(), "train/lost.PNG is not in a class folder"),
        (
            lambda root: replace_folder(root / "train", link=True),
            r"train cannot be opened \(Too many levels of symb.*; .* ne",
        ),
        (
            lambda root: rename(root, "cat", b"caf\xe9", *SPLITS),
            r"class folder 'caf\\udce9' in .*train is not printable",
        ),
    ],
)
def test_a_folder_laid_out_otherwise_is_refused(root, damage, sentence):
    damage(root)
    with pytest.raises(InputError, match=sentence):
        open_folder(root, 8)


@pytest.mark.parametrize(
    ("owner", "call", "reason"), [(os, "scandir", "listed: Permission denied; fix"), (Path, "stat", r"opened \(Perm")]
)
def test_a_folder_that_may_not_be_entered_is_refused(root, owner, call, reason, monkeypatch):
    usual = getattr(owner, call)

    def refuse(path, **options):
        if Path(path).name == "test":  # chmod would not stop root
            raise PermissionError(13, "Permission denied", str(path))
        return usual(path, **options)

    monkeypatch.setattr(owner, call, refuse)
    with pytest.raises(InputError, match=f"test cannot be {reason}"):
        open_folder(root, 8)

import logging
import os
from pathlib import Path

import pytest
import torch
from PIL import Image

from annulus.datasets.folder import named, natural, open_folder
from annulus.errors import InputError


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


def test_rows_follow_classes_and_names_in_natural_order(root):
    train = open_folder(root, 8)["train"]
    images, bad = train.read(torch.arange(24))
    assert train.classes == ("cat", "dog")
    assert train.labels.tolist() == [0] * 12 + [1] * 12
    assert images[:, 0, 0, 0].tolist() == [*range(12), *range(12)]  # img2 before img10
    assert torch.equal(images[:, 1, 0, 0].long(), train.labels)
    assert bad == {}


def test_only_the_asked_files_are_read(root):
    (root / "train" / "cat" / "img3.png").write_bytes(b"")
    images, bad = open_folder(root, 8)["train"].read(torch.tensor([13, 2]))
    assert images[:, :2, 0, 0].tolist() == [[1, 1], [2, 0]]
    assert bad == {}


def test_a_bad_file_is_named_with_its_reason(root):
    (root / "test" / "dog" / "img1.png").write_bytes(b"")
    _, bad = open_folder(root, 8)["test"].read(torch.tensor([0, 4]))
    assert bad == {1: "test/dog/img1.png (empty file)"}


@pytest.mark.parametrize(
    "name", [".DS_Store", "._img0.png", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints/", "__MACOSX/"]
)
def test_hidden_and_side_files_are_left_alone_and_counted(root, name, caplog):
    path = root / "train" / "cat" / name
    path.mkdir() if name.endswith("/") else path.write_bytes(b"x")
    with caplog.at_level(logging.INFO, "annulus"):
        assert len(open_folder(root, 8)["train"].labels) == 24
    assert f"{root}/train/cat: 1 hidden or side files are not used" in caplog.text


@pytest.mark.parametrize("name", ["notes.txt", "img99", "img99.xyz"])
def test_every_other_file_is_taken_for_an_image(root, name):
    (root / "train" / "cat" / name).write_bytes(b"no image")
    train = open_folder(root, 8)["train"]
    assert len(train.labels) == 25
    assert list(train.read(torch.arange(25))[1].values()) == [
        f"train/cat/{name} (not an image in a format that is read here)"
    ]


def test_an_image_with_another_suffix_is_read(root):
    (root / "train" / "cat" / "img0.png").rename(root / "train" / "cat" / "photo")
    assert open_folder(root, 8)["train"].read(torch.arange(24))[1] == {}


def test_links_are_followed_and_a_dangling_one_is_a_bad_file(root, tmp_path):
    (root / "test" / "cat").rename(tmp_path / "elsewhere")
    (root / "test" / "cat").symlink_to(tmp_path / "elsewhere")
    (root / "test" / "dog" / "img9.png").symlink_to(tmp_path / "nowhere")
    _, bad = open_folder(root, 8)["test"].read(torch.arange(7))
    assert bad == {6: "test/dog/img9.png (No such file or directory)"}


def test_natural_order_compares_numbers_as_numbers():
    names = ["b", "a10", "a9", "a010", "A", "10", "9", "é", "a", "a9b2", "a9b10", "10a"]
    expected = ["9", "10", "10a", "A", "a", "a9", "a9b2", "a9b10", "a010", "a10", "b", "é"]
    assert sorted(names, key=natural) == expected


def test_names_are_cut_after_ten():
    assert named(["a", "b"]) == "a, b"
    assert named([str(number) for number in range(13)]) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 3 more"


# --- what cannot work -----------------------------------------------------------------------------------


def remove(path: Path) -> None:
    for inner in path.iterdir():
        remove(inner) if inner.is_dir() else inner.unlink()
    path.rmdir()


def test_a_missing_root(tmp_path):
    with pytest.raises(InputError, match=r"datasets.folder.root: .*/none does not exist; .* needs train/CLASS/\* and"):
        open_folder(tmp_path / "none", 8)


def test_a_root_that_is_a_file(root):
    with pytest.raises(InputError, match=r"img0.png is not a folder"):
        open_folder(root / "train" / "cat" / "img0.png", 8)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_missing_split(root, split):
    remove(root / split)
    with pytest.raises(InputError, match=rf"images/{split} does not exist; .*images needs train/CLASS"):
        open_folder(root, 8)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_without_classes(root, split):
    remove(root / split)
    (root / split).mkdir()
    (root / split / "README.txt").write_text("soon")
    with pytest.raises(InputError, match=rf"images/{split} has no class folders; .* needs train/CLASS"):
        open_folder(root, 8)


def test_one_class(root):
    remove(root / "train" / "dog")
    remove(root / "test" / "dog")
    with pytest.raises(InputError, match="has one class, cat; at least two are needed"):
        open_folder(root, 8)


def test_classes_that_differ_between_train_and_test(root):
    (root / "train" / "dog").rename(root / "train" / "hound")
    with pytest.raises(
        InputError, match=r"train and .*/test differ \(only in train: hound; only in test: dog\); give both the same"
    ):
        open_folder(root, 8)


def test_classes_that_only_one_side_lacks(root):
    for number in range(12):
        folder = root / "train" / f"extra{number:02}"
        folder.mkdir()
        Image.new("L", (2, 2)).save(folder / "a.png")
    with pytest.raises(InputError, match=r"differ \(only in train: extra00, .*, extra09 and 2 more\)"):
        open_folder(root, 8)


@pytest.mark.parametrize("left", [None, ".DS_Store"])
def test_a_class_without_images(root, left):
    remove(root / "test" / "dog")
    (root / "test" / "dog").mkdir()
    if left:
        (root / "test" / "dog" / left).touch()
    with pytest.raises(InputError, match=r"test/dog has no images; every class needs some"):
        open_folder(root, 8)


def test_a_folder_in_a_class_folder(root):
    (root / "train" / "cat" / "more").mkdir()
    with pytest.raises(InputError, match=r"train/cat/more is a folder; images lie directly in their class folder"):
        open_folder(root, 8)


def test_an_image_beside_the_class_folders(root):
    (root / "train" / "cat" / "img0.png").rename(root / "train" / "lost.PNG")
    with pytest.raises(InputError, match=r"train/lost.PNG lies in no class folder"):
        open_folder(root, 8)


def test_other_files_beside_the_class_folders_are_counted(root, caplog):
    (root / "train" / "labels.csv").touch()
    with caplog.at_level(logging.INFO, "annulus"):
        open_folder(root, 8)
    assert "1 files beside the class folders are not used" in caplog.text


def test_a_folder_that_may_not_be_listed(root, monkeypatch):
    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(os, "scandir", refused)  # chmod would not stop root
    with pytest.raises(InputError, match="cannot be listed: Permission denied; fix its permissions"):
        open_folder(root, 8)


@pytest.mark.parametrize("place", ["train/loop", "train/cat/loop.png"])
def test_a_loop_of_links_is_a_file_that_cannot_be_read(root, place):
    (root / place).symlink_to(root / place)
    train = open_folder(root, 8)["train"]
    bad = train.read(torch.arange(len(train.labels)))[1]
    expected = ["train/cat/loop.png (Too many levels of symbolic links)"] if place.startswith("train/cat") else []
    assert list(bad.values()) == expected


def test_a_split_that_is_a_loop_of_links(root):
    remove(root / "train")
    (root / "train").symlink_to("train")
    with pytest.raises(InputError, match=r"train cannot be opened \(Too many levels of symbolic links\); .* needs tr"):
        open_folder(root, 8)


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_behind_a_folder_that_may_not_be_entered(root, split, monkeypatch):
    stat = Path.stat

    def refused(path, **options):
        if path == root / split:  # chmod would not stop root
            raise PermissionError(13, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(InputError, match=rf"{split} cannot be opened \(Permission denied\)"):
        open_folder(root, 8)


@pytest.mark.parametrize("name", [b"caf\xe9", b"two\nlines"])
def test_a_class_whose_name_no_table_can_show(root, name):
    for split in ("train", "test"):
        (root / split / "cat").rename(os.fsdecode(os.fsencode(root / split) + b"/" + name))
    with pytest.raises(InputError, match=r"class folder '(caf\\udce9|two\\nlines)' of .*train has a name that no"):
        open_folder(root, 8)


def test_a_file_whose_name_is_not_utf_8_is_read_like_any_other(root):
    (root / "train" / "cat" / "img0.png").rename(os.fsdecode(os.fsencode(root) + b"/train/cat/caf\xe9.png"))
    train = open_folder(root, 8)["train"]
    images, bad = train.read(torch.arange(24))
    assert images[0, :2, 0, 0].tolist() == [0, 0]
    assert bad == {}


@pytest.mark.timeout(20)
def test_a_pipe_in_place_of_an_image_is_not_waited_for(root):
    os.mkfifo(root / "train" / "cat" / "pipe.png")
    bad = open_folder(root, 8)["train"].read(torch.arange(25))[1]
    assert list(bad.values()) == ["train/cat/pipe.png (Is a pipe or a device, not a file)"]

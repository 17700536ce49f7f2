"""torchvision's own download, check, extraction and parse, on archives made here."""

import hashlib
import pickle
import shutil
import socket
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision.datasets import CIFAR10, CIFAR100, STL10, utils

from annulus.datasets.downloads import open_download, resized
from annulus.errors import InputError


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()


def serve(monkeypatch, kind: type, files: dict[str, bytes], tmp_path: Path) -> Path:
    """Packs `files` as the archive of a set, and makes torchvision expect and download it. Returns the archive."""
    inside = tmp_path / "server" / kind.base_folder
    inside.mkdir(parents=True)
    for name, content in files.items():
        (inside / name).write_bytes(content)
    archive = tmp_path / "server" / kind.filename
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(inside, kind.base_folder)
    for part in ("train_list", "test_list"):
        monkeypatch.setattr(kind, part, [[name, md5(inside / name)] for name, _ in getattr(kind, part)])
    if hasattr(kind, "meta"):
        monkeypatch.setattr(kind, "meta", kind.meta | {"md5": md5(inside / kind.meta["filename"])})
    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: url)
    monkeypatch.setattr(utils, "_urlretrieve", lambda url, file: shutil.copy(archive, file))
    monkeypatch.setattr(kind, "tgz_md5", md5(archive))
    return archive


@pytest.fixture
def pixels(generator) -> np.ndarray:
    return torch.randint(256, (24, 3, 32, 32), generator=generator, dtype=torch.uint8).numpy()


@pytest.fixture
def cifar10(monkeypatch, tmp_path, pixels) -> Path:
    """Five batches of four images and a test batch of four."""
    files = {
        name: pickle.dumps({"data": pixels[4 * number : 4 * number + 4].reshape(4, -1), "labels": [number, 1, 2, 3]})
        for number, (name, _) in enumerate([*CIFAR10.train_list, *CIFAR10.test_list])
    }
    files["batches.meta"] = pickle.dumps({"label_names": list("abcdefghij")})
    return serve(monkeypatch, CIFAR10, files, tmp_path)


def test_cifar10_is_downloaded_and_parsed(cifar10, pixels, tmp_path):
    sources = open_download("cifar10", tmp_path / "root", 32)
    assert sources["train"].classes == tuple("abcdefghij")
    assert sources["train"].labels.tolist() == [label for number in range(5) for label in (number, 1, 2, 3)]
    assert sources["test"].labels.tolist() == [5, 1, 2, 3]
    images, bad = sources["train"].read(torch.tensor([19, 0, 7]))
    np.testing.assert_array_equal(images, pixels[[19, 0, 7]])
    assert images.is_contiguous()
    assert bad == {}
    np.testing.assert_array_equal(sources["test"].read(torch.arange(4))[0], pixels[20:])


def test_a_second_use_downloads_nothing_and_an_archive_put_there_by_hand_is_used(cifar10, tmp_path):
    (tmp_path / "root").mkdir()
    cifar10.rename(tmp_path / "root" / cifar10.name)
    for _ in range(2):
        assert len(open_download("cifar10", tmp_path / "root", 32)["train"].labels) == 20


def test_cifar100_is_downloaded_with_its_fine_labels(monkeypatch, tmp_path, pixels):
    content = {"data": pixels[:3].reshape(3, -1), "fine_labels": [7, 99, 0], "coarse_labels": [1, 1, 1]}
    files = {"train": pickle.dumps(content), "test": pickle.dumps(content)}
    files["meta"] = pickle.dumps({"fine_label_names": [f"class{number}" for number in range(100)]})
    serve(monkeypatch, CIFAR100, files, tmp_path)
    test = open_download("cifar100", tmp_path / "root", 32)["test"]
    assert test.labels.tolist() == [7, 99, 0]
    assert test.classes[99] == "class99"


def test_stl10_is_upright_and_its_images_without_a_class_follow_where_asked(monkeypatch, tmp_path, generator):
    pixels = torch.randint(256, (7, 3, 96, 96), generator=generator, dtype=torch.uint8)
    stored = pixels.transpose(2, 3).contiguous().numpy()  # column by column
    files = {
        "train_X.bin": stored[:3].tobytes(),
        "train_y.bin": bytes([1, 10, 2]),
        "unlabeled_X.bin": stored[5:].tobytes(),
    }
    files |= {"test_X.bin": stored[3:5].tobytes(), "test_y.bin": bytes([4, 4])}
    files["class_names.txt"] = b"\n".join(b"class%d" % number for number in range(10))
    serve(monkeypatch, STL10, files, tmp_path)
    sources = open_download("stl10", tmp_path / "root", 96)
    assert [sources[split].labels.tolist() for split in ("train", "test")] == [[0, 9, 1], [3, 3]]
    assert torch.equal(sources["train"].read(torch.arange(3))[0], pixels[:3])
    assert torch.equal(sources["test"].read(torch.tensor([1]))[0], pixels[4:5])
    assert len(sources["test"].classes) == 10
    both = open_download("stl10", tmp_path / "root", 96, unlabelled=True)
    assert [both[split].labels.tolist() for split in ("train", "test")] == [[0, 9, 1, -1, -1], [3, 3]]
    assert torch.equal(both["train"].read(torch.arange(5))[0], pixels[[0, 1, 2, 5, 6]])


def test_images_are_resized_as_pillow_does_chunk_by_chunk(generator, monkeypatch):
    monkeypatch.setattr("annulus.datasets.downloads.RESIZED_AT_ONCE", 2)
    images = torch.randint(256, (3, 3, 32, 32), generator=generator, dtype=torch.uint8)
    for size in (8, 24, 64):
        ours = resized(images, size).permute(0, 2, 3, 1).numpy().astype(int)
        for image, our in zip(images.permute(0, 2, 3, 1).numpy(), ours, strict=True):
            theirs = np.asarray(Image.fromarray(image).resize((size, size), Image.Resampling.BILINEAR))
            assert np.abs(our - theirs).max() <= 1
    assert resized(images, 32) is images


def test_a_failed_download_says_what_to_do(cifar10, tmp_path):
    cifar10.unlink()
    sentence = (
        r"dataset cifar10 is not in .*/root and cannot be downloaded .*"
        r"Put cifar-10-python.tar.gz from https:.*tar.gz there by hand, or put your own images .* set dataset: folder"
    )
    with pytest.raises(InputError, match=sentence):
        open_download("cifar10", tmp_path / "root", 32)


def test_a_whole_archive_stays_where_its_files_could_not_be_written_and_a_part_of_one_goes(
    cifar10, tmp_path, monkeypatch
):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(utils, "extract_archive", full)
    archive = tmp_path / "root" / CIFAR10.filename
    with pytest.raises(InputError, match="No space left on device"):
        open_download("cifar10", tmp_path / "root", 32)
    assert archive.exists()
    archive.unlink()
    monkeypatch.setattr(CIFAR10, "tgz_md5", "0" * 32)
    with pytest.raises(InputError, match="cannot be downloaded"):
        open_download("cifar10", tmp_path / "root", 32)
    assert not archive.exists()


def test_an_archive_with_another_sum_that_lies_there_is_named(cifar10, tmp_path):
    cifar10.unlink()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / CIFAR10.filename).write_bytes(b"of another version")
    sentence = (
        rf"{CIFAR10.filename} is cut or another file \(its MD5 is not {CIFAR10.tgz_md5}\); dataset cifar10 is not in"
    )
    with pytest.raises(InputError, match=sentence):
        open_download("cifar10", tmp_path / "root", 32)
    assert (tmp_path / "root" / CIFAR10.filename).exists()


def test_a_server_that_falls_silent_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("annulus.datasets.downloads.SECONDS_OF_SILENCE", 0.2)
    monkeypatch.setattr(utils, "_get_redirect_url", lambda url, max_hops: url)
    with socket.create_server(("127.0.0.1", 0)) as server:  # accepts the call and sends nothing
        monkeypatch.setattr(CIFAR10, "url", f"http://127.0.0.1:{server.getsockname()[1]}/cifar-10-python.tar.gz")
        with pytest.raises(InputError, match=r"cannot be downloaded \(timed out"):
            open_download("cifar10", tmp_path / "root", 32)
    assert socket.getdefaulttimeout() is None

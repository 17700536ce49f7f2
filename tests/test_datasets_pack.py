"""Packed image files: each store against plain decoding, killed and resumed packing, and the main line from each."""

import io
import os
import pickle
import subprocess
import sys
from pathlib import Path

import diagnostics
import embed
import knn
import linear
import numpy as np
import prepare
import pretrain
import pytest
import torch
import yaml
from by_path import ROOT
from PIL import Image
from settings import SMALL, changed
from test_damaged_files import edit
from test_views_spaces import by_pixel

from annulus.datasets import pack as module
from annulus.datasets.decode import decode
from annulus.datasets.pack import pack
from annulus.datasets.source import FileList, encoded
from annulus.errors import InputError
from annulus.files.images import ImageSet, load_images, save_images
from annulus.files.packed import write_packed
from annulus.files.shards import Shards
from annulus.files.store import squares
from annulus.views.splits import ColourSplit, channel_statistics
from annulus_lab.pipeline.stage import run_stage

SIZE = 16
STAGES = (prepare, pretrain, embed, knn, linear, diagnostics)
# Heights and widths of the files, and of their images in a store of JPEGs.
SIZES = ((16, 20), (16, 16), (32, 16), (50, 30), (9, 12), (16, 91), (33, 16), (16, 16), (30, 31), (16, 20), (20, 20))
STORED = ((16, 20), (16, 16), (32, 16), (27, 16), (16, 21), (16, 32), (16, 32), (16, 16), (16, 17), (16, 20), (16, 16))
NAMES = [f"{n}.{'png' if n == 7 else 'jpg'}" for n in range(len(SIZES))]


def photo(height: int, width: int, seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def files(tmp_path) -> FileList:
    """Eleven files of several sizes, formats and modes; the first three are JPEGs of the stored size already."""
    folder = tmp_path / "files"
    folder.mkdir()
    for n, (height, width) in enumerate(SIZES):
        image = photo(height, width, n)
        exif = image.getexif()
        exif[0x0112] = 6  # a camera held upright
        options = {6: {"exif": exif}}.get(n, {})
        image.convert({3: "L", 4: "CMYK"}.get(n, "RGB")).save(folder / NAMES[n], quality=95, **options)
    grey = np.arange(400, dtype=np.uint16).reshape(20, 20) * 160
    Image.fromarray(grey).save(folder / "10.jpg", "PNG")  # 16 bits, and PNG in spite of its name
    return FileList(tmp_path, ["files"], torch.zeros(len(NAMES), dtype=torch.int64), encoded(NAMES))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "SHARD", 4)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / "work").mkdir()


def pack_all(files: FileList, kind: str, folder: Path):
    store, bad = pack(files, torch.arange(len(files)), kind, SIZE, folder, "train")
    assert bad == {}
    return store


def image_set(store) -> ImageSet:
    return ImageSet(store, torch.arange(11) % 2, torch.arange(11), ("a", "b"))


def test_raw_images_are_the_plain_decoding_in_any_order_whatever_was_announced(files, tmp_path):
    store = pack_all(files, "raw", tmp_path / "work")
    expected = torch.from_numpy(np.stack([decode(file, SIZE).transpose(2, 0, 1) for file in files]))
    assert store.sizes is None
    batches = [torch.tensor(rows) for rows in ([3, 9, 0], [10, 10], [1], [5, 4])]
    store.ahead(batches[:3])
    for rows in (batches[0], batches[2], batches[3], batches[1]):
        assert torch.equal(store.take(rows), expected[rows])
    everything = torch.arange(11).split(2)
    assert torch.equal(torch.cat([images for _, images in store.in_turn(everything)]), expected)
    own = torch.tensor([3, 4])
    store.ahead([own])
    own.copy_(torch.tensor([6, 7]))  # a caller may draw each batch into one tensor
    assert torch.equal(store.take(own), expected[[6, 7]])
    assert torch.equal(store.some(torch.tensor([8, 2])).take(torch.tensor([1])), expected[[2]])


def test_jpeg_images_keep_their_shape_and_a_file_that_fits_keeps_its_bytes(files, tmp_path):
    store = pack_all(files, "jpeg", tmp_path / "work")
    assert tuple(map(tuple, store.sizes.tolist())) == STORED
    rows = torch.tensor([2, 0, 5, 3, 10, 4, 1, 7, 6, 8, 9])
    store.ahead([rows])
    images = store.take(rows)
    assert images.shape == (11, 3, 32, 32)
    for row, image, (height, width) in zip(rows.tolist(), images, store.image_sizes(rows).tolist(), strict=True):
        shard, start, length = (int(field[row]) for field in store.places[:3])
        coded = store.shards.paths[shard].read_bytes()[start : start + length]
        assert row > 2 or coded == files[row].read_bytes()
        plain = np.asarray(Image.open(io.BytesIO(coded)).convert("RGB")).transpose(2, 0, 1)
        np.testing.assert_array_equal(image[:, :height, :width], plain)
        middle = image[:, (height - 16) // 2 :, (width - 16) // 2 :][:, :16, :16]
        difference = middle.float() - torch.from_numpy(decode(files[row], 16).transpose(2, 0, 1).copy()).float()
        assert difference.abs().mean() < 12, row
    for row, image, square in zip(rows.tolist(), images, squares(store, rows), strict=True):
        top, left = ((side - 16) // 2 for side in STORED[row])
        assert torch.equal(square, image[:, top : top + 16, left : left + 16])
    copy = pickle.loads(pickle.dumps(store))  # to another process
    assert torch.equal(copy.take(rows[:1]), store.take(rows[:1]))


def test_statistics_of_images_of_several_sizes_are_those_of_their_pixels(files, tmp_path):
    store = pack_all(files, "jpeg", tmp_path / "work")
    whole = [store.take(torch.tensor([row])).double() / 255 for row in range(11)]
    pixels = torch.cat([image[0].flatten(1) for image in whole], dim=1)
    mean, std = image_set(store).channel_statistics()
    torch.testing.assert_close(torch.tensor(mean).double(), pixels.mean(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.tensor(std).double(), pixels.std(1, correction=0), atol=1e-6, rtol=0)
    lightness = torch.cat([by_pixel(image)[:, 0].flatten() for image in whole]).mean().item()
    assert channel_statistics(store, ColourSplit("lab"))[0][0] == pytest.approx(lightness, abs=1e-3)


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_killed_packing_goes_on_at_its_shard_and_ends_in_the_same_bytes(kind, files, tmp_path, monkeypatch):
    coded, coded_names, stop = module._coded, [], ["9.jpg"]

    def count(file, *settings):
        if file.name in stop:
            raise KeyboardInterrupt
        coded_names.append(file.name)
        return coded(file, *settings)

    whole = pack_all(files, kind, tmp_path / "work")
    monkeypatch.setattr(module, "_coded", count)
    with pytest.raises(KeyboardInterrupt), module.workplace({}) as work:
        pack_all(files, kind, work)
    stop.clear()
    coded_names.clear()
    (tmp_path / "files" / "1.jpg").touch()  # its shard is packed again
    with module.workplace({}) as again:
        assert again == work
        store = pack_all(files, kind, work)
        assert sorted(coded_names) == sorted(NAMES[n] for n in (0, 1, 2, 3, 8, 9, 10))
        for name in whole.shards.lengths:
            assert (work / name).read_bytes() == (whole.shards.folder / name).read_bytes()
        assert all(torch.equal(one, other) for one, other in zip(store.places, whole.places, strict=True))
    assert not work.exists()


def folder_of_photos(root: Path) -> None:
    for label, name in enumerate(("ant", "bee")):
        for number in range(30):
            path = root / ("test" if number > 23 else "train") / name / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            photo(20 + number % 7, 24, 1000 * label + number).save(path, quality=95)


def main_line(folder: Path, store: str, root: Path) -> dict[str, bytes]:
    """Runs all stages but the summary and returns the content of each file that they write, without the images."""
    out = folder / store
    settings = {**SMALL, "seeds": [0], "dataset": "folder", "linear.inputs": "views", "knn.k": 5}
    settings |= {"scales.tiny.prepare": {"train_images": None, "test_images": None, "unlabelled_images": 0}}
    sizes = {"root": str(root), "image_size": SIZE, "view_size": SIZE, "validation_fraction": 0.1}
    settings |= {"datasets.folder": {**sizes, "max_bad_files": 0, "store": store}}
    out.mkdir()
    (out / "params.yaml").write_text(yaml.safe_dump(changed(settings)))
    for stage in STAGES:
        words = ["--params", str(out / "params.yaml")]
        for name in stage.PATHS:
            own = name in ("metrics", "history", "right")
            file = f"{stage.__name__}_{name}" if own else {"curve": "pretrain_history"}.get(name, name)
            words += [f"--{name}", str(out / file)]
        run_stage(stage.main, stage.READS, stage.PATHS, words, tracked=False)
    files = sorted(path for path in out.rglob("*") if path.is_file() and "images" not in path.parts)
    return {str(path.relative_to(out)): path.read_bytes() for path in files if path.name != "params.yaml"}


@pytest.mark.slow
def test_the_main_line_runs_from_each_store_and_raw_pixels_give_the_bytes_of_those_in_memory(tmp_path, monkeypatch):
    folder_of_photos(tmp_path / "own")
    memory, raw, jpeg = (main_line(tmp_path, store, tmp_path / "own") for store in ("memory", "raw", "jpeg"))
    assert list(memory) == list(raw) == list(jpeg)
    differ = {name for name in memory if memory[name] != raw[name]}
    assert differ == {"prepare_metrics"}, "its digests are of the fingerprints"
    assert memory["encoders/0.safetensors"] != jpeg["encoders/0.safetensors"]
    assert not list((tmp_path / ".annulus/checkpoints").rglob("*.jpeg"))


def test_what_is_packed_and_changed_since_gives_a_sentence(files, tmp_path):
    store = pack_all(files, "jpeg", tmp_path / "work")
    index, shard = tmp_path / "work/train.safetensors", tmp_path / "work/train-00002.jpeg"
    save_images(index, image_set(store))
    assert torch.equal(load_images(index).images.places.start, store.places.start)
    content, small = shard.read_bytes(), io.BytesIO()
    photo(16, 20, 0).save(small, "JPEG", quality=10)
    other = small.getvalue().ljust(len(content), b"\0")

    def assert_refused(sentence, call, *row):
        with pytest.raises(
            InputError, match=rf"train-00002.jpeg: {sentence}; write it again .*`dvc repro --force prepare`\)$"
        ):
            call(*row)

    shard.write_bytes(content[:-1])
    assert_refused(r"holds [\d,]+ bytes, expected [\d,]+", load_images, index)
    assert_refused(r"ends after [\d,]+ bytes, within an image", store.take, torch.tensor([10]))
    shard.write_bytes(b"\0" * len(content))
    assert_refused("the bytes from 0 on are not a JPEG", load_images(index).images.take, torch.tensor([8]))
    shard.write_bytes(other)
    sentence = "an image of 16 x 20 pixels begins at byte 0, expected 16 x 17"
    assert_refused(sentence, load_images(index).images.take, torch.tensor([8]))
    shard.unlink()
    assert_refused(r"cannot be opened \(No such file or directory\)", load_images, index)


def negative(levels):
    """Levels with a negative count and the same sum."""
    return torch.cat([levels[:, :1] - 10**6, levels[:, 1:2] + 10**6, levels[:, 2:]], dim=1)


@pytest.mark.parametrize(
    ("tensors", "about", "sentence"),
    [
        ({}, {"shards": {"train-00000.raw": 2**70}}, "its shards are not a mapping from file names to lengths"),
        ({}, {"shards": {"train-00000.raw": -1}}, "its shards are not a mapping from file names to lengths"),
        ({}, {"shards": {"../train-00000.raw": 9}}, "its shards are not a mapping from file names to lengths"),
        ({}, {"kind": "png"}, "its kind is 'png', expected raw or jpeg"),
        ({}, {"side": 2**70}, r"its side is \d+ pixels, expected 1 to 65535"),
        ({"start": lambda t: torch.where(t == t.max(), 2**63 - 1, t)}, None, r"image \d+ does not lie in a shard"),
        (
            {"levels": lambda t: t * torch.tensor([[1], [1], [0]])},
            None,
            "its levels do not count each pixel of its images once",
        ),
        ({"levels": negative}, None, "its levels do not count each pixel of its images once"),
    ],
)
def test_an_index_that_was_edited_gives_a_sentence(files, tmp_path, tensors, about, sentence):
    save_images(tmp_path / "work/train.safetensors", image_set(pack_all(files, "raw", tmp_path / "work")))
    edit(tmp_path / "work/train.safetensors", tensors, about)
    with pytest.raises(
        InputError, match=rf"train\.safetensors: {sentence}.*; write it again .*`dvc repro --force prepare`\)$"
    ):
        load_images(tmp_path / "work/train.safetensors")


NOWHERE = {
    "raw": [("shard", -1), ("shard", 3), ("start", -1), ("length", 767), ("sizes", (17, 17))],
    "jpeg": [("shard", -1), ("shard", 3), ("start", -1), ("length", 0), ("sizes", (15, 16)), ("sizes", (16, 33))],
}


@pytest.mark.parametrize("kind", NOWHERE)
def test_an_image_out_of_its_shard_or_of_another_size_is_refused(kind, files, tmp_path):
    """A reader would return another image."""
    index, store = tmp_path / "work/train.safetensors", pack_all(files, kind, tmp_path / "work")
    for field, wrong in NOWHERE[kind]:
        save_images(index, image_set(store))
        edit(index, {field: lambda t, wrong=wrong: t.index_put((torch.tensor(5),), torch.tensor(wrong).to(t))}, None)
        with pytest.raises(InputError, match="image 5 does not lie in a shard, or has an impossible size"):
            load_images(index)


@pytest.mark.parametrize(
    "change", [lambda path: path.write_bytes(path.read_bytes()[:-9]), lambda path: write_packed(path, {}, {})]
)
def test_a_shard_whose_own_index_is_cut_or_foreign_is_packed_again(files, tmp_path, change):
    store = pack_all(files, "raw", tmp_path / "work")
    change(tmp_path / "work/train-00001.raw.safetensors")
    again = pack_all(files, "raw", tmp_path / "work")
    assert torch.equal(again.places.fingerprint, store.places.fingerprint)


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_files_that_cannot_be_read_are_told_and_have_no_bytes(kind, files, tmp_path):
    broken = tmp_path / "files" / "0.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    (tmp_path / "files" / "5.jpg").write_bytes(b"")
    store, bad = pack(files, torch.arange(11), kind, SIZE, tmp_path / "work", "train")
    assert list(bad) == [0, 5]
    assert "runcated" in bad[0]
    assert bad[5] == "empty file"
    assert store.places.length[[0, 5]].tolist() == [0, 0]


def test_a_shard_with_an_unreadable_file_is_packed_again_and_those_without_are_not(files, tmp_path, monkeypatch):
    coded, coded_names = module._coded, []

    def without_a_package(file, kind, size):
        coded_names.append(file.name)
        return module.Coded(b"", (size, size), 0, "HEIC") if file.name == "5.jpg" else coded(file, kind, size)

    monkeypatch.setattr(module, "_coded", without_a_package)
    assert pack(files, torch.arange(11), "raw", SIZE, tmp_path / "work", "train")[1] == {5: "HEIC"}
    monkeypatch.setattr(
        module, "_coded", lambda file, *settings: coded_names.append(file.name) or coded(file, *settings)
    )
    coded_names.clear()
    assert (pack_all(files, "raw", tmp_path / "work").places.length > 0).all()
    assert sorted(coded_names) == NAMES[4:8]


def test_a_comment_that_is_too_long_for_jpeg_is_left_out(tmp_path):
    photo(20, 30, 0).save(tmp_path / "a.gif", comment="x" * 70_000)
    assert module._coded(tmp_path / "a.gif", "jpeg", SIZE).bad is None


KEPT_OPEN = """
from pathlib import Path
import numpy as np
import annulus.files.shards
shards = annulus.files.shards.Shards(Path.cwd(), {"0.bin": 3})
shards.read(0, 0, np.empty(3, np.uint8))
"""


def test_of_a_very_long_image_the_middle_alone_is_resized(tmp_path, monkeypatch):
    """The whole image would take 25 MB here, and any amount for a longer one."""
    ramp = np.repeat(np.arange(8000) // 32, 4).astype(np.uint8).reshape(8000, 4)
    Image.fromarray(ramp).save(tmp_path / "a.png")
    resize, sizes = Image.Image.resize, []

    def watch(image, size, *more):
        sizes.append(size)
        return resize(image, size, *more)

    monkeypatch.setattr(Image.Image, "resize", watch)
    coded = module._coded(tmp_path / "a.png", "jpeg", 64)
    assert (coded.sizes, coded.bad, sizes) == ((128, 64), None, [(64, 128)])
    assert abs(int(np.asarray(Image.open(io.BytesIO(coded.content)))[64, 32, 0]) - 125) <= 2


@pytest.mark.slow
def test_a_program_that_ends_with_shards_open_says_nothing(tmp_path):
    """The `shards` of the program outlive the names in annulus.files.shards, which Python sets to None first."""
    (tmp_path / "0.bin").write_bytes(b"abc")
    command, environment = [sys.executable, "-c", KEPT_OPEN], os.environ | {"PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc/self/fd")
def test_shards_that_are_no_longer_used_are_closed(tmp_path):
    def count_open() -> int:
        return sum(number.resolve() == tmp_path / "0.bin" for number in Path("/proc/self/fd").iterdir())

    (tmp_path / "0.bin").write_bytes(b"abc")
    shards = Shards(tmp_path, {"0.bin": 3})
    shards.read(0, 0, np.empty(3, np.uint8))
    assert count_open() == 1
    del shards
    assert count_open() == 0


def test_where_a_file_has_no_second_name_shards_are_copied(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    (tmp_path / "0.bin").write_bytes(b"abc")
    (tmp_path / "other").mkdir()
    Shards(tmp_path, {"0.bin": 3}).link(tmp_path / "other")
    assert (tmp_path / "other/0.bin").read_bytes() == b"abc"


def test_a_full_disk_is_a_sentence_and_keeps_the_shards_before(files, tmp_path, monkeypatch):
    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(28, "No space left on device")

    usual = Path.open
    monkeypatch.setattr(
        Path, "open", lambda path, *m, **o: Full() if ".train-00001" in str(path) else usual(path, *m, **o)
    )
    with pytest.raises(InputError, match=r"cannot write .*train-00001.raw: No space left on device; .* run again"):
        pack_all(files, "raw", tmp_path / "work")
    names = ["train-00000.raw", "train-00000.raw.safetensors"]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == names

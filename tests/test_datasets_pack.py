"""Packed image files: each store against plain decoding, killed and resumed packing, and the main line from each."""

import io
import pickle
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
from PIL import Image
from settings import SMALL, changed

from annulus.datasets import pack as module
from annulus.datasets.decode import decode
from annulus.datasets.pack import pack
from annulus.datasets.source import Files, encoded
from annulus.errors import InputError
from annulus.files.images import ImageSet, load_images, save_images
from annulus.pipeline.stage import run_stage
from annulus.views.splits import ColourSplit, channel_statistics

SIZE = 16
STAGES = (prepare, pretrain, embed, knn, linear, diagnostics)


def photo(height: int, width: int, seed: int) -> Image.Image:
    coarse = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


@pytest.fixture
def files(tmp_path) -> Files:
    """Eleven files of several sizes, formats and modes; the first three are JPEGs of the stored size already."""
    folder = tmp_path / "files"
    folder.mkdir()
    sizes = [
        (16, 20),
        (16, 16),
        (32, 16),
        (50, 30),
        (9, 12),
        (16, 90),
        (40, 20),
        (16, 16),
        (30, 31),
        (16, 20),
        (20, 20),
    ]
    names = [f"{n}.{'png' if n == 7 else 'jpg'}" for n in range(len(sizes))]
    for n, (height, width) in enumerate(sizes):
        image = photo(height, width, n)
        turned = image.getexif()
        turned[0x0112] = 6  # a camera's upright
        options = {6: {"exif": turned}}.get(n, {})
        image.convert({3: "L", 4: "CMYK"}.get(n, "RGB")).save(folder / names[n], quality=95, **options)
    grey = np.arange(400, dtype=np.uint16).reshape(20, 20) * 160
    Image.fromarray(grey).save(folder / "10.jpg", "PNG")  # 16 bits, and not what its name says
    return Files(tmp_path, ["files"], torch.zeros(len(names), dtype=torch.int64), encoded(names))


def packed(files: Files, kind: str, folder: Path, size: int = SIZE):
    folder.mkdir(parents=True, exist_ok=True)
    store, bad = pack(files, torch.arange(len(files)), kind, size, folder, "train")
    assert bad == {}
    return store


def test_raw_images_are_the_plain_decoding_in_any_order_whatever_was_announced(files, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", 4)
    store = packed(files, "raw", tmp_path / "work")
    expected = torch.from_numpy(np.stack([decode(file, SIZE).transpose(2, 0, 1) for file in files]))
    assert store.sizes is None
    batches = [torch.tensor(rows) for rows in ([3, 9, 0], [10, 10], [1], [5, 4])]
    store.ahead(batches[:3])
    for rows in (batches[0], batches[2], batches[3], batches[1]):
        assert torch.equal(store.take(rows), expected[rows])
    everything = torch.arange(11).split(2)
    assert torch.equal(torch.cat([images for _, images in store.in_turn(everything)]), expected)
    assert torch.equal(store.some(torch.tensor([8, 2])).take(torch.tensor([1])), expected[[2]])


def test_jpeg_images_keep_their_shape_and_a_file_that_fits_keeps_its_bytes(files, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", 4)
    store = packed(files, "jpeg", tmp_path / "work")
    shapes = [
        (16, 20),
        (16, 16),
        (32, 16),
        (27, 16),
        (16, 21),
        (16, 32),
        (16, 32),
        (16, 16),
        (16, 17),
        (16, 20),
        (16, 16),
    ]
    assert [tuple(size) for size in store.sizes.tolist()] == shapes
    stored = b"".join(path.read_bytes() for path in store.shards.paths)
    rows = torch.tensor([2, 0, 5, 3, 10, 4, 1, 7, 6, 8, 9])
    store.ahead([rows])
    images = store.take(rows)
    assert images.shape == (11, 3, 32, 32)
    for row, image, (height, width) in zip(rows.tolist(), images, store.sizes_of(rows).tolist(), strict=True):
        if row < 3:
            assert files[row].read_bytes() in stored
        shard, start, length = (int(field[row]) for field in store.places[:3])
        coded = store.shards.paths[shard].read_bytes()[start : start + length]
        plain = np.asarray(Image.open(io.BytesIO(coded)).convert("RGB")).transpose(2, 0, 1)
        np.testing.assert_array_equal(image[:, :height, :width], plain)
        middle = image[:, (height - 16) // 2 :, (width - 16) // 2 :][:, :16, :16]
        difference = middle.float() - torch.from_numpy(decode(files[row], 16).transpose(2, 0, 1).copy()).float()
        assert difference.abs().mean() < 12, row


def test_statistics_of_images_of_several_sizes_are_those_of_their_pixels(files, tmp_path):
    store = packed(files, "jpeg", tmp_path / "work")
    labels = torch.arange(11) % 2
    images = ImageSet.of(store, labels, torch.arange(11), ("a", "b"))
    whole = [store.take(torch.tensor([row]))[0] for row in range(11)]
    pixels = torch.cat([image.flatten(1) for image in whole], dim=1).double() / 255
    mean, std = images.channel_statistics()
    torch.testing.assert_close(torch.tensor(mean).double(), pixels.mean(1), atol=1e-6, rtol=0)
    torch.testing.assert_close(torch.tensor(std).double(), pixels.std(1, correction=0), atol=1e-6, rtol=0)
    assert channel_statistics(store, ColourSplit("lab"))[0][0] == pytest.approx(lab_of(whole), abs=1e-3)


def lab_of(images: list[torch.Tensor]) -> float:
    """Mean lightness by the formulas for one pixel after another."""
    from test_views_spaces import by_pixel

    lightness = torch.cat([by_pixel(image[None].double() / 255)[:, 0].flatten() for image in images])
    return float(lightness.mean())


@pytest.mark.parametrize("kind", ["raw", "jpeg"])
def test_a_killed_packing_goes_on_at_its_shard_and_ends_in_the_same_bytes(kind, files, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", 4)
    coded, seen = module._coded, []

    def counted(file, *settings):
        seen.append(file.name)
        return coded(file, *settings)

    def interrupted(file, *settings):
        if file.name == "9.jpg":
            raise KeyboardInterrupt
        return coded(file, *settings)

    whole = packed(files, kind, tmp_path / "whole")
    key = {"root": str(tmp_path)}
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setattr(module, "_coded", interrupted)
    with pytest.raises(KeyboardInterrupt), module.workplace(key) as work:
        packed(files, kind, work)
    monkeypatch.setattr(module, "_coded", counted)
    (tmp_path / "files" / "1.jpg").touch()  # its shard is made anew
    with module.workplace(key) as again:
        assert again == work
        store = packed(files, kind, work)
        assert sorted(seen) == sorted(f"{n}.{'png' if n == 7 else 'jpg'}" for n in (0, 1, 2, 3, 8, 9, 10))
        for name in whole.shards.lengths:
            assert (work / name).read_bytes() == (whole.shards.folder / name).read_bytes()
        assert all(torch.equal(one, other) for one, other in zip(store.places, whole.places, strict=True))
    assert not work.exists()


def test_a_store_that_is_sent_to_another_process_reads_the_same_images(files, tmp_path):
    store = packed(files, "jpeg", tmp_path / "work")
    expected = store.take(torch.tensor([9]))
    assert torch.equal(pickle.loads(pickle.dumps(store)).take(torch.tensor([9])), expected)


def folder_of_photos(root: Path) -> None:
    for split, count in (("train", 40), ("test", 10)):
        for label, name in enumerate(("ant", "bee")):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                image = photo(20 + number % 7, 24, 1000 * label + number + (500 if split == "test" else 0))
                image.save(root / split / name / f"{number}.jpg", quality=95)


def main_line(folder: Path, store: str, root: Path) -> dict[str, bytes]:
    """Run all stages but the summary; the content of each file that they write, but the images."""
    out = folder / store
    settings = {**SMALL, "seeds": [0], "dataset": "folder", "linear.inputs": "views", "knn.k": 5}
    settings |= {"scales.tiny.prepare": {"train_images": None, "test_images": None}}
    given = {"root": str(root), "image_size": SIZE, "view_size": SIZE, "validation_fraction": 0.1}
    settings |= {"datasets.folder": {**given, "max_bad_files": 0, "store": store}}
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


def test_the_main_line_runs_from_each_store_and_raw_pixels_give_the_bytes_of_those_in_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    folder_of_photos(tmp_path / "own")
    memory, raw, jpeg = (main_line(tmp_path, store, tmp_path / "own") for store in ("memory", "raw", "jpeg"))
    assert list(memory) == list(raw) == list(jpeg)
    differ = {name for name in memory if memory[name] != raw[name]}
    assert differ == {"prepare_metrics"}, "its digests are of the fingerprints"
    assert memory["encoders/0.safetensors"] != jpeg["encoders/0.safetensors"]
    assert not list((tmp_path / ".annulus/checkpoints").rglob("*.jpeg"))


def test_what_is_packed_and_changed_since_gives_a_sentence(files, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", 8)
    store = packed(files, "jpeg", tmp_path / "work")
    index = tmp_path / "work" / "train.safetensors"
    save_images(index, ImageSet.of(store, torch.arange(11) % 2, torch.arange(11), ("a", "b")))
    assert torch.equal(load_images(index).images.places.start, store.places.start)
    shard = tmp_path / "work" / "train-00001.jpeg"
    content = shard.read_bytes()
    way_out = "; run `dvc repro --force prepare`$"
    shard.write_bytes(content[:-1])
    with pytest.raises(InputError, match=rf"train-00001.jpeg: holds [\d,]+ bytes, expected [\d,]+{way_out}"):
        load_images(index)
    with pytest.raises(InputError, match=rf"train-00001.jpeg: ends after [\d,]+ bytes, within an image{way_out}"):
        store.take(torch.tensor([10]))
    shard.write_bytes(b"\0" * len(content))
    with pytest.raises(InputError, match=rf"what begins at byte 0 is no JPEG{way_out}"):
        load_images(index).images.take(torch.tensor([8]))
    photo(16, 20, 0).save(shard, "JPEG", quality=10)
    shard.write_bytes(shard.read_bytes().ljust(len(content), b"\0"))
    with pytest.raises(InputError, match=rf"an image of 16 x 20 pixels begins at byte 0, expected 16 x 17{way_out}"):
        load_images(index).images.take(torch.tensor([8]))
    shard.unlink()
    with pytest.raises(InputError, match=rf"train-00001.jpeg: cannot be opened \(No such file or directory\){way_out}"):
        load_images(index)


def test_files_that_cannot_be_read_are_told_and_have_no_bytes(files, tmp_path):
    broken = tmp_path / "files" / "0.jpg"
    broken.write_bytes(broken.read_bytes()[:-200])
    (tmp_path / "files" / "5.jpg").write_bytes(b"")
    (tmp_path / "work").mkdir()
    for kind in ("raw", "jpeg"):
        store, bad = pack(files, torch.arange(11), kind, SIZE, tmp_path / "work", "train")
        assert list(bad) == [0, 5]
        assert "runcated" in bad[0]
        assert bad[5] == "empty file"
        assert store.places.length[[0, 5]].tolist() == [0, 0]


def test_a_full_disk_is_a_sentence_and_keeps_the_shards_before(files, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SHARD", 4)
    (tmp_path / "work").mkdir()

    class Full(io.BytesIO):
        def write(self, content):
            raise OSError(28, "No space left on device")

    opened = Path.open
    monkeypatch.setattr(
        Path, "open", lambda self, *mode: Full() if ".train-00001" in self.name else opened(self, *mode)
    )
    with pytest.raises(InputError, match=r"cannot write .*train-00001.raw: No space left on device; .* run again"):
        packed(files, "raw", tmp_path / "work")
    names = ["train-00000.raw", "train-00000.raw.safetensors"]
    assert sorted(path.name for path in (tmp_path / "work").iterdir()) == names

"""Images on the disk: speed from JPEG to views, cost of a step from shards, and the memory of `prepare`.

The opponent is torchvision's DataLoader with a worker for each core. Both read the same JPEGs (shorter side 256 px,
quality 90) and make views of 224 px by the standard recipe; torchvision decodes with Pillow, and makes them of its
images and of tensors. Seconds are of the clock and of the processor, workers included: the latter depend less on other
load.

Reading and decoding alone, by each decoder: microseconds of the processor per image, in all and under Python's lock.

A step of ResNet-18 at 224 px from images in memory, as pixels in shards, and as JPEG in shards; all are squares.
Seconds of the processor include reading and decoding.

The peak memory is measured for the whole stage, in its own process. It grows by a few hundred bytes per image, from
which the peak for ImageNet is extrapolated.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import yaml
from bench_views import STANDARD, torchvision_on_pil, torchvision_on_tensors
from PIL import Image
from python_lock import under_lock
from steps import training, whole_step
from timing import ROOT, medians, write
from torch.utils.data import DataLoader, Dataset

from annulus.datasets.pack import pack
from annulus.datasets.source import FileList, encoded
from annulus.device.device import pick_device
from annulus.files import disk
from annulus.files.disk import Packed
from annulus.files.images import ImageSet
from annulus.files.jpeg import by_pillow, by_simplejpeg, decoder
from annulus.files.store import Resident, Store
from annulus.training.loop import Training
from annulus.views.recipe import augment

IMAGES, BATCH, VIEW, SIDE = 1024, 64, 224, 256
STEP_BATCH, STEP_REPETITIONS, LOADER_REPETITIONS = 16, 5, 5
LOCK_SECONDS = 5.0  # of the processor, for each decoder and turn
FEW, MANY, LARGE = 20_000, 100_000, 4_000  # images of 64 px, and of 256 px
ALL, OF_CLASS = 1_281_167, 1300  # ImageNet
BENCHMARKS = Path(__file__).parent
TILES = 250  # different images; the other files are hard links to them


def photo(height: int, width: int, random: np.random.Generator) -> Image.Image:
    """Image with structure of several sizes and grain; its JPEG of quality 90 is as large as a photograph's."""
    pixels = 128 + random.normal(0, 4, (height, width, 3))
    for cells, amplitude in ((8, 60), (32, 40), (128, 18)):
        coarse = random.integers(0, 256, (cells * height // 256 + 2, cells * width // 256 + 2, 3), dtype=np.uint8)
        fine = Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)
        pixels += (np.asarray(fine, np.float64) - 128) / 128 * amplitude
    return Image.fromarray(pixels.clip(0, 255).astype(np.uint8))


def write_jpegs(folder: Path, sizes: list[tuple[int, int]]) -> FileList:
    folder.mkdir()
    random, names = np.random.default_rng(0), [f"{number}.jpg" for number in range(len(sizes))]
    for name, size in zip(names, sizes, strict=True):
        photo(*size, random).save(folder / name, quality=90)
    return FileList(folder.parent, [folder.name], torch.zeros(len(names), dtype=torch.int64), encoded(names))


def write_shards(files: FileList, kind: str, folder: Path) -> Packed:
    folder.mkdir()
    return pack(files, torch.arange(len(files)), kind, SIDE, folder, "train")[0]


class Photos(Dataset):
    def __init__(self, files: FileList, view: Callable, as_tensors: bool) -> None:
        self.files, self.view, self.as_tensors = files, view, as_tensors

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, number: int) -> torch.Tensor:
        with Image.open(self.files[number]) as image:
            rgb = image.convert("RGB")
        return self.view(torch.from_numpy(np.array(rgb)).permute(2, 0, 1) if self.as_tensors else rgb)


def processor_seconds() -> float:
    """Processor seconds of all threads of this process and of its children, which Linux counts in hundredths."""
    process = os.getpid()
    children = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
    ticks = 0
    for child in children:
        ticks += sum(
            map(int, Path(f"/proc/{child}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13])
        )
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def loaders(folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds of the clock and of the processor for all images, from JPEG to views."""
    shapes = [(256, 341), (341, 256), (256, 384), (256, 256)]  # of photographs of 4:3, 3:2 and 1:1
    files = write_jpegs(folder / "photos", [shapes[number % 4] for number in range(IMAGES)])
    store, random = write_shards(files, "jpeg", folder / "shards"), torch.Generator().manual_seed(0)

    def ours() -> None:
        for index, images in store.in_turn(torch.randperm(IMAGES, generator=random).split(BATCH)):
            augment(images, STANDARD, VIEW, random, sizes=store.image_sizes(index))

    def theirs(view: Callable, as_tensors: bool) -> Callable[[], None]:
        workers = {"num_workers": torch.get_num_threads(), "persistent_workers": True}
        loader = DataLoader(Photos(files, view, as_tensors), BATCH, shuffle=True, **workers)

        def epoch() -> None:
            for _ in loader:
                pass

        return epoch

    contestants = {
        "ours": ours,
        "torchvision_pil": theirs(torchvision_on_pil(VIEW), False),
        "torchvision_tensors": theirs(torchvision_on_tensors(VIEW), True),
    }
    clock = medians(contestants, LOADER_REPETITIONS)
    return clock, medians(contestants, LOADER_REPETITIONS, clock=processor_seconds)


def decoding(folder: Path) -> dict[str, float]:
    """Microseconds of the processor per image for each decoder, in all and under Python's lock."""
    files = write_jpegs(folder / "decoded", [(SIDE, 341)] * BATCH)
    store, numbers, decoders = write_shards(files, "jpeg", folder / "decoded shards"), {}, {"pillow": by_pillow}
    if decoder() is by_simplejpeg:
        decoders["simplejpeg"] = by_simplejpeg
    for name, decode in decoders.items():
        with unittest.mock.patch.object(disk, "decoder", lambda decode=decode: decode):
            try:
                turns = [under_lock(lambda: store.take(torch.arange(BATCH)), LOCK_SECONDS) for _ in range(3)]
            except FileNotFoundError as error:
                print(f"without decoding's rows: {error}")
                return {}
        whole, held = (1e6 * statistics.median(each) / BATCH for each in zip(*turns, strict=True))
        numbers |= {f"{name}_microseconds": whole, f"{name}_microseconds_under_lock": held}
    return numbers


def steps(folder: Path) -> dict[str, float]:
    """Seconds of the processor for a step from each store."""
    files = write_jpegs(folder / "squares", [(SIDE, SIDE)] * IMAGES)
    raw, jpeg = (write_shards(files, kind, folder / f"{kind} squares") for kind in ("raw", "jpeg"))
    memory = Resident(torch.cat([images for _, images in raw.in_turn(torch.arange(IMAGES).split(BATCH))]))
    runs = {name: whole_step(run_on(store)) for name, store in (("memory", memory), ("raw", raw), ("jpeg", jpeg))}
    return medians(runs, STEP_REPETITIONS, clock=processor_seconds)


def run_on(store: Store) -> Training:
    changes = {
        "method": {"negatives": "sampled", "bank_start": "random"},
        "budget": {"batch_size": STEP_BATCH, "negatives": IMAGES // 2},
    }
    images = ImageSet(store, torch.arange(IMAGES) % 2, torch.arange(IMAGES), ("a", "b"))
    return training("ir", "uniform", "imagenet", changes, images, images, pick_device(), view_size=VIEW)


def peak_bytes(folder: Path, count: int, side: int) -> tuple[int, int]:
    """Peak memory of a process after it imported the stage `prepare`, and after the stage on `count` JPEGs."""
    root = folder / f"{count} of {side}"
    tiles = write_jpegs(root.with_name(f"tiles of {side} for {count}"), [(side, side)] * TILES)
    for split, images in (("train", count - count // 20), ("test", count // 20)):
        for number in range(images):
            place = root / split / str(number % max(2, count // OF_CLASS))
            place.mkdir(parents=True, exist_ok=True)
            os.link(tiles[number % TILES], place / f"{number}.jpg")
    tree = yaml.safe_load((ROOT / "params.yaml").read_text())
    tree["datasets"]["folder"] |= {"root": str(root), "image_size": side, "view_size": side, "store": "jpeg"}
    tree["datasets"]["folder"]["validation_fraction"] = 0.02
    tree |= {"dataset": "folder", "scale": "paper"}
    (root / "params.yaml").write_text(yaml.safe_dump(tree))
    words = ["--params", root / "params.yaml", "--images", root / "images", "--split", root / "split.json"]
    words += ["--metrics", root / "prepare.json"]
    environment = {**os.environ, "DVC_ROOT": str(root), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'stages'}:{BENCHMARKS}"}
    output = subprocess.check_output([sys.executable, "-c", MEASURED, *map(str, words)], cwd=ROOT, env=environment)
    assert json.loads((root / "prepare.json").read_text())["train_images"] > 0.9 * count
    imports, peak = map(int, output.splitlines())
    return imports, peak


# Runs the stage and prints the peak memory of the process before and after it.
MEASURED = """
import sys
import prepare
from bench_memory import resident
from annulus_lab.pipeline.stage import run_stage
print(resident("VmHWM"))
run_stage(prepare.main, prepare.READS, prepare.PATHS, sys.argv[1:], tracked=False)
print(resident("VmHWM"))
"""


def main() -> None:
    pick_device()
    with tempfile.TemporaryDirectory() as name:  # 2 GB
        folder = Path(name)
        (clock, processor), decoded, seconds = loaders(folder), decoding(folder), steps(folder)
        sizes = ((FEW, 64), (MANY, 64), (LARGE, SIDE))
        (imports, few), (_, many), (_, large) = (peak_bytes(folder, *each) for each in sizes)
    an_image = max(0.0, (many - few) / (MANY - FEW))
    numbers = {f"{name}_images_per_second": IMAGES / each for name, each in clock.items()}
    numbers |= {f"{name}_images_per_processor_second": round(IMAGES / each) for name, each in processor.items()}
    for name in clock.keys() - {"ours"}:
        numbers[f"times_{name}"] = clock[name] / clock["ours"]
        numbers[f"processor_times_{name}"] = processor[name] / processor["ours"]
    for name in ("raw", "jpeg"):
        numbers[f"{name}_step_percent_of_memory"] = 100 * seconds["memory"] / seconds[name]
    write(
        "store",
        torch.device("cpu"),
        **numbers,
        **{f"decoding_{name}": round(each) for name, each in decoded.items()},
        step_processor_seconds=seconds["memory"],
        prepare_imports_mib=round(imports / 2**20),
        prepare_peak_mib_20_000_of_64_px=round(few / 2**20),
        prepare_peak_mib_100_000_of_64_px=round(many / 2**20),
        prepare_peak_mib_4_000_of_256_px=round(large / 2**20),
        prepare_bytes_an_image=round(an_image),
        prepare_peak_mib_imagenet_estimated=round((large + an_image * (ALL - LARGE)) / 2**20),
        **{"batch": BATCH, "step_batch": STEP_BATCH, "view_size": VIEW},
    )


if __name__ == "__main__":
    main()

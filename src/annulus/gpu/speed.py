"""Speed on a GPU: selection of negatives, training steps, and images from JPEG shards."""

import io
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F

from annulus.device.trust import trusted
from annulus.encoders.config import Stem
from annulus.files.disk import Packed
from annulus.files.shards import Places, Shards
from annulus.gpu.clock import host_waits, kernels, peak_bytes, seconds_per_call, synchronize
from annulus.gpu.result import KNOWN, SLOW, CheckResult, against, reason
from annulus.gpu.trainings import Sizes, start, stepping
from annulus.negatives import threshold
from annulus.views.recipe import augment

RING = (0.01, 0.1)
MOST_PRODUCTS, MOST_BYTES = 2.2, 0.3e9
# Goals in images a second with ResNet-18 on an H100; other stems have none.
LEAST = {("ir", "cifar"): 36_000, ("moco", "cifar"): 26_000}
GIGABYTES = 2**30


def selection(device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Times draws from a ring relative to the product that computes the scores."""
    random = torch.Generator().manual_seed(0)
    path = "kernels" if trusted("annulus.negatives.bisection", threshold.kernels_agree, device) else "sorting"
    for queries, columns in sizes.selections:
        query, bank = (
            F.normalize(torch.randn(rows, sizes.dim, generator=random)).to(device) for rows in (queries, columns)
        )
        own = torch.randint(columns, (queries,), generator=random).to(device)
        first, last = (int(share * columns) for share in RING)
        picked = torch.randint(last - first, (queries, sizes.draws), generator=random).to(device)
        scores = query @ bank.T
        product = seconds_per_call(lambda query=query, bank=bank: query @ bank.T, sizes.calls)
        for name, select in (("kernels", threshold.by_kernels), ("sorting", threshold.plain)):
            what = f"select ({queries}, {columns:,}) by {name}"
            call = partial(select, scores, own, first, last, picked)
            try:
                ratio = seconds_per_call(call, sizes.calls if name == "kernels" else 3) / product
                peak = peak_bytes(call)
            except Exception as error:  # too little memory, or a kernel that does not compile
                yield CheckResult(what, reason(error), SLOW)
                continue
            if name == "sorting":
                yield CheckResult(what, f"{ratio:.3g} products", KNOWN, "used" if path == name else "")
                continue
            yield against(what, ratio, MOST_PRODUCTS, "products", used="used" if path == name else "")
            if peak is not None:
                yield against(f"{what}, memory", peak / 1e9, MOST_BYTES / 1e9, "GB")


def steps(method: str, stem: Stem, device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Measures images a second, waits, kernels and memory of a method's step."""
    what, training = f"{method}, {stem} stem", start(method, stem, sizes, device)
    call = stepping(training)
    rate = sizes.batch / seconds_per_call(call, sizes.steps)
    least = LEAST.get((method, stem))
    yield (
        CheckResult(what, f"{rate:,.0f} images/s")
        if least is None
        else against(what, rate, least, "images/s", least=True)
    )
    training.batch = 1  # skips the steps that check losses
    if (waits := host_waits(call)) is not None:
        yield against(f"{what}, host waits of a step", waits, 0, "waits")
        yield CheckResult(f"{what}, kernels and copies of a step", f"{kernels(call)}")
        yield CheckResult(f"{what}, memory beyond weights and images", f"{peak_bytes(call) / GIGABYTES:.2f} GiB")


def shards(device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Measures views a second from JPEG shards, decoded by all cores."""
    with tempfile.TemporaryDirectory() as folder:
        store = photographs(Path(folder), sizes).on(device)
        random = torch.Generator().manual_seed(0)

        def draw_views() -> None:
            for index, images in store.in_turn(torch.arange(len(store)).split(sizes.batch)):
                augment(images.to(device), "standard", sizes.photo_view, random, sizes=store.image_sizes(index))

        draw_views()  # warms up
        started = time.perf_counter()
        draw_views()
        synchronize()
        rate = len(store) / (time.perf_counter() - started)
    number = f"{rate:,.0f} images/s, {torch.get_num_threads()} threads"
    yield CheckResult(f"JPEG shards to views of {sizes.photo_view} px", number)


def photographs(folder: Path, sizes: Sizes) -> Packed:
    """Writes one shard of JPEGs with about the bytes of photographs: few images, each stored many times."""
    from PIL import Image

    random, side, contents = torch.Generator().manual_seed(0), sizes.photo_side, []
    for _ in range(32):
        pixels = torch.zeros(1, 3, side, side)
        for cells, amplitude in ((8, 60), (32, 40), (128, 18), (side, 4)):
            coarse = torch.rand(1, 3, cells, cells, generator=random) * 2 - 1
            pixels += amplitude * F.interpolate(coarse, size=(side, side), mode="bicubic", antialias=True)
        image = Image.fromarray((pixels[0] + 128).clamp(0, 255).byte().permute(1, 2, 0).contiguous().numpy())
        buffer = io.BytesIO()
        image.save(buffer, "JPEG", quality=90)
        contents.append(buffer.getvalue())
    order = torch.arange(sizes.photos) % len(contents)
    lengths = torch.tensor([len(content) for content in contents])[order]
    (folder / "shard.bin").write_bytes(b"".join(contents[number] for number in order.tolist()))
    places = Places(
        shard=torch.zeros(sizes.photos, dtype=torch.int32),
        start=lengths.cumsum(0) - lengths,
        length=lengths.int(),
        sizes=torch.full((sizes.photos, 2), side, dtype=torch.int32),
        fingerprint=order,
    )
    return Packed(places, Shards(folder, {"shard.bin": int(lengths.sum())}), "jpeg", side)

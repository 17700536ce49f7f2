"""A made-up repository for the report: small metrics in the formats of the real ones, and pictures."""

import csv
import json
import math
import subprocess
from pathlib import Path

import torch
from PIL import Image

from annulus.files.images import ImageSet, save_images
from annulus.files.packed import write_packed
from annulus.files.results import write_metrics, write_seeds, write_table
from annulus.files.store import Resident

ROOT = Path(__file__).resolve().parents[1]
CLASSES = ("disc", "ring", "star")


def written(root: Path, name: str, rows: dict | list[dict]) -> None:
    """A metrics file of any content, also one that no stage would write: a dict as JSON, rows as CSV."""
    path = root / "metrics" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, dict):
        path.write_text(json.dumps(rows))
        return
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def first_commit(root: Path) -> str:
    """The commit of a repository that is made there."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True).strip()


def params(root: Path, text: str | None = None) -> None:
    """The repository's own params.yaml, or another text."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(text or (ROOT / "params.yaml").read_text())


def main_line(root: Path, classes: tuple[str, ...] = CLASSES) -> None:
    """The main line's metrics."""
    metrics = root / "metrics"
    headline = {"knn_top1_percent": 39.7, "bound_nats": 0.2966, "train_images": 3600}
    write_metrics(metrics / "summary.json", headline)
    halves = [("knn_top1_percent", 39.7, 0.85), ("bound_nats", 0.2966, 0.0123), ("effective_rank", 8, "")]
    write_table(
        metrics / "summary.csv",
        [{"number": name, "mean": x, "interval": half, "seed0": x, "seed1": x} for name, x, half in halves],
    )
    nearest = {seed: {"top1_percent": 38.7 + 2 * seed, "images": 1000} for seed in (0, 1)}
    write_seeds(metrics / "main/knn.json", nearest)
    write_seeds(metrics / "main/linear.json", {seed: {"top1_percent": 49.3} for seed in (0, 1)})
    trained = {"bound_nats": 0.2966, "ceiling_nats": 6.9324, "processor": "AMD EPYC, AVX2"}
    write_seeds(metrics / "main/pretrain.json", dict.fromkeys((0, 1), trained))
    write_metrics(metrics / "main/prepare.json", {"train_images": 3600})
    history = [
        {"seed": seed, "epoch": e, "bound_nats": 0.1 * e, "ceiling_nats": 6.9, "gradient_norm": 3.0,
         "gradient_norm_std": 0.5, "inner_share": 0.01 * e, "outer_share": 1 - 0.2 * e,
         "validation_nn1_percent": 10.0 * e + seed}
        for seed in (0, 1) for e in (1, 2, 3)
    ]  # fmt: skip
    write_table(metrics / "main/pretrain_history.csv", history)
    probe = [{"seed": seed, "epoch": e, "train_top1_percent": 30.0 + e, "validation_top1_percent": 28.0 + e + seed}
             for seed in (0, 1) for e in (1, 2, 3)]  # fmt: skip
    write_table(metrics / "main/linear_history.csv", probe)
    pairs = [{"actual": a, "predicted": p} for a in classes for p in (a, a, a, classes[0])]
    write_table(metrics / "main/confusion.csv", pairs)


def negatives_study(root: Path, series: str = "IR") -> None:
    """The files of the negatives study that have figures; one series is called `series`."""
    folder = root / "metrics/negatives"
    for part, values in (
        ("count", (32, 128, 512)),
        ("temperature", (0.02, 0.2, 1.0)),
        ("bank-rate", (0.0, 0.5, 0.99)),
        ("start", (0.05, 0.25, 0.75)),
        ("eqco-moco", (4, 64, 256)),
        ("eqco-simo", (4, 16, 31)),
    ):
        names = ("plain", "EqCo") if part.startswith("eqco") else (series, "10 %")
        rows = [
            {"series": name, "value": value, "seeds": 2, "nn1_top1_percent": 16.0 + i + j,
             "nn1_top1_interval_percent": 0.5,
             "linear_top1_interval_percent": "",  # as of one seed
             "linear_top1_percent": 24.0 + i + j,
             "gradient_mean_norm": 2.0 + i, "gradient_std_norm": 0.3}
            for i, name in enumerate(names) for j, value in enumerate(values)
        ]  # fmt: skip
        write_table(folder / f"{part}.csv", rows)
    for part in (
        "negatives/stability",
        "negatives/critic",
        "negatives/annealing",
        "augmentations/ir",
        "augmentations/cmc",
    ):
        rows = [
            {"series": name, "x": x, "nn1_top1_percent": 10.0 + x} for name in (series, "constant") for x in (1, 2, 3)
        ]
        write_table(root / f"metrics/{part}_figure.csv", rows)
    rows = [
        {"series": name, "k": k, "seeds": 2, "mean_nats": 0.7 - i, "bias_nats": -0.01, "std_nats": 0.2 / k}
        for i, name in enumerate(("NCE", "CNCE, ring")) for k in (16, 64, 256)
    ]  # fmt: skip
    write_table(folder / "estimates.csv", rows)


def shared_by_views(root: Path) -> None:
    """The files of the studies of views that have figures, beside those over epochs."""
    for part in (
        "augmentations/noise",
        "augmentations/crop",
        "augmentations/small-crops",
        "strength/steps",
        "strength/crop",
        "strength/jitter",
        "frequency/sigma",
    ):
        rows = [
            {"series": part, "value": nats, "held_out_nats": nats, "linear_top1_percent": 50 - (nats - 2) ** 2,
             "linear_top1_interval_percent": 1.0} for nats in (1.0, 2.0, 3.0)
        ]  # fmt: skip
        write_table(root / f"metrics/{part}.csv", rows)
    points = [
        {"series": name, "learns": learns, "held_out_nats": nats, "held_out_interval_nats": 0.1,
         "linear_top1_percent": 50 + nats, "linear_top1_interval_percent": ""}
        for name, learns, nats in (("raw-rgb", "raw", 1.3), ("a", "supervised", 1.0), ("b", "unsupervised", 0.5))
    ]  # fmt: skip
    write_table(root / "metrics/view_learning/points.csv", points)
    curves = [
        {"series": name, "step": step, "shared_nats": nats, "shared_interval_nats": ""}
        for name, nats in (("a", ""), ("b", 0.5)) for step in (1, 2)
    ]  # fmt: skip
    write_table(root / "metrics/view_learning/curves.csv", curves)
    Image.new("RGB", (4, 4)).save(root / "metrics/view_learning/views.png")


def moving_digits(root: Path) -> None:
    """The table of the moving digits; supervised networks have no bound."""
    rows = [
        {"sharing": sharing, "seeds": 3, "digit_error_percent": digit, "digit_error_interval_percent": 2.0,
         "background_error_percent": 60.0, "background_error_interval_percent": 3.0, "position_error_pixels": place,
         "position_error_interval_pixels": "", "bound_nats": bound, "scale": "demo"}
        for sharing, digit, place, bound in (("digit", 30.0, 3.0, 0.9), ("digit + position", 35.0, 1.5, 1.2),
                                             ("supervised", 10.0, 0.5, ""))
    ]  # fmt: skip
    write_table(root / "metrics/moving_digits/table.csv", rows)


def spirals_and_patches(root: Path) -> None:
    """The files of both studies' figures."""
    points = [
        {"noise": noise, "bound_nats": 2 - noise, "bound_interval_nats": 0.1, "top1_percent": 60 + 20 * noise,
         "top1_interval_percent": 5.0, "circle_percent": 61, "circle_interval_percent": 2.0,
         "coordinates_percent": 55, "coordinates_interval_percent": 1.0, "gain_percent": 20 * noise,
         "gain_interval_percent": 6.0}
        for noise in (0.0, 0.8)
    ]  # fmt: skip
    write_table(root / "metrics/spirals/points.csv", points)
    curve = [{"series": f"noise {n}", "x": x, "loss_nats": 6 - x / 10} for n in (0.0, 0.8) for x in (10, 20)]
    write_table(root / "metrics/spirals/curve.csv", curve)
    plane = [{"noise": n, "x": x / 9, "y": -x, "spiral": x % 2} for n in (0.0, 0.8) for x in range(6)]
    write_table(root / "metrics/spirals/plane.csv", plane)
    offsets = [
        {"series": series, "value": offset, "linear_top1_percent": 40 - abs(offset - 40) / 4,
         "linear_top1_interval_percent": 1.0, "held_out_nats": 60 / offset, "held_out_interval_nats": 0.1,
         "held_out_ceiling_nats": 5.5} for series in ("shapes", "mosaics") for offset in (20, 40, 80)
    ]  # fmt: skip
    write_table(root / "metrics/distance/offsets.csv", offsets)


def transfer(root: Path) -> None:
    """The gains of transfer on three targets, and accuracies on one of the paper's."""
    gains = [
        {"target": target, "over": over, "linear_gain_percent": gain, "linear_gain_interval_percent": 0.5,
         "few_shot_gain_percent": 2 * gain, "few_shot_gain_interval_percent": "", "scale": "demo", "seeds": 3}
        for target, first in (("digits", 0.4), ("hues", 1.5), ("mnist", 0.9))
        for over, gain in (("uniform", first), ("untrained", 8.0))
    ]  # fmt: skip
    write_table(root / "metrics/meta/gains.csv", gains)
    rows = [
        {"target": target, "variant": variant, "algorithm": name, "linear_top1_percent": top1,
         "linear_top1_interval_percent": 1.0, "scale": "demo", "seeds": 3, "dataset": "shapes"}
        for target in ("digits", "mnist")
        for variant, name, top1 in (("main", "IRing", 95.5), ("uniform", "IR", 95.1), ("untrained", "untrained", 80.0))
    ]  # fmt: skip
    write_table(root / "metrics/meta/table.csv", rows)


def algorithms(root: Path) -> None:
    """Two rows of one of the papers' tables."""
    rows = [
        {"table": "ring.table1a", "method": method, "here_percent": here, "here_interval_percent": 1.25,
         "scale": "demo",
         "here_gain_percent": gain, "here_gain_interval_percent": 0.5,
         "paper_percent": 81.2, "paper_gain_percent": gain, "verdict": "better" if gain else "base",
         "here_knn_percent": 20.0, "bound_nats": 0.1, "ceiling_nats": 6.2, "epochs": 16, "seeds": 2}
        for method, here, gain in (("IR", 22.9, 0.0), ("MoCoRing", 23.6, 0.7))
    ]  # fmt: skip
    write_table(root / "metrics/algorithms/table.csv", rows)
    write_table(root / "metrics/cifar10/table.csv", [row | {"scale": "cpu", "epochs": 60} for row in rows])


def estimators(root: Path) -> None:
    """The files of the estimators study."""
    folder = root / "metrics/estimators"
    write_table(folder / "gaussians.csv", [
        {"method": method, "information_nats": information, "pairs": pairs, "estimate_nats": information * 0.9,
         "std_over_seeds_nats": 0.1, "ceiling_nats": math.log(pairs), "seeds": 5, "scale": "demo"}
        for method in ("InfoNCE", "EqCo") for information in (2.0, 4.0) for pairs in (64, 512)
    ])  # fmt: skip
    write_table(folder / "binary.csv", [
        {"bound": bound, "alpha": alpha, "m": m, "value_nats": 0.7 - 0.4 / m, "information_nats": 0.6931,
         "bias_nats": -0.4 / m, "variance": 0.5 / m, "simulated_nats": 0.7, "simulated_variance": 0.1}
        for bound, alpha in (("CPC", 1.0), ("CPC", "lowest"), ("ML-CPC", 1.0), ("ML-CPC", "lowest")) for m in (2, 8, 64)
    ])  # fmt: skip
    write_table(folder / "ideal.csv", [
        {"series": series, "information_nats": information, "estimate_nats": information - 0.1, "error_nats": 0.01,
         "std_nats": 0.1, "ceiling_nats": ceiling, "pairs": 128, "repeats": 200, "scale": "paper"}
        for series, ceiling in (("InfoNCE", 4.852), ("NWJ", "")) for information in (1.0, 4.0)
    ])  # fmt: skip
    write_metrics(folder / "theorems.json", {"gauss1000_information_nats": 20.411, "scale": "paper"})
    for critic in ("separable", "joint"):
        write_table(folder / f"staircase-{critic}.csv", [
            {"series": f"{bound}, alpha {alpha:g}", "bound": bound, "alpha": alpha, "iteration": step,
             "estimate_nats": 0.9 * level, "information_nats": level}
            for bound in ("CPC", "ML-CPC") for alpha in (1.0, 0.01)
            for step, level in ((0, 2.0), (100, 2.0), (200, 4.0), (300, 4.0))
        ])  # fmt: skip
    write_table(folder / "conditional.csv", [
        {"variant": variant, "points": points, "method": method, "percent_closest": percent,
         "estimate_nats": 0.0134 * percent / 100, "std_over_seeds_nats": 0.0005, "interval_nats": 0.0006, "seeds": 5,
         "supremum_nats": 0.02 * (percent / 100) ** 2, "information_nats": 0.02041, "scale": "paper"}
        for variant in ("cosine", "cosine-slow-warm") for points in ("unseen", "trained on")
        for method, percent in (("NCE", 100), ("CNCE", 50), ("CNCE", 5))
    ])  # fmt: skip


def diagnostics(root: Path) -> None:
    """The diagnostics stage's metrics."""
    rows = [
        {"seed": seed, "epoch": e, "alignment": 0.4, "uniformity": -2.0, "effective_rank": 20.0, "staleness": 0.1,
         "positive_similarity": 0.8, "ring_inner_similarity": 0.7, "ring_outer_similarity": 0.4,
         "false_negatives_chance_percent": 10.0, "false_negatives_ring_percent": 12.0 + e}
        for seed in (0, 1) for e in (1, 2, 3)
    ]  # fmt: skip
    write_table(root / "metrics/main/diagnostics_history.csv", rows)
    write_seeds(root / "metrics/main/diagnostics.json", {row["seed"]: row for row in rows})


def pictures(root: Path, classes: tuple[str, ...] = CLASSES, size: int = 8) -> tuple[ImageSet, ImageSet]:
    """Twelve training and four test images, and picks among them; the cave holds two rows only."""
    sets = []
    for split, count in (("train", 12), ("test", 4)):
        random = torch.Generator().manual_seed(count)
        images = torch.randint(0, 256, (count, 3, size, size), generator=random, dtype=torch.uint8)
        labels = torch.arange(count) % len(classes)
        sets.append(ImageSet.of(Resident(images), labels, torch.arange(count), classes))
        save_images(root / f"data/main/images/{split}.safetensors", sets[-1])
    found = {
        "test_queries": torch.tensor([0, 3]),
        "test_neighbours": torch.tensor([[3, 1, 2], [0, 4, 5]]),
        "test_similarity": torch.tensor([[0.9, 0.5, 0.25], [0.8, 0.7, 0.6]]),
        "train_queries": torch.tensor([2]),
        "negatives_uniform": torch.tensor([[5, 6, 7]]),
        "negatives_ball": torch.tensor([[8, 1, 0]]),
        "negatives_cave": torch.tensor([[3, 4, -1]]),
    }
    write_packed(root / "data/main/examples.safetensors", found, {"epoch": 3})
    return sets[0], sets[1]


def everything(root: Path, classes: tuple[str, ...] = CLASSES, series: str = "IR") -> None:
    """All of it, without git."""
    params(root)
    main_line(root, classes)
    negatives_study(root, series)
    shared_by_views(root)
    spirals_and_patches(root)
    moving_digits(root)
    transfer(root)
    algorithms(root)
    estimators(root)
    diagnostics(root)
    pictures(root, classes)
    write_metrics(root / "metrics/runs/cifar10_ir.json", json.loads((root / "metrics/summary.json").read_text()))
    write_metrics(root / "metrics/benchmarks/views.json", {"times_pil": 8.64, "processor": "AMD EPYC"})

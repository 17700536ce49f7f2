"""A repository for the report: made-up numbers of the main line, studies with their committed metrics, and pictures."""

import csv
import hashlib
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import torch
import yaml
from by_path import ROOT, parse_yaml
from PIL import Image
from stated import stated_text

from annulus.files.images import ImageSet, save_images
from annulus.files.packed import write_packed
from annulus.files.results import write_metrics, write_seeds, write_table
from annulus.files.store import Resident
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.page.sheets import SHEETS

CLASSES = ("disc", "ring", "star")


class Parsed(HTMLParser):
    """A page's start tags with their attributes, and its text, without scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags, self.text, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.append((tag, dict(attributes)))
        self.inside = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag: str) -> None:
        self.inside = None

    def handle_data(self, data: str) -> None:
        self.text += [] if self.inside else [data]


def written(root: Path, name: str, rows: dict | list[dict]) -> None:
    """Writes a metrics file of any content, even one that stages never write: a dict as JSON, rows as CSV."""
    path = root / metrics_path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(rows, dict):
        path.write_text(json.dumps(rows))
        return
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


def committed(names: str) -> dict[str, Path]:
    """Metrics files of this repository by their names; `names` as `*/*.csv`."""
    study, _, rest = names.partition("/")
    files = {path.relative_to(ROOT / "metrics").as_posix(): path for path in ROOT.glob(f"metrics/{names}")}
    for path in ROOT.glob(f"stages/{study}/metrics/{rest}") if rest else ():
        _, study, _, *parts = path.relative_to(ROOT).parts
        files["/".join([study, *parts])] = path
    return dict(sorted(files.items()))


def first_commit(root: Path) -> str:
    """Makes a repository of the folder and returns its commit."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*git, *words], cwd=root, check=True)
    return subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=root, text=True).strip()


def with_lock(files: dict[str, str]) -> dict[str, str]:
    """Adds to files of a repository the dvc.yaml and dvc.lock of a stage that has made the metrics among them."""
    metrics = [name for name in files if name.startswith("metrics/")]
    code = [name for name in files if name.startswith("src/")]
    params = parse_yaml(files["params.yaml"])
    sampler = params["sampler"]
    read = {"sampler": sampler, f"samplers.{sampler}": params["samplers"][sampler]}
    stage = {
        "cmd": "train",
        "deps": code,
        "params": ["sampler", "samplers.${sampler}"],
        "plots": [{name: {"cache": False}} for name in metrics],
    }
    locked = {
        "params": {"params.yaml": read},
        "deps": [{"path": name, "md5": hashlib.md5(files[name].encode()).hexdigest()} for name in code],
        "outs": [{"path": name, "md5": hashlib.md5(files[name].encode()).hexdigest()} for name in metrics],
    }
    lock, pipeline = ({"stages": {"pretrain": each}} for each in (locked, stage))
    return files | {"dvc.yaml": yaml.safe_dump(pipeline), "dvc.lock": yaml.safe_dump(lock)}


def params(root: Path, text: str | None = None) -> None:
    """Writes the stated params.yaml, or another text."""
    root.mkdir(parents=True, exist_ok=True)
    (root / "params.yaml").write_text(text or stated_text())


def pipelines(root: Path, *studies: str) -> None:
    """Adds studies that may write metrics, without metrics."""
    for study in studies:
        (root / "stages" / study).mkdir(parents=True, exist_ok=True)
        (root / "stages" / study / "dvc.yaml").touch()


def main_line(root: Path, classes: tuple[str, ...] = CLASSES) -> None:
    """Writes the main line's metrics."""
    metrics = root / "metrics"
    headline = {"knn_top1_percent": 39.7, "bound_nats": 0.2966, "train_images": 3600}
    write_metrics(metrics / "summary.json", headline)
    halves = [
        ("knn_top1_percent", 39.7, 0.85),
        ("linear_top1_percent", 49.3, 0.7),
        ("bound_nats", 0.2966, 0.0123),
        ("effective_rank", 8, ""),
    ]
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


def studies(root: Path, names: str, series: str | None = None) -> None:
    """Writes tables of the repository's own studies, at most 24 rows each; `series` renames the first series."""
    for name, path in committed(names).items():
        place = root / metrics_path(name)
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".json":
            shutil.copy(path, place)
            continue
        with path.open() as file:
            rows = list(csv.DictReader(file))
        first = rows[0].get("series")
        rows = [row | {"series": series} if series and row["series"] == first else row for row in rows]
        written(root, name, rows[:: -(-len(rows) // 24)])


def algorithms(root: Path) -> None:
    """Writes two rows of one of the papers' tables, for three studies."""
    rows = [
        {"table": "ring.table1a", "method": method, "here_percent": here, "here_interval_percent": 1.25,
         "scale": "demo",
         "here_gain_percent": gain, "here_gain_interval_percent": 0.5,
         "paper_percent": 81.2, "paper_gain_percent": gain, "verdict": "better" if gain else "base",
         "here_knn_percent": 20.0, "here_top5_percent": "",
         "bound_nats": 0.1, "ceiling_nats": 6.2, "epochs": 16, "seeds": 2}
        for method, here, gain in (("IR", 22.9, 0.0), ("MoCoRing", 23.6, 0.7))
    ]  # fmt: skip
    write_table(root / metrics_path("algorithms/table.csv"), rows)
    write_table(root / metrics_path("cifar10_algorithms/table.csv"), [row | {"epochs": 10} for row in rows])
    write_table(root / metrics_path("cifar10/table.csv"), [row | {"scale": "cpu", "epochs": 60} for row in rows])


def over_uniform(root: Path, sign: int = 1, **changed: object) -> None:
    """Writes the comparison of the main line with uniform negatives."""
    names = {"linear_top1_percent": (49.3, 1.2), "knn_top1_percent": (39.7, 3.0), "bound_nats": (0.2966, -0.9)}
    rows = [
        {"number": name, "base": head - sign * gain, "head": head, "difference": sign * gain, "interval": 0.5,
         "verdict": "better" if sign * gain > 0 else "worse", "changed": "sampler: uniform -> ring",
         "dataset": "shapes", "scale": "demo", "seeds": 2, "test_images": 1000, "seed0": gain, "seed1": gain} | changed
        for name, (head, gain) in names.items()
    ]  # fmt: skip
    write_table(root / "metrics/comparisons/uniform.csv", rows)


def pictures(root: Path, classes: tuple[str, ...] = CLASSES) -> tuple[ImageSet, ImageSet]:
    """Writes twelve training and four test images, and picks among them; the cave holds two rows only."""
    sets = []
    for split, count in (("train", 12), ("test", 4)):
        random = torch.Generator().manual_seed(count)
        images = torch.randint(0, 256, (count, 3, 8, 8), generator=random, dtype=torch.uint8)
        labels = torch.arange(count) % len(classes)
        sets.append(ImageSet(Resident(images), labels, torch.arange(count), classes))
        save_images(root / f"data/main/images/{split}.safetensors", sets[-1])
    picks = {
        "test_queries": torch.tensor([0, 3]),
        "test_neighbours": torch.tensor([[3, 1, 2], [0, 4, 5]]),
        "test_similarity": torch.tensor([[0.9, 0.5, 0.25], [0.8, 0.7, 0.6]]),
        "train_queries": torch.tensor([2]),
        "negatives_uniform": torch.tensor([[5, 6, 7]]),
        "negatives_ball": torch.tensor([[8, 1, 0]]),
        "negatives_cave": torch.tensor([[3, 4, -1]]),
    }
    write_packed(root / "data/main/examples.safetensors", picks, {"epoch": 3})
    return sets[0], sets[1]


def everything(root: Path, classes: tuple[str, ...] = CLASSES, series: str = "IR") -> None:
    """Writes everything, without git; also the parameters of one study, so that further studies list its parts."""
    params(root)
    pipelines(root, "negatives")
    shutil.copy(ROOT / "stages/negatives/params.yaml", root / "stages/negatives")
    main_line(root, classes)
    studies(root, "*negatives/*.csv", series)
    algorithms(root)
    over_uniform(root)
    pictures(root, classes)
    written(root, "benchmarks/views.json", {"times_pil": 8.64, "processor": "AMD EPYC"})
    for names in ("*/*.csv", "main/diagnostics.json", "benchmarks/*.json", "runs/*.json"):
        studies(root, names)
    for name in SHEETS:
        (root / metrics_path(name)).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(root / metrics_path(name))

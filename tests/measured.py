"""A checkout in which the main line or a study has run: its metrics, and the lock that DVC writes."""

import hashlib
import json
from pathlib import Path

import yaml


def measure(root: Path, sampler: str = "ring", knn: float = 40.0, inner: float = 0.01) -> None:
    """Writes the metrics and the lock of a run of this sampler, of four stages."""
    losses = "".join(f"{seed},{epoch},{epoch + 10.0 * seed},\n" for seed in (0, 1) for epoch in (1, 2))
    files = {
        "main/prepare.json": {"classes": 3, "test_digest": "abc"},
        "main/pretrain.json": {seed: {"loss_nats": 2.0 + 10 * int(seed), "processor": "a CPU"} for seed in ("0", "1")},
        "main/pretrain_history.csv": "seed,epoch,loss_nats,absent\n" + losses,
        "main/knn.json": {"0": {"top1_percent": knn - 1}, "1": {"top1_percent": knn + 1}},
        "summary.json": {"knn_top1_percent": knn, "knn_top1_interval_percent": 0.5},
    }
    outs = {}
    for name, content in files.items():
        path = root / "metrics" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        outs[name] = {"path": f"metrics/{name}", "md5": hashlib.md5(path.read_bytes()).hexdigest()}
    samplers = {"uniform": {}, "ring": {"inner": inner, "outer": 0.1}}
    stages = {
        "prepare": {"outs": [outs["main/prepare.json"]], "params": {"params.yaml": {"dataset": "shapes"}}},
        "pretrain": {
            "outs": [outs["main/pretrain.json"], outs["main/pretrain_history.csv"]],
            "params": {"params.yaml": {f"samplers.{sampler}": samplers[sampler], "optimizer": {"momentum": 0.9}}},
        },
        "knn": {"outs": [outs["main/knn.json"]], "params": {"params.yaml": {"knn": {"k": 20}, "samplers": samplers}}},
        "summary": {
            "deps": [outs["main/pretrain.json"], outs["main/knn.json"]],
            "outs": [outs["summary.json"]],
            "params": {"params.yaml": {"sampler": sampler, "seeds": [0, 1]}},
        },
    }
    (root / "dvc.lock").write_text(yaml.safe_dump({"schema": "2.0", "stages": stages}))


POINTS = "series,value,seeds,top1_percent,top1_interval_percent,top1_verdict,scale\nring,0.5,3,40.0,1.5,better,demo\n"


def measure_study(root: Path, study: str = "toys", points: str = POINTS + "uniform,,3,38.0,,base,demo\n") -> None:
    """Writes the files of a study that has run: a table of results, a curve, and data that git does not have."""
    files = {
        "metrics/points.csv": points,
        "metrics/points_figure.csv": "series,x,top1_percent,top1_interval_percent\nring,1,30.0,1.0\n",
        "data/images.csv": "image\n",
    }
    folder = root / "stages" / study
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    outs = [{"path": name, "md5": hashlib.md5(text.encode()).hexdigest()} for name, text in files.items()]
    (folder / "dvc.yaml").touch()
    (folder / "dvc.lock").write_text(yaml.safe_dump({"stages": {"settings": {"deps": []}, "points": {"outs": outs}}}))

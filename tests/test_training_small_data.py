"""Few images: settings for many images still run, and each change is one warning for all seeds."""

import json
from dataclasses import replace

import diagnostics
import embed
import knn
import linear
import prepare
import pretrain
import pytest
import summary
import torch
import yaml
from PIL import Image
from settings import CPU, changed, read, run, stripes

from annulus.files.images import UNLABELLED
from annulus.files.right import read_right
from annulus.negatives.neighbours import ClusterNeighbours, NoNeighbours
from annulus.negatives.samplers import Cave, Ring
from annulus.training.budget import Budget
from annulus.training.setup import build_training
from annulus.training.small_data import for_few_images
from annulus_lab.pipeline.stage import run_stage

SCALE = Budget(epochs=1, batch_size=64, negatives=1024, queue=1024, learning_rate=0.24, validation_images=None)
RING, NONE = Ring(outer=0.1, inner=0.01), NoNeighbours()
CAVE = Cave(outer=0.1, clusters=300, runs=1, iterations=20, keep="outside")
CLUSTERED = ClusterNeighbours(clusters=300, runs=10, iterations=20, start=0.05, in_denominator=False)


@pytest.mark.parametrize(("images", "batch"), [(64, 64), (63, 56), (8, 8)])
def test_a_batch_is_the_largest_multiple_of_eight_that_there_is(images, batch, caplog):
    plain = replace(read({}), budget=SCALE, sampler=RING, neighbours=NONE)
    assert for_few_images(images, plain) == replace(plain, budget=replace(SCALE, batch_size=batch))
    sentence = f"pretrain.batch_size: 64 is more than the {images} training images; a batch is {batch} of them"
    assert caplog.messages == ([] if batch == 64 else [f"WARNING: scales.SCALE.{sentence}"])


@pytest.mark.parametrize(("images", "clusters"), [(300, 300), (299, 149), (64, 32)])
def test_clusters_hold_two_images_where_there_are_fewer_images_than_clusters(images, clusters, caplog):
    settings = for_few_images(images, replace(read({}), budget=SCALE, sampler=CAVE, neighbours=CLUSTERED))
    assert settings.sampler == replace(CAVE, clusters=clusters)
    assert settings.neighbours == replace(CLUSTERED, clusters=clusters)
    sentence = f"clusters: 300 is more than the {images} training images; they are grouped into {clusters}"
    warnings = [message for message in caplog.messages if "clusters" in message]
    sections = [] if clusters == 300 else ["samplers.cave", "neighbour_sets.k"]
    assert warnings == [f"WARNING: {section}.{sentence}" for section in sections]


def test_more_negatives_than_rows_are_drawn_with_one_warning(caplog):
    training = run({"scales.tiny.pretrain.negatives": 70, "sampler": "uniform", "scales.tiny.pretrain.epochs": 1})
    assert [message for message in caplog.messages if "negatives" in message] == [
        "WARNING: 70 negatives of a query are drawn, with replacement, from a memory of 69 other rows, so that rows "
        "repeat; lower negatives, or take a larger memory"
    ]
    training.run()
    caplog.clear()
    run({"scales.tiny.pretrain.negatives": 69, "sampler": "uniform"})
    assert caplog.messages == []


def test_fifty_images_run_the_main_line(tmp_path, monkeypatch, caplog):
    """36 training images are fewer than a batch, the negatives and the neighbours; five classes of one colour each."""
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))  # where checkpoints go
    random = torch.Generator().manual_seed(0)
    for split, count in (("train", 8), ("test", 2)):
        for label, colour in enumerate(torch.eye(5, 3)):
            (tmp_path / "own" / split / f"class {label}").mkdir(parents=True)
            for number in range(count):
                pixels = (torch.rand(40, 50, 3, generator=random) * 127 + 128 * colour).to(torch.uint8).numpy()
                Image.fromarray(pixels).save(tmp_path / "own" / split / f"class {label}" / f"{number}.png")
    changes = {"dataset": "folder", "datasets.folder.root": str(tmp_path / "own"), "seeds": [0, 1], "knn.k": 200}
    changes |= {"scales.demo.pretrain.epochs": 2, "scales.demo.linear.epochs": 2, "backbone": "alexnet-fast"}
    changes |= {"scales.demo.pretrain.batch_size": 64, "scales.demo.pretrain.negatives": 1024}
    metrics = main_line(changes, tmp_path)
    assert (metrics["prepare"]["train_images"], metrics["prepare"]["test_images"]) == (36, 10)
    assert {seed: row["k"] for seed, row in metrics["knn"].items()} == {"0": 36, "1": 36}
    assert metrics["summary"]["bound_nats"] <= metrics["summary"]["bound_ceiling_nats"]
    assert sum("WARNING: scales.SCALE.pretrain.batch_size" in message for message in caplog.messages) == 1
    [chance] = [message for message in caplog.messages if "near chance" in message]
    assert chance.startswith("WARNING: seeds 0, 1 end near chance: bound -"), "two steps"


@pytest.mark.parametrize("method", ["ir", pytest.param("moco", marks=pytest.mark.slow)])
def test_a_flat_folder_of_photographs_runs_to_its_summary_without_a_number_of_classes(tmp_path, monkeypatch, method):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    random = torch.Generator().manual_seed(0)
    (tmp_path / "own").mkdir()
    for number in range(50):
        pixels = (torch.rand(40, 50, 3, generator=random) * 255).to(torch.uint8).numpy()
        Image.fromarray(pixels).save(tmp_path / "own" / f"{number}.jpg")
    changes = {"dataset": "photos", "datasets.photos.root": str(tmp_path / "own"), "seeds": [0, 1], "method": method}
    changes |= {"scales.demo.pretrain.epochs": 2, "backbone": "alexnet-fast", "scales.demo.pretrain.queue": 32}
    metrics = main_line(changes, tmp_path)
    assert [metrics["prepare"][name] for name in ("train_images", "test_images", "classes")] == [45, 5, 0]
    assert metrics["linear"] == {"0": {}, "1": {}}
    shares = {"", "_pixels", "_colour", "_chance"}
    retrieval = {f"crop_retrieval{name}_percent" for name in shares}
    for row in metrics["knn"].values():
        assert row.keys() == retrieval | {"crop_retrieval_images"}
        assert (row["crop_retrieval_images"], row["crop_retrieval_chance_percent"]) == (5, 2.0)
    assert retrieval - {"crop_retrieval_chance_percent"} < set(metrics["summary"])
    assert read_right(tmp_path / "numbers/knn_right.json") == read_right(tmp_path / "numbers/linear_right.json") == {}
    assert (tmp_path / "numbers/linear.csv").read_text() == "seed,epoch\n"
    assert (tmp_path / "confusion.csv").read_text() == "actual,predicted\n"
    assert {"alignment", "uniformity", "effective_rank", "bound_nats"} < set(metrics["summary"])
    numbers = {name for file in metrics.values() for name in file} | set(metrics["diagnostics"]["0"])
    percents = {name for name in numbers if name.endswith("_percent")}
    assert percents <= retrieval, "no accuracy and no false negatives"
    split = json.loads((tmp_path / "numbers/split.json").read_text())
    assert {part: len(names) for part, names in split.items()} == {"train": 45, "validation": 0, "test": 5}
    with Image.open(tmp_path / "neighbours.png") as rows:
        assert rows.size[1] == 21 + 5 * (96 + 14 + 4), "a line of headings, and names below the images"
    assert (tmp_path / "map.svg").read_text().count('<g class="p">') == 50


def test_a_schedule_that_watches_accuracy_is_refused_without_classes(tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    (tmp_path / "own").mkdir()
    for number in range(40):
        Image.new("RGB", (32, 32), (number, 0, 0)).save(tmp_path / "own" / f"{number}.png")
    changes = {"dataset": "photos", "datasets.photos.root": str(tmp_path / "own"), "schedule": "plateau"}
    with pytest.raises(SystemExit, match="of images without a class, which have none, take another schedule or anneal"):
        main_line(changes | {"backbone": "alexnet-fast", "seeds": [0]}, tmp_path)


@pytest.mark.parametrize("method", ["ir", "moco"])
def test_training_images_without_a_class_give_validation_images_no_accuracy(method):
    images = replace(stripes(70, 0), labels=torch.full((70,), UNLABELLED))
    settings = read({"method": method, "scales.tiny.pretrain.epochs": 1})
    (row,) = build_training(settings, images, stripes(10, 1), CPU).run()
    assert not [name for name in row if name.endswith("_percent")]


def main_line(changes, folder):
    """Runs the stages of the main line in turn and returns the metrics of each."""
    params, metrics = folder / "params.yaml", {}
    params.write_text(yaml.safe_dump(changed(changes)))
    files = {"examples": "examples.safetensors", "confusion": "confusion.csv", "curve": "numbers/pretrain.csv"}
    files |= {"split": "numbers/split.json", "neighbours": "neighbours.png", "map": "map.svg"}
    for stage in (prepare, pretrain, embed, knn, linear, diagnostics, summary):
        name = stage.__name__
        numbers = "numbers" if stage is not summary else "."
        files |= {"metrics": f"{numbers}/{name}.json", "history": f"numbers/{name}.csv"}
        files |= {"right": f"numbers/{name}_right.json"}
        words = [word for path in stage.PATHS for word in (f"--{path}", str(folder / files.get(path, path)))]
        run_stage(stage.main, stage.READS, stage.PATHS, [*words, "--params", str(params)])
        metrics[name] = json.loads((folder / files["metrics"]).read_text()) if "metrics" in stage.PATHS else {}
    return metrics

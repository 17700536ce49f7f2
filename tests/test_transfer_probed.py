"""Frozen encoders on a target: sources of the statistics, resuming, tables, and numbers computed by hand."""

import itertools
import json
import shutil
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from by_path import ROOT, read_yaml, script
from settings import CPU, SMALL, load, read, stripes
from stated import stated_params

from annulus.encoders.extract import extract
from annulus.encoders.saved import load_encoder, save_encoder
from annulus.errors import InputError
from annulus.evals.intervals import over_seeds_and_images
from annulus.files.images import ImageSet, save_images
from annulus.files.results import write_metrics, write_seeds
from annulus.files.store import Resident
from annulus.running.checkpoint import clear
from annulus.training.setup import build_training
from annulus_lab.config.resolved import PRETRAIN, resolved
from annulus_lab.studies.shared.rows_params import row_at
from annulus_lab.studies.shared.study import MainStudy, Study
from annulus_lab.studies.transfer import trained_encoders
from annulus_lab.studies.transfer.few_shot import accuracies as few_shot_accuracies
from annulus_lab.studies.transfer.probed import evaluate_transfer, further_row, metrics_row, normalised
from annulus_lab.studies.transfer.target_tables import (
    accuracies,
    algorithm,
    further_accuracies,
    further_gains,
    further_rows,
    gains,
    read_targets,
)
from annulus_lab.studies.transfer.trained_encoders import Encoders

PROBE = {"layer": "pooled", "momentum": 0.9, "weight_decay": 0.0, "epochs": 5, "batch_size": 8, "learning_rate": 0.1}
FEW = {"ways": 2, "shots": 2, "queries": 3, "episodes": 10, "classifier": "prototype", "class_splits": None}


def add_red(images: ImageSet, by: int) -> ImageSet:
    """The same images with a larger red channel."""
    pixels = images.images.pixels.clone()
    pixels[:, 0] += by
    return ImageSet(Resident(pixels), images.labels, images.rows, images.classes)


@pytest.fixture
def evaluation(tmp_path, empty_checkout):
    """Settings with a target and a trained encoder, `uniform`; the encoder in `main` is untrained."""
    for split, count, seed in (("train", 60, 3), ("test", 30, 4)):
        save_images(tmp_path / f"target/{split}.safetensors", stripes(count, seed))
    training = build_training(read({}), stripes(70, 0), stripes(10, 1), CPU)
    save_encoder(training.method.encoder, tmp_path / "main/0.safetensors")
    training.run()
    save_encoder(training.method.encoder, tmp_path / "uniform/0.safetensors")
    own = {"target": "stripes", "probe": PROBE, "few_shot": FEW, "episodes_seed": 0, "episode_classes": [0, 1]}
    return own | {"images": tmp_path / "target", "encoder": tmp_path / "uniform/0.safetensors"}


def test_too_few_images_for_the_episodes_are_refused_before_any_feature_is_taken(evaluation, monkeypatch):
    monkeypatch.setattr("annulus_lab.studies.transfer.probed.extract", None)
    with pytest.raises(InputError, match=r"^few_shot: an episode has 9 classes with 2 \+ 3 images each, .* lower"):
        evaluate_transfer(evaluation | {"few_shot": FEW | {"ways": 9}}, ("uniform", 0))


def test_images_are_normalised_by_the_target_s_training_images(evaluation, tmp_path):
    train = add_red(stripes(60, 3), 30)
    encoder = load_encoder(tmp_path / "main/0.safetensors")
    network = normalised(encoder, train)
    pixels = train.images.pixels.double() / 255
    mean, std = pixels.mean(dim=(0, 2, 3)), pixels.std(dim=(0, 2, 3), unbiased=False)
    torch.testing.assert_close(network.mean.flatten().double(), mean, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(network.std.flatten().double(), std, rtol=1e-5, atol=1e-6)
    assert not torch.equal(network.mean, encoder.mean)
    for name, weight in encoder.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight)


def test_nothing_but_the_answers_is_taken_from_test_images(evaluation, monkeypatch):
    """The pixels' mean and standard deviation, and the centre of few-shot features, come from training images."""
    train, calls = stripes(60, 3), []

    def record(encoder, images, layers, device):
        features = extract(encoder, images, layers, device)
        calls.append((encoder.mean.flatten(), encoder.std.flatten(), features.layer("pooled")))
        return features

    def check_center(features, center, episodes, classifier):
        assert torch.equal(center, calls[0][2].mean(dim=0))
        assert torch.equal(features, calls[1][2])
        return few_shot_accuracies(features, center, episodes, classifier)

    monkeypatch.setattr("annulus_lab.studies.transfer.probed.extract", record)
    monkeypatch.setattr("annulus_lab.studies.transfer.probed.accuracies", check_center)
    evaluate_transfer(evaluation, ("uniform", 0))
    assert [len(features) for _, _, features in calls] == [60, 30], "training and test images"
    for mean, std, _ in calls:
        for statistic, expected in zip((mean, std), train.channel_statistics(), strict=True):
            torch.testing.assert_close(statistic, torch.tensor(expected))


def test_a_channel_that_never_varies_becomes_nothing(evaluation, tmp_path):
    pixels = stripes(20, 3).images.pixels.clone()
    pixels[:, 2] = 77
    images = ImageSet(Resident(pixels), torch.arange(20) % 2, torch.arange(20), ("a", "b"))
    network = normalised(load_encoder(tmp_path / "main/0.safetensors"), images)
    assert network.std.flatten()[2] == 1
    assert extract(network, images, ["pooled"], CPU).layer("pooled").isfinite().all()


@pytest.mark.parametrize("split", ["lab", "ydbdr"])
def test_two_networks_of_colours_see_a_grey_target_too(split):
    """ring, Table 3, CMC on MNIST: the network of both colour channels sees zeros."""
    encoder = build_training(read({"method": "ir", "split": split}), stripes(70, 0), stripes(10, 1), CPU).method.encoder
    pixels = stripes(20, 3).images.pixels[:, :1].expand(-1, 3, -1, -1).contiguous()
    images = ImageSet(Resident(pixels), torch.arange(20) % 2, torch.arange(20), ("a", "b"))
    network, maps = normalised(encoder, images), []
    for part in network.parts:
        part.backbone.register_forward_pre_hook(lambda _, inputs: maps.append(inputs[0]))
    extract(network, images, ["pooled"], CPU)
    torch.testing.assert_close(maps[0].std(unbiased=False), torch.tensor(1.0), rtol=0, atol=0.02)
    assert maps[1].abs().max() < 0.1


def test_a_target_that_is_easy_is_told_and_the_same_again(evaluation):
    results = evaluate_transfer(evaluation, ("uniform", 0))
    assert results == evaluate_transfer(evaluation, ("uniform", 0))
    assert len(results["linear"]) == 30
    assert np.mean(results["linear"]) > 0.9, "stripes across and along"
    assert len(results["few_shot"]) == 10
    assert set(np.round(np.array(results["few_shot"]) * 6).astype(int)) <= set(range(7)), "of six queries each"


def test_a_stage_that_goes_on_reads_the_files_of_class_splits_again(evaluation, tmp_path):
    for split in ("train", "test"):
        images = stripes(90, seed=5)
        thirds = ImageSet(images.images, torch.arange(90) % 3, images.rows, ("across", "along", "both"))
        save_images(tmp_path / f"target/{split}.safetensors", thirds)
    variants = dict.fromkeys(("main", "uniform", "untrained"), tmp_path / "uniform")
    paths = Namespace(images=tmp_path / "target", **variants)
    few = FEW | {"class_splits": str(tmp_path)}
    settings = {"target": "dtd", "scale": "tiny", "seeds": [0], "probe": PROBE, "few_shot": few}
    target = script("stages/transfer/target.py")

    def accuracy(*held_out: str) -> float:
        (tmp_path / "dtd_splits.json").write_text(json.dumps({"test": held_out}))
        return target.main(settings, paths).metrics["main_few_shot_top1_percent"]

    before, after = accuracy("across", "along"), accuracy("across", "both")
    shutil.rmtree(".annulus/checkpoints")
    assert after == accuracy("across", "both") != before


def test_a_stage_that_goes_on_with_another_seed_or_encoder_keeps_the_rest(evaluation, tmp_path):
    variants, target = ("main", "uniform", "untrained"), script("stages/transfer/target.py")
    shutil.copytree(tmp_path / "uniform", tmp_path / "untrained")
    paths = Namespace(images=tmp_path / "target", **{name: tmp_path / name for name in variants})
    settings = {"target": "stripes", "scale": "tiny", "probe": PROBE, "few_shot": FEW}

    def kept(*seeds: int) -> int:
        target.main(settings | {"seeds": list(seeds)}, paths)
        return len(list(Path(".annulus/checkpoints/transfer").iterdir()))

    assert kept(0) == 3
    for name in variants:
        for suffix in ("safetensors", "json"):
            shutil.copy(tmp_path / f"uniform/0.{suffix}", tmp_path / f"{name}/1.{suffix}")
    assert kept(0, 1) == 6
    shutil.copy(tmp_path / "main/0.safetensors", tmp_path / "main/1.safetensors")
    assert kept(0, 1) == 7


def test_gains_are_in_pairs_of_a_seed_and_an_image_or_an_episode(tmp_path):
    random = np.random.default_rng(0)
    tables = {
        name: {
            "linear": (random.random((3, 40)) < level).astype(float),
            "few_shot": np.round(random.random((3, 20)) * level, 2),
        }
        for name, level in (("main", 0.9), ("uniform", 0.6), ("untrained", 0.3))
    }
    right = {
        name: {seed: {protocol: table[seed].tolist() for protocol, table in both.items()} for seed in range(3)}
        for name, both in tables.items()
    }
    metrics = metrics_row(right)
    for protocol in ("linear", "few_shot"):
        assert metrics[f"main_{protocol}_top1_percent"] == pytest.approx(100 * tables["main"][protocol].mean())
        expected = over_seeds_and_images(tables["main"][protocol] - tables["untrained"][protocol])
        assert metrics[f"over_untrained_{protocol}_gain_percent"] == pytest.approx(100 * expected.mean)
        assert metrics[f"over_untrained_{protocol}_gain_interval_percent"] == pytest.approx(100 * expected.half)
        assert metrics[f"over_untrained_{protocol}_verdict"] == "better"
    assert "over_main_linear_gain_percent" not in metrics

    setting = dict.fromkeys(("scale", "seeds", "classes", "train_images", "test_images"), 3)
    targets = {"birds": metrics | setting | {"ways": 5, "shots": 5, "episodes": 20}}
    trained = {
        "method": "moco",
        "split": "none",
        "bound": "infonce",
        "sampler": "ring",
        "neighbours": "none",
        "dataset": "shapes",
    }
    rows = accuracies(targets, ["main", "uniform", "untrained"], trained)
    assert [row["algorithm"] for row in rows] == ["MoCoRing", "MoCo", "untrained"]
    assert rows[1]["linear_top1_percent"] == metrics["uniform_linear_top1_percent"]
    row = gains(targets, ["main", "uniform", "untrained"], trained)[1]
    assert (row["over"], row["dataset"]) == ("untrained", "shapes")
    assert row["linear_gain_percent"] == metrics["over_untrained_linear_gain_percent"]
    with pytest.raises(InputError, match=r"has none of birds, fungi; run `dvc repro`"):
        read_targets(tmp_path / "transfer/targets", ["birds", "fungi"])


def test_a_further_encoder_is_in_the_tables_with_its_gain_over_its_base(tmp_path):
    random = np.random.default_rng(1)
    parts = {
        name: {"linear": (random.random((3, 40)) < level).astype(float), "few_shot": random.random((3, 20)) * level}
        for name, level in (("encoder", 0.9), ("base", 0.4))
    }
    right = {
        name: {seed: {protocol: table[seed].tolist() for protocol, table in both.items()} for seed in range(3)}
        for name, both in parts.items()
    }
    setting = dict.fromkeys(("seeds", "classes", "train_images", "test_images", "ways", "shots", "episodes"), 3)
    setting |= {"target": "birds", "scale": "demo"}
    write_seeds(tmp_path / "BALL+anneal.json", {"birds": further_row(right) | setting})
    rows = further_rows(["birds", "fungi"], tmp_path, {"BALL+anneal": "uniform", "MoCo": "uniform"})
    ((line,), (gain,)) = (make(rows, {"dataset": "shapes"}) for make in (further_accuracies, further_gains))
    assert (line["target"], line["variant"], line["algorithm"]) == ("birds", "BALL+anneal", "BALL+anneal")
    assert (gain["target"], gain["over"], gain["algorithm"]) == ("birds", "uniform, by BALL+anneal", "BALL+anneal")
    for protocol in ("linear", "few_shot"):
        own, base = (100 * parts[name][protocol] for name in ("encoder", "base"))
        assert line[f"{protocol}_top1_percent"] == pytest.approx(np.mean([seed.mean() for seed in own]), abs=0.01)
        pairs = [a - b for seed in range(3) for a, b in zip(own[seed], base[seed], strict=True)]
        assert gain[f"{protocol}_gain_percent"] == pytest.approx(np.mean(pairs), abs=0.01)
        assert gain[f"{protocol}_verdict"] == "better"
    # The other rows have the same columns.
    variants = {"main": right["encoder"], "uniform": right["base"], "untrained": right["base"]}
    metrics = {"birds": metrics_row(variants) | setting}
    trained = {"method": "ir", "split": "none", "bound": "infonce", "sampler": "ring", "neighbours": "none"}
    trained |= {"dataset": "shapes"}
    assert line.keys() == accuracies(metrics, ["main"], trained)[0].keys()
    assert gain.keys() == gains(metrics, ["main", "uniform"], trained)[0].keys()


@pytest.mark.parametrize(
    ("name", "base", "sentence"),
    [
        ("main", "uniform", r"encoders.0.name: 'main' names other encoders too; take another"),
        ("BALL", "unifrm", r"encoders.0.base: 'unifrm' is none of main, uniform, untrained before it"),
        ("BALL", "BALL", r"encoders.0.base: 'BALL' is none of main, uniform, untrained before it"),
    ],
)
def test_a_further_encoder_with_another_ones_name_or_without_its_base_is_refused(name, base, sentence, tmp_path):
    own = read_yaml(ROOT / "stages/transfer/params.yaml")
    own["encoders"] = [{"name": name, "base": base, "trained": True, "changes": {}}]
    (tmp_path / "params.yaml").write_text(yaml.safe_dump(own))
    study = MainStudy(stated_params(tmp_path / "root.yaml"), tmp_path / "params.yaml")
    with pytest.raises(InputError, match=sentence):
        script("stages/transfer/settings.py").main(study)


def test_further_encoders_of_cifar10_are_the_rows_of_its_algorithms(tmp_path):
    """Their training settings are equal, except the seeds."""
    files = script("stages/transfer/settings.py").main(
        MainStudy(stated_params(tmp_path / "root.yaml"), ROOT / "stages/cifar10_transfer/params.yaml")
    )
    algorithms = Study(tmp_path / "root.yaml", ROOT / "stages/cifar10_algorithms/params.yaml", "demo")
    rows = algorithms.content["rows"]
    names = {"LA": "LA-nce", "CMC": "CMC-nce", "CMCRing": "RING-Lab+anneal"}
    further = {name.removeprefix("further/"): file for name, file in files.items() if name.startswith("further/")}
    assert list(further) == [
        "BALL", "BALL+anneal", "CAVE", "CAVE+anneal", "LA", "MoCo", "MoCoRing", "CMC", "CMCRing"
    ]  # fmt: skip
    for name, file in further.items():
        row = names.get(name, name)
        assert file["run"] == resolved(algorithms.variant(row, row_at("demo", rows[row]), 50), PRETRAIN), name


def test_a_target_of_one_seed_is_in_the_tables_without_intervals(tmp_path):
    one = {name: {0: {"linear": [1.0, 0.0], "few_shot": [0.5, 0.75]}} for name in ("main", "uniform", "untrained")}
    one["main"][0]["linear"] = [1.0, 0.5]
    setting = dict.fromkeys(("seeds", "classes", "train_images", "test_images", "ways", "shots", "episodes"), 1)
    write_metrics(tmp_path / "birds.json", metrics_row(one) | setting | {"scale": "demo"})
    targets, trained = (
        read_targets(tmp_path, ["birds"]),
        {"method": "ir", "split": "none", "bound": "infonce", "sampler": "ring", "neighbours": "none"},
    )
    (row, _) = gains(targets, list(one), trained | {"dataset": "shapes"})
    assert (row["linear_gain_percent"], row["linear_gain_interval_percent"], row["linear_verdict"]) == (
        25,
        "",
        "one seed",
    )


@pytest.mark.parametrize(
    ("selectors", "expected"),
    [
        ({"sampler": "ring"}, ["IRing", "IR"]),
        ({"split": "lab", "sampler": "ring"}, ["CMCRing", "CMC"]),
        ({}, ["IR", "uniform"]),
        ({"method": "simo", "sampler": "cave"}, ["simo cave", "simo uniform"]),
        ({"method": "moco", "bound": "mlcpc"}, ["moco mlcpc uniform", "uniform"]),
        ({"neighbours": "s", "sampler": "ring"}, ["ir s ring", "ir s uniform"]),
    ],
)
def test_variants_have_the_paper_s_names_where_all_that_makes_the_algorithm_is_the_paper_s(selectors, expected):
    usual = {"method": "ir", "split": "none", "bound": "infonce", "sampler": "uniform", "neighbours": "none"}
    trained = usual | {"dataset": "shapes"} | selectors
    assert [algorithm(variant, trained) for variant in ("main", "uniform")] == expected


@pytest.mark.parametrize("trained", [True, False])
def test_a_variant_s_encoders_are_those_of_its_runs(trained, tmp_path, empty_checkout):
    for split, count, seed in (("train", 70, 0), ("validation", 10, 1)):
        save_images(tmp_path / f"images/{split}.safetensors", stripes(count, seed))
    changes = {"sampler": "uniform", "anneal": "none"}
    settings = resolved(load(SMALL | changes), PRETRAIN)
    encoders = Encoders(settings, trained, [0, 5], tmp_path / "images", tmp_path / "encoders")
    encoders.write()
    encoders.done()
    clear()
    assert not list(tmp_path.glob(".annulus/checkpoints/*/*"))
    for seed in (0, 5):
        run = build_training(read(changes | {"seed": seed}), stripes(70, 0), stripes(10, 1), CPU)
        if trained:
            run.run()
        weights = load_encoder(tmp_path / f"encoders/{seed}.safetensors").state_dict()
        for name, weight in run.method.encoder.state_dict().items():
            assert torch.equal(weights[name], weight), name


def test_an_edit_while_seeds_wait_for_a_worker_changes_no_state(tmp_path, monkeypatch):
    edits = itertools.count()
    monkeypatch.setattr(trained_encoders, "hash_code", lambda module: {"edited": str(next(edits))})
    encoders = Encoders({}, True, [0], tmp_path, tmp_path)
    assert encoders._checkpoint(0).folder == encoders._checkpoint(0).folder


def study(tmp_path, seeds: str, changes: str = "{}") -> MainStudy:
    path = tmp_path / "params.yaml"
    path.write_text(f"scale: demo\nseeds: {seeds}\nscales: {{demo: {{}}}}\nvariants: {{one: {{changes: {changes}}}}}\n")
    return MainStudy(stated_params(tmp_path / "root.yaml"), path)


def test_a_study_of_the_main_line_has_its_parameters_and_its_seeds(tmp_path):
    main_study = study(tmp_path, "[54, 51, 12]")
    assert main_study.seeds == [54, 51]
    changed = main_study.variant("one", {"sampler": "uniform", "scales.${scale}.pretrain.epochs": 3})
    assert changed.sampler == "uniform"
    assert changed.get("scales.${scale}.pretrain").epochs == 3
    assert changed.get("methods.${method}") == main_study.main.get("methods.${method}")
    assert main_study.main.get("scales.${scale}.pretrain").epochs != 3, "the main line is as it was"
    with pytest.raises(InputError, match=r"the main line has an encoder of none of \[12\]; take some of its seeds"):
        _ = study(tmp_path, "[12]").seeds
    with pytest.raises(InputError, match=r"samplr: params.yaml has no 'samplr'; did you mean 'sampler'"):
        main_study.variant("one", {"samplr": "uniform"})


def test_defaults_change_all_encoders_and_their_images(tmp_path):
    own = read_yaml(ROOT / "stages/transfer/params.yaml")
    own["defaults"] = {"dataset": "folder", "datasets.folder.image_size": 40, "scales.${scale}.pretrain.epochs": 3}
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(own))
    files = script("stages/transfer/settings.py").main(MainStudy(stated_params(tmp_path / "root.yaml"), path))
    assert (files["training"]["dataset"], files["training"]["seeds"]) == ("folder", own["seeds"])
    for name, sampler in (("main", "ring"), ("uniform", "uniform"), ("untrained", "ring")):
        run = files[f"variants/{name}"]["run"]
        assert (list(run["datasets"]), list(run["samplers"])) == (["folder"], [sampler])
        assert run["scales"]["demo"]["pretrain"]["epochs"] == 3
    assert files["images/digits"]["image_size"] == 40, "as the encoders' images"
    assert files["table"]["main"]["dataset"] == "folder"

"""Files between stages, edited or from another version: their reader raises one sentence that names the file."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from settings import stripes

from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.measures import load_run
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.features import Features, load_features, save_features
from annulus.encoders.saved import load_encoder, save_encoder
from annulus.errors import InputError
from annulus.evals.knn import KnnSettings, evaluate_knn
from annulus.files import packed
from annulus.files.images import load_images, save_images
from annulus.files.packed import write_packed
from annulus.files.results import write_table
from annulus_lab.config.resolved import read_settings
from annulus_lab.studies.detection.detector_runs import run_encoders
from annulus_lab.studies.view_learning.curves import read_curves

CONFIG = EncoderConfig("alexnet", "imagenet", "linear", 4, 16, None, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
COLUMNS = ("bound_nats", "ceiling_nats", "inner_share", "outer_share")


def write_features(path: Path) -> None:
    layers = {"pooled": torch.rand(6, 5), "embedding": torch.rand(6, 3), "map": torch.rand(6, 5, 2, 2).half()}
    save_features(path.parent, "train", Features(layers, torch.arange(6) % 2, ("cat", "dog")))


def write_snapshots(path: Path) -> None:
    shapes = {"queries": (2, 3, 4), "second": (2, 3, 4), "current": (2, 5, 4), "memory": (2, 5, 4)}
    tensors = {name: torch.rand(shape).half() for name, shape in shapes.items()}
    tensors |= {"epochs": torch.tensor([1, 2]), "images": torch.arange(5), "query_images": torch.tensor([0, 2, 4])}
    write_packed(path, tensors, {"memory": "bank", "crossed": False, "train_images": 9})


def write_curve(path: Path) -> None:
    write_table(path, [{"seed": 0, "epoch": epoch, **dict.fromkeys(COLUMNS, 0.5)} for epoch in (1, 2, 3)])


def write_encoder(path: Path) -> None:
    save_encoder(build_encoder(CONFIG, 0), path.with_suffix(".safetensors"))


# Name of a file, its writer and its reader.
KINDS = {
    "images": ("train.safetensors", lambda path: save_images(path, stripes(6, 0)), load_images),
    "features": ("train.safetensors", write_features, lambda path: load_features(path.parent, "train")),
    "snapshots": ("snapshots.safetensors", write_snapshots, partial(load_run, temperature=0.2)),
    "weights": ("encoder.safetensors", write_encoder, load_encoder),
    "curve": ("curve.csv", write_curve, lambda path: read_curve(path, 0)),
    "encoder JSON": ("encoder.json", write_encoder, lambda path: load_encoder(path.with_suffix(".safetensors"))),
}


def write_file(kind: str, folder: Path) -> Path:
    name, write, _ = KINDS[kind]
    write(folder / name)
    return folder / name


def assert_refused(kind: str, path: Path, fault: str | None = None) -> None:
    """Reading raises one sentence with the fault and a way out; it names the file, or both files of an encoder."""
    with pytest.raises(InputError, match=fault) as error:
        KINDS[kind][2](path)
    sentence = str(error.value)
    assert path.stem in sentence
    assert "`dvc repro" in sentence or "; load the two files of one run" in sentence
    assert "\n" not in sentence


def merge(old: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """With some values replaced, or removed where they are None."""
    return {key: value for key, value in (old | changes).items() if changes.get(key, ...) is not None}


def edit(path: Path, change: Any, about: Any) -> None:
    """Changes some tensors of a packed file and some keys, or all, of its description."""
    with safe_open(path, framework="pt") as file:
        description = (file.metadata() or {}).get("annulus")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors = merge(tensors, {name: make(tensors[name]) for name, make in change.items()})
    if about is not None:
        description = about if isinstance(about, str) else json.dumps(merge(json.loads(description), about))
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    save_file(tensors, path, metadata=None if description is None else {"annulus": description})


@pytest.mark.timeout(30)
@pytest.mark.parametrize("kind", KINDS)
def test_something_else_in_its_place_or_a_part_of_it_or_changed_bytes(kind, tmp_path):
    """Changed bytes are read or raise InputError; most of them are in the file's own description."""
    path, random, sentences = write_file(kind, tmp_path), torch.Generator().manual_seed(0), []
    content = path.read_bytes()
    for _ in range(100):
        damaged = bytearray(content)
        for place in torch.randint(min(len(content), 600), (3,), generator=random).tolist():
            damaged[place] = int(torch.randint(256, (), generator=random))
        path.write_bytes(damaged)
        try:
            KINDS[kind][2](path)
        except InputError as error:
            sentences.append(str(error))
    assert len(sentences) > 10
    assert not any("\n" in sentence for sentence in sentences)
    others = [b"", b"epoch,loss\n1,two\n", b"\xff\x00\xfe" + content[:50], b"epoch\n" + b"[" * 100_000]
    parts = [content[: int(len(content) * share)] for share in (0.1, 0.5, 0.9)]
    for other in others + [part for part in parts if kind != "curve" or not part.endswith(b"\n")]:
        path.write_bytes(other)
        assert_refused(kind, path)
    for other in (lambda: None, path.mkdir, lambda: os.mkfifo(path)):
        path.rmdir() if path.is_dir() else path.unlink()
        other()
        assert_refused(kind, path)
        if not path.exists():
            path.touch()


ORDER = "epochs, images or queries are not ascending, or not within the run"


@pytest.mark.parametrize(
    ("name", "tensors", "about", "fault"),
    [
        (
            "images",
            {"images": lambda t: t[..., :8]},
            None,
            r"\(6, 3, 16, 8\), expected uint8 of \(n 3 h h\), n = 6, h =",
        ),
        (
            "images",
            {"labels": lambda t: t[:5]},
            None,
            r"labels is int64 of shape \(5\), expected int64 of \(n\), n = 6",
        ),
        ("images", {"rows": lambda t: t.int()}, None, r"rows is int32 of shape \(6\), expected int64 of \(n\)"),
        ("images", {"rows": lambda t: t[:, None]}, None, r"rows is int64 of shape \(6, 1\), expected int64 of \(n\)"),
        ("images", {"rows": lambda t: None}, None, "holds images, labels, expected images, labels, rows"),
        ("images", {"labels": lambda t: t + 1}, None, "a label is 2, expected -1 to 1"),
        ("images", {"labels": lambda t: t - 2}, None, "a label is -2, expected -1 to 1"),
        (
            "features",
            {"embedding": lambda t: t / (torch.arange(6) < 5)[:, None]},
            None,
            "embedding holds NaN or infinity, expected finite numbers",
        ),
        ("features", dict.fromkeys(("embedding", "pooled", "map", "labels"), lambda t: t[:0]), None, "of no image"),
        ("features", {"embedding": lambda t: t[:, :0]}, None, "holds features of no image or without a dimension"),
        ("features", {"map": lambda t: t[:, :3]}, None, r"map is float16 of shape \(6, 3, 2, 2\), expected .*c = 5"),
        (
            "snapshots",
            {"queries": lambda t: t * (torch.arange(t.shape[1]) > 0)[:, None]},
            None,
            "queries holds an embedding of zeros, expected unit vec",
        ),
        ("snapshots", {"second": lambda t: t[:, :2]}, None, r"second is float16 .*\(2, 2, 4\), expected .*q = 3"),
        ("snapshots", {"current": lambda t: t * torch.inf}, None, "current holds NaN or infinity"),
        ("snapshots", {"epochs": lambda t: t.flip(0)}, None, ORDER),
        (
            "weights",
            {"head.weight": lambda t: t[:2]},
            None,
            r"head\.weight is float32 \(2, 128\), expected .*\(4, 128\)",
        ),
        ("weights", {"head.weight": lambda t: t * torch.nan}, None, "head.weight holds NaN or infinity"),
        *((name, {}, "{", "not a file that annulus wrote") for name in ("images", "features", "snapshots")),
        *((name, {}, "[1, 2]", "its description is not an object") for name in ("images", "features", "snapshots")),
        ("images", {}, {"classes": ["cat", 3]}, "its classes hold int, expected names"),
        ("images", {}, {"classes": ["cat"]}, "a label is 1, expected -1 to 0"),
        ("snapshots", {}, {"memory": None}, "its description has no memory"),
        ("snapshots", {}, {"memory": "heap"}, "its memory is 'heap', expected bank, queue or batch"),
        ("snapshots", {}, {"memory": "batch"}, "holds current, .*memory.*, expected current, epochs, images, queries"),
        ("snapshots", {}, {"train_images": 3}, ORDER),
    ],
)
def test_tensors_or_a_description_of_another_type_shape_or_content(name, tensors, about, fault, tmp_path, monkeypatch):
    monkeypatch.setattr(packed, "ROWS_AT_ONCE", 4)  # of 6
    path = write_file(name, tmp_path)
    edit(path, tensors, about)
    assert_refused(name, path, fault)


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"head": None}, "it holds .*, expected architecture, embedding_dim, head"),
        ({"architecture": "vgg"}, "architecture is 'vgg', expected resnet18, resnet34, .*, vit_small, alexnet"),
        ({"stem": "patch16"}, "alexnet has no stem patch16: vit_small takes patch16, patch8 or patch4"),
        ({"embedding_dim": 10**30}, "expected a whole number from 1 to 65536"),
        ({"view_size": True}, "view_size is True, expected a whole number from 1 to 1024"),
        ({"split": "lab"}, "split is 'lab', expected null, a colour space, a sigma or a view generator"),
        ({"split": {"sigma": 1.0}}, r"mean is \[0.5, 0.5, 0.5\], expected 6 finite numbers"),
        ({"std": [0.2, 0.2, float("nan")]}, "std is .*nan.*, expected 3 finite numbers"),
    ],
)
def test_an_encoder_s_json_of_another_version(changes, fault, tmp_path):
    path = write_file("encoder JSON", tmp_path)
    path.write_text(json.dumps(merge(json.loads(path.read_text()), changes)))
    assert_refused("encoder JSON", path, fault)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("inner_share", "inner", "it has no column inner_share"),
        ("\n0,2,", "\n0,1,", "it has an epoch twice"),
        ("\n0,2,0.5", "\n0,2,nan", "a number is not finite"),
        ("\n0,2,0.5", "\n0,2,many", "could not convert string to float: 'many'"),
        ("\n0,2,0.5,0.5", "\n0,2,0.5,0.0", "a ceiling is not above 0"),
        ("\n0,", "\n1,", "it has no row of seed 0"),
    ],
)
def test_a_curve_that_training_did_not_write(old, new, fault, tmp_path):
    path = write_file("curve", tmp_path)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert_refused("curve", path, fault)


def test_features_of_two_encoders_are_refused():
    five, four = (Features({"pooled": torch.rand(6, n)}, torch.arange(6) % 2, ("cat", "dog")) for n in (5, 4))
    with pytest.raises(InputError, match=r"of shape \(5,\), test features of \(4,\); make both by one encoder"):
        evaluate_knn(five, four, KnnSettings(k=1, temperature=0.07, layer="pooled"))


READERS = {
    "settings": (read_settings, "not a settings file"),
    "curves": (read_curves, "holds no learning curves"),
    "scenes": (lambda path: run_encoders("stage", {"seeds": [0]}, path.parent, {}, len), "names no scenes"),
}


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", READERS)
def test_json_of_another_kind_in_the_place_of_what_a_stage_wrote(kind, tmp_path):
    path, (read, fault) = tmp_path / "scenes.json", READERS[kind]
    for content in (b"", b"[1, 2]", b"\xff\xfe", b"[" * 100_000, b'"text"', None):
        path.unlink(missing_ok=True)
        os.mkfifo(path) if content is None else path.write_bytes(content)
        with pytest.raises(InputError, match=rf"(?s)scenes\.json is .*{fault}.*; run `dvc repro`$"):
            read(path)

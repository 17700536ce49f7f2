"""What stages hand to one another, edited or from another version: one sentence with the file, where it is read."""

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from settings import stripes

from annulus.config.evals import KnnParams
from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.measures import load_run
from annulus.encoders.encoder import EncoderConfig, build_encoder, load_encoder, save_encoder
from annulus.encoders.features import Features, load_features, save_features
from annulus.errors import InputError
from annulus.evals.knn import evaluate_knn
from annulus.files.images import load_images, save_images
from annulus.files.packed import write_packed

CONFIG = EncoderConfig("alexnet", "imagenet", "linear", 4, 16, None, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
ENCODER, SNAPSHOTS = "encoder.safetensors", "snapshots.safetensors"
COLUMNS = ("seed", "epoch", "bound_nats", "ceiling_nats", "inner_share", "outer_share")


def write_images(folder: Path) -> None:
    save_images(folder / "train.safetensors", stripes(6, 0))


def write_encoder(folder: Path) -> None:
    save_encoder(build_encoder(CONFIG, 0), folder / ENCODER)


def write_features(folder: Path) -> None:
    layers = {"pooled": torch.rand(6, 5), "embedding": torch.rand(6, 3), "map": torch.rand(6, 5, 2, 2).half()}
    save_features(folder, "train", Features(layers, torch.arange(6) % 2, ("cat", "dog")))


def write_snapshots(folder: Path) -> None:
    shapes = {"queries": (2, 3, 4), "second": (2, 3, 4), "current": (2, 5, 4), "memory": (2, 5, 4)}
    tensors = {name: torch.rand(shape).half() for name, shape in shapes.items()}
    tensors |= {"epochs": torch.tensor([1, 2]), "images": torch.arange(5), "query_images": torch.tensor([0, 2, 4])}
    write_packed(folder / SNAPSHOTS, tensors, {"memory": "bank", "crossed": False, "train_images": 9})


def write_curve(folder: Path) -> None:
    rows = [dict.fromkeys(COLUMNS, 0.5) | {"seed": 0, "epoch": epoch} for epoch in (1, 2, 3)]
    with (folder / "curve.csv").open("w") as file:
        table = csv.DictWriter(file, COLUMNS)
        table.writeheader()
        table.writerows(rows)


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is written into a folder and read from there, and the name of one."""

    file: str
    write: Any
    read: Any


KINDS = {
    "images": Kind("train.safetensors", write_images, lambda folder: load_images(folder / "train.safetensors")),
    "features": Kind("train.safetensors", write_features, lambda folder: load_features(folder, "train")),
    "snapshots": Kind(SNAPSHOTS, write_snapshots, lambda folder: load_run(folder / SNAPSHOTS)),
    "weights": Kind(ENCODER, write_encoder, lambda folder: load_encoder(folder / ENCODER)),
    "curve": Kind("curve.csv", write_curve, lambda folder: read_curve(folder / "curve.csv", 0)),
}
KINDS["encoder JSON"] = Kind("encoder.json", KINDS["weights"].write, KINDS["weights"].read)
PACKED = ("images", "features", "snapshots")


def assert_refused(kind: Kind, folder: Path, fault: str | None = None) -> None:
    """Reading gives one sentence with the fault and a way out, which names the file, or of an encoder both."""
    with pytest.raises(InputError, match=fault) as error:
        kind.read(folder)
    sentence = str(error.value)
    assert Path(kind.file).stem in sentence
    assert "; run `dvc repro" in sentence or "; load the two files of one run" in sentence
    assert "\n" not in sentence


def edit(path: Path, changes: dict[str, Any], about: dict[str, Any] | str | None = None) -> None:
    """Replace or take out (None) some tensors of a packed file, and keys of its description, or all of it."""
    with safe_open(path, framework="pt") as file:
        described = (file.metadata() or {}).get("annulus")
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    tensors = {name: tensor for name, tensor in (tensors | changes).items() if tensor is not None}
    if isinstance(about, dict):
        kept = json.loads(described) | about
        described = json.dumps({key: value for key, value in kept.items() if value is not None})
    elif about is not None:
        described = about
    save_file(tensors, path, metadata=None if described is None else {"annulus": described})


@pytest.fixture(params=KINDS)
def kind(request, tmp_path) -> Kind:
    found = KINDS[request.param]
    found.write(tmp_path)
    return found


@pytest.mark.timeout(30)
def test_something_else_in_its_place_or_a_part_of_it(kind, tmp_path):
    path = tmp_path / kind.file
    content = path.read_bytes()
    path.unlink()
    assert_refused(kind, tmp_path)
    path.mkdir()
    assert_refused(kind, tmp_path)
    path.rmdir()
    os.mkfifo(path)
    assert_refused(kind, tmp_path)
    path.unlink()
    others = [b"", b"epoch,loss\n1,two\n", b"\xff\x00\xfe" + content[:50], b"epoch\n" + b"[" * 100_000]
    parts = [content[: int(len(content) * kept)] for kept in (0.1, 0.5, 0.9)]
    for other in others + [part for part in parts if kind.file != "curve.csv" or not part.endswith(b"\n")]:
        path.write_bytes(other)
        assert_refused(kind, tmp_path)


def test_changed_bytes_are_read_or_refused_and_nothing_else(kind, tmp_path):
    """Most of them where the file describes itself."""
    path, random = tmp_path / kind.file, torch.Generator().manual_seed(0)
    content = path.read_bytes()
    kind.read(tmp_path)
    sentences = []
    for _ in range(100):
        damaged = bytearray(content)
        for place in torch.randint(min(len(content), 600), (3,), generator=random).tolist():
            damaged[place] = int(torch.randint(256, (), generator=random))
        path.write_bytes(damaged)
        try:
            kind.read(tmp_path)
        except InputError as error:
            sentences.append(str(error))
    assert len(sentences) > 10
    assert not any("\n" in sentence for sentence in sentences)


@pytest.mark.parametrize(
    ("name", "tensor", "change", "fault"),
    [
        ("images", "images", lambda t: t[..., :8], r"\(6, 3, 16, 8\), expected uint8 of \(n 3 h h\), n = 6, h = 16"),
        ("images", "labels", lambda t: t[:5], r"labels is int64 of shape \(5\), expected int64 of \(n\), n = 6"),
        ("images", "rows", lambda _: None, "holds images, labels, expected images, labels, rows"),
        ("images", "labels", lambda t: t + 1, "a label is 2, expected 0 to 1"),
        ("features", "embedding", lambda t: t / 0, "embedding holds NaN or infinity, expected finite numbers"),
        ("features", "map", lambda t: t[:, :3], r"map is float16 of shape \(6, 3, 2, 2\), expected .*c = 5"),
        ("snapshots", "second", lambda t: t[:, :2], r"second is float16 of shape \(2, 2, 4\), expected .*q = 3"),
        ("snapshots", "current", lambda t: t * torch.inf, "current holds NaN or infinity"),
        ("snapshots", "epochs", lambda t: t.flip(0), "epochs, images or queries are not some of a run's in their"),
        ("weights", "head.weight", lambda t: t[:2], r"head\.weight is float32 \(2, 128\), expected float32 \(4, 128\)"),
        ("weights", "head.weight", lambda t: t * torch.nan, "head.weight holds NaN or infinity"),
    ],
)
def test_tensors_of_another_type_shape_or_content(name, tensor, change, fault, tmp_path):
    kind = KINDS[name]
    kind.write(tmp_path)
    path = tmp_path / kind.file
    with safe_open(path, framework="pt") as file:
        before = file.get_tensor(tensor) if tensor in file.keys() else torch.zeros(1)  # noqa: SIM118
    after = change(before)
    edit(path, {tensor: None if after is None else after.contiguous()})
    assert_refused(kind, tmp_path, fault)


@pytest.mark.parametrize(
    ("name", "about", "fault"),
    [
        *((name, "{", "not a file that annulus wrote") for name in PACKED),
        *((name, "[1, 2]", "its description is no object") for name in PACKED),
        ("images", {"classes": ["cat", 3]}, "its classes hold int, expected names"),
        ("images", {"classes": ["cat"]}, "a label is 1, expected 0 to 0"),
        ("snapshots", {"memory": None}, "its description has no memory"),
        ("snapshots", {"memory": "heap"}, "its memory is 'heap', expected bank, queue or batch"),
        ("snapshots", {"memory": "batch"}, "holds current, .*memory.*, expected current, epochs, images, queries"),
        ("snapshots", {"train_images": 3}, "epochs, images or queries are not some of a run's in their order"),
    ],
)
def test_a_description_of_another_type_or_without_a_key(name, about, fault, tmp_path):
    kind = KINDS[name]
    kind.write(tmp_path)
    edit(tmp_path / kind.file, {}, about)
    assert_refused(kind, tmp_path, fault)


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
    kind = KINDS["encoder JSON"]
    kind.write(tmp_path)
    path = tmp_path / kind.file
    described = json.loads(path.read_text()) | changes
    taken_out = [key for key, value in changes.items() if value is None]
    path.write_text(json.dumps({key: value for key, value in described.items() if key not in taken_out}))
    assert_refused(kind, tmp_path, fault)


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("inner_share", "inner", "it has no column inner_share"),
        ("\n0,2,", "\n0,1,", "an epoch stands twice"),
        ("\n0,2,0.5", "\n0,2,nan", "a number is not finite"),
        ("\n0,2,0.5", "\n0,2,many", "could not convert string to float: 'many'"),
        ("\n0,2,0.5,0.5", "\n0,2,0.5,0.0", "a ceiling is not above 0"),
        ("\n0,", "\n1,", "it has no row of seed 0"),
    ],
)
def test_a_curve_that_training_did_not_write(old, new, fault, tmp_path):
    write_curve(tmp_path)
    path = tmp_path / "curve.csv"
    text = path.read_text().replace("\r", "")
    assert old in text
    path.write_text(text.replace(old, new) if "seed" in fault else text.replace(old, new, 1))
    assert_refused(KINDS["curve"], tmp_path, fault)


def test_features_of_two_encoders_are_refused():
    five, four = (Features({"pooled": torch.rand(6, n)}, torch.arange(6) % 2, ("cat", "dog")) for n in (5, 4))
    with pytest.raises(InputError, match=r"of shape \(5,\), test features of \(4,\); run `dvc repro --force embed`"):
        evaluate_knn(five, four, KnnParams(k=1, temperature=0.07, layer="pooled"))

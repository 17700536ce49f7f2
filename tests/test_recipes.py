"""The recipes of src/annulus/README.md, each followed in a scratch copy: what it names is all that has to change."""

import os
import re
import shutil
import subprocess

import pytest
import warm
from settings import ROOT

RECIPES = (ROOT / "src/annulus/README.md").read_text()

SAMPLER = {
    "params.yaml": [("  uniform: {}\n", "  furthest: {share: 0.5}\n")],
    "src/annulus/config/negatives.py": [
        (
            "class Samplers(Params):\n",
            "class FurthestParams(SamplerParams):\n    share: float = Field(gt=0, le=1)\n\n"
            "    @property\n    def shares(self) -> tuple[float, float]:\n        return 1 - self.share, 1.0\n\n\n",
        ),
        ("    uniform: UniformParams\n", "    furthest: FurthestParams\n"),
    ],
    "src/annulus/negatives/samplers.py": [
        (
            "@dataclass(frozen=True)\nclass Cave:\n",
            "def furthest(scores, self_index, share, k, generator):\n"
            '    """The furthest share of the other columns."""\n'
            "    return ring(scores, self_index, 1 - share, 1.0, k, generator)\n\n\n"
            "@dataclass(frozen=True)\nclass Furthest:\n    share: float\n    clustering: ClassVar[None] = None\n\n"
            "    @property\n    def shares(self) -> tuple[float, float]:\n        return 1 - self.share, 1.0\n\n"
            "    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):\n"
            "        inner, _ = kept_shares(self.shares, progress)\n"
            "        return furthest(scores, self_index, 1 - inner, k, generator)\n\n\n",
        )
    ],
    "src/annulus/negatives/build.py": [
        ("    LinearAnneal,\n", "    FurthestParams,\n"),
        ("Cave, Ring, Sampler\n", "Furthest, "),
        (
            "        case BallParams(outer=outer):\n",
            "        case FurthestParams(share=share):\n            return Furthest(share)\n",
        ),
    ],
    "tests/test_negatives_samplers.py": """
import torch
from settings import run

from annulus.negatives.samplers import furthest


def test_the_furthest_share_is_that_of_the_sorted_scores():
    scores, own = torch.rand(5, 21), torch.arange(5)
    found = furthest(scores, own, 0.5, "all", torch.Generator())
    for query, row in enumerate(scores):
        others = sorted((column for column in range(21) if column != query), key=lambda column: row[column])
        assert sorted(found.index[query].tolist()) == sorted(others[:10])


def test_it_trains():
    training = run({"sampler": "furthest"})
    assert training.run()[-1]["inner_share"] > 0
""",
}

BOUND = {
    "params.yaml": [("  la: {}\n", "  margin: {margin: 0.5}\n")],
    "src/annulus/config/bounds.py": [
        (
            "class Bounds(Params):\n",
            'class MarginParams(BoundParams):\n    """InfoNCE whose positive scores less."""\n\n'
            "    takes_neighbours: ClassVar = False\n    margin: Positive\n\n\n",
        ),
        ("    la: LAParams\n", "    margin: MarginParams\n"),
    ],
    "src/annulus/bounds/margin.py": '''
from dataclasses import dataclass
from typing import ClassVar

import torch

from annulus.bounds.bound import Bound
from annulus.bounds.infonce import infonce


@dataclass(frozen=True)
class Margin(Bound):
    """InfoNCE whose positive scores `margin` less. Source: Wang et al. 2018, arXiv:1801.05599, Eq. 6."""

    margin: float
    neighbours: ClassVar = "refused"

    def loss(self, positives, negatives, training):
        return infonce(positives - self.margin, negatives)

    def ceiling(self, positives, negatives, training):
        return (negatives * torch.tensor(self.margin).exp()).log1p().mean()
''',
    "src/annulus/bounds/build.py": [
        ("from annulus.bounds.partition import", "from annulus.bounds.margin import Margin\n"),
        ("LAParams, MLCPCParams", "MarginParams, "),
        (
            "        case LAParams():\n",
            "        case MarginParams(margin=margin):\n            return Margin(margin)\n",
        ),
    ],
    "tests/test_bounds_margin.py": """
import math

import torch
from settings import run

from annulus.bounds.margin import Margin


def test_the_loss_is_that_of_the_plain_loop_and_the_ceiling_that_of_equal_scores():
    scores, bound = torch.rand(3, 5, dtype=torch.float64), Margin(0.5)
    each = [math.log(1 + sum(math.exp(other - own + 0.5) for other in others)) for own, *others in scores.tolist()]
    torch.testing.assert_close(bound.loss(scores[:, :1], scores[:, 1:], 0.0).item(), sum(each) / 3)
    equal = bound.loss(torch.zeros(3, 1), torch.zeros(3, 4), 0.0)
    torch.testing.assert_close(bound.ceiling(torch.ones(3).long(), torch.full((3,), 4), 0.0), equal)


def test_it_trains():
    assert run({"bound": "margin"}).run()[-1]["loss_nats"] > 0
""",
}

VIEW = {
    "params.yaml": [("    grayscale: ", "    invert: 0.0\n")],
    "src/annulus/config/images.py": [("    grayscale: Fraction\n", "    invert: Fraction\n")],
    "src/annulus/views/invert.py": '''
def invert(images):
    """Every value v as 1 - v."""
    return 1 - images
''',
    "src/annulus/views/recipe.py": [
        ("\n# Pixels worked on", "from annulus.views.invert import invert\n"),
        ("    blur: Blur | None\n", "    inverted: Bool[Tensor, 'b']\n"),
        ("        blur=views.blur and draw_blur", "        inverted=chosen(views.invert),\n"),
        ("    return view.clamp_(max=1)", "    replace_(view, recipe.inverted, invert)\n"),
    ],
    "tests/test_views_invert.py": """
import torch
from settings import load

from annulus.views.recipe import augment


def test_half_of_the_views_are_inverted():
    params = load({"views": "none", "view_sets.none.invert": 0.5, "view_sets.none.flip": 0.0})
    white = torch.full((200, 3, 8, 8), 255, dtype=torch.uint8)
    view = augment(white, params.get("view_sets.${views}"), 8, torch.Generator().manual_seed(0))
    assert 70 < (view == 0).flatten(1).all(1).sum() < 130
    assert ((view == 0) | (view == 1)).all()
""",
}

DATASET = {
    "params.yaml": [("  folder:\n", "  plain: {image_size: 8, view_size: 8, validation_fraction: 0.1, colours: 3}\n")],
    "src/annulus/config/images.py": [
        (
            "class Datasets(Params):\n",
            "class PlainParams(DatasetParams):\n    colours: int = Field(ge=2, le=255)\n\n\n",
        ),
        ("    shapes: ShapesParams\n", "    plain: PlainParams\n"),
    ],
    "src/annulus/datasets/plain.py": '''
import torch

from annulus.datasets.source import Source


def open_plain(size, colours):
    """Grey images, one class for each brightness."""
    labels = torch.arange(50 * colours) % colours

    def read(rows):
        grey = (labels[rows] * (255 // colours)).to(torch.uint8)
        return grey[:, None, None, None].expand(-1, 3, size, size).clone(), {}

    return {split: Source(tuple(map(str, range(colours))), labels, read) for split in ("train", "test")}
''',
    "src/annulus/datasets/prepare.py": [
        ("MasksParams\n", "PlainParams, "),
        ("from annulus.datasets.source", "from annulus.datasets.plain import open_plain\n"),
        (
            "        case MasksParams(root=root):\n",
            "        case PlainParams():\n            return open_plain(params.image_size, params.colours)\n",
        ),
    ],
    "tests/test_datasets_plain.py": """
from settings import load

from annulus.datasets.prepare import prepare_images


def test_the_brightness_is_the_class():
    params = load({"dataset": "plain"})
    found = prepare_images("plain", params.get("datasets.${dataset}"), params.get("scales.tiny.prepare"), 0)
    assert (found.train.images.pixels[:, 0, 0, 0] == found.train.labels * 85).all()
    assert (len(found.train), len(found.validation)) == (135, 15)
""",
}

EVALUATION = {
    "params.yaml": [("linear:\n", "centroid: {layer: pooled}\n")],
    "src/annulus/config/evals.py": [
        (
            "class LinearParams(Params):\n",
            'class CentroidParams(Params):\n    layer: Literal["pooled", "embedding"]\n\n\n',
        )
    ],
    "src/annulus/config/__init__.py": [
        ("KnnParams, LinearParams\n", "CentroidParams, "),
        ("    knn: KnnParams\n", "    centroid: CentroidParams\n"),
    ],
    "src/annulus/evals/centroid.py": '''
import torch

from annulus.evals.accuracy import percent


def evaluate_centroid(train, test, params):
    """Percent of test images whose closest class mean is their own."""
    features, labels = train.layer(params.layer), train.labels
    means = torch.stack([features[labels == c].mean(dim=0) for c in range(len(train.classes))])
    closest = torch.cdist(test.layer(params.layer), means).argmin(dim=1)
    return {"top1_percent": percent(closest == test.labels)}
''',
    "stages/centroid.py": '''
"""Centroid: features -> accuracy of the closest class mean."""

from annulus.encoders.features import load_features
from annulus.evals.centroid import evaluate_centroid
from annulus.pipeline.stage import Results, run_stage

READS = ["centroid"]
PATHS = ["features", "metrics"]


def main(params, paths):
    train, test = load_features(paths.features, "train"), load_features(paths.features, "test")
    return Results(evaluate_centroid(train, test, params["centroid"]))


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
''',
    "dvc.yaml": [
        (
            "  knn:\n",
            "  centroid:\n"
            "    cmd: python stages centroid --features data/main/features --metrics metrics/main/centroid.json\n"
            "    deps: [data/main/features, stages/centroid.py, src/annulus/encoders, src/annulus/evals,"
            " src/annulus/files]\n"
            "    params: [centroid]\n    plots: [{metrics/main/centroid.json: {cache: false}}]\n\n",
        )
    ],
    "tests/test_evals_centroid.py": """
from argparse import Namespace

import centroid
import torch
from declared import missing_and_spare
from settings import load
from test_pipeline import PIPELINES

from annulus.encoders.features import Features, save_features


def test_points_beside_their_means_are_right_and_one_beside_the_other_is_not(tmp_path):
    points = torch.tensor([[0.0, 0], [1, 0], [5, 5], [6, 5]])
    labels = torch.tensor([0, 0, 1, 1])
    layers = {"pooled": points, "embedding": torch.nn.functional.normalize(points + 1, dim=1)}
    save_features(tmp_path, "train", Features(layers, labels, ("low", "high")))
    save_features(tmp_path, "test", Features(layers, torch.tensor([0, 0, 1, 0]), ("low", "high")))
    found = centroid.main({"centroid": load({}).get("centroid")}, Namespace(features=tmp_path))
    assert found.metrics == {"top1_percent": 75.0}


def test_its_stage_declares_what_it_reaches():
    assert missing_and_spare(PIPELINES["main"]["stages"]["centroid"]) == ([], [])
""",
}

# Of each file its whole text, or what is inserted before which place.
FOLLOWED = {"sampler": SAMPLER, "bound": BOUND, "view": VIEW, "data set": DATASET, "evaluation": EVALUATION}


def recipe(name):
    (text,) = re.findall(rf"\*\*An? {name}\.\*\*(.*?)\n\n", RECIPES, re.DOTALL)
    return text


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_recipe_that_is_followed_runs(name, tmp_path):
    for folder in ("src", "stages", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    for file in ("params.yaml", "dvc.yaml", "pyproject.toml", "tests/test_pipeline.py"):
        shutil.copy(ROOT / file, tmp_path / file)
    for file, change in FOLLOWED[name].items():
        path = tmp_path / file
        if isinstance(change, str):
            path.write_text(change.lstrip())
            continue
        text = path.read_text()
        for place, inserted in change:
            assert place in text, f"{file} has no {place!r}"
            text = text.replace(place, inserted + place)
        path.write_text(text)
    tests = [file for file in FOLLOWED[name] if file.startswith("tests/")]
    done = subprocess.run(
        [warm.folder() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_recipe_names_every_file_that_it_touches(name):
    named = re.findall(r"`([\w/.]+\.(?:py|yaml))`", recipe(name))
    for file in FOLLOWED[name]:
        short = file.removeprefix("src/annulus/")
        known = [re.sub("NAME", r"\\w+", each) for each in named]
        assert any(re.fullmatch(each, short) for each in known), f"{name}: {file}"
    steps = re.findall(r"(\d)\. ", recipe(name))
    assert steps == ["1", "2", "3", "4", "5"]

"""The recipes of src/annulus/README.md, each followed in a scratch copy: what it names is all that has to change."""

import os
import re
import shutil
import subprocess

import warm
from by_path import ROOT

RECIPES = (ROOT / "src/annulus/README.md").read_text()

# Of each file its whole text, or what comes before the places that stand after >>>.
SAMPLER = {
    "params.yaml": ">>>  uniform: {}\n  furthest: {share: 0.5}",
    "src/annulus/config/negatives.py": """>>>class Samplers(Params):
class FurthestParams(SamplerParams):
    share: float = Field(gt=0, le=1)

    @property
    def shares(self) -> tuple[float, float]:
        return 1 - self.share, 1.0

>>>    uniform: UniformParams
    furthest: FurthestParams""",
    "src/annulus/negatives/samplers.py": '''>>>class Cave:
class Furthest:
    """The furthest share of the other columns."""

    share: float
    clustering: ClassVar[None] = None

    @property
    def shares(self) -> tuple[float, float]:
        return 1 - self.share, 1.0

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        return ring(scores, self_index, *kept_shares(self.shares, progress), k, generator)


@dataclass(frozen=True)''',
    "src/annulus/negatives/build.py": """>>>    LinearAnneal,
    FurthestParams,
>>>from annulus.negatives.samplers
from annulus.negatives.samplers import Furthest
>>>        case CaveParams(outer=outer, keep=keep):
        case FurthestParams(share=share):
            return Furthest(share)""",
    "tests/test_negatives_samplers.py": """
from settings import run


def test_it_trains_with_the_furthest():
    assert run({"sampler": "furthest", "samplers.furthest.share": 0.25}).run()[-1]["inner_share"] == 0.75
""",
}

BOUND = {
    "params.yaml": ">>>  la: {}\n  margin: {margin: 0.5}",
    "src/annulus/config/bounds.py": '''>>>class Bounds(Params):
class MarginParams(BoundParams):
    """InfoNCE whose positive scores less."""

    takes_neighbours: ClassVar = False
    margin: Positive

>>>    la: LAParams
    margin: MarginParams''',
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
    "src/annulus/bounds/build.py": """>>>from annulus.bounds.partition import
from annulus.bounds.margin import Margin
from annulus.config.bounds import MarginParams
>>>        case LAParams():
        case MarginParams(margin=margin):
            return Margin(margin)""",
    "tests/test_bounds_margin.py": """
import torch
from settings import run

from annulus.bounds.margin import Margin


def test_the_ceiling_is_the_loss_of_equal_scores_and_it_trains():
    equal = Margin(0.5).loss(torch.zeros(3, 1), torch.zeros(3, 4), 0.0)
    torch.testing.assert_close(Margin(0.5).ceiling(torch.ones(3).long(), torch.full((3,), 4), 0.0), equal)
    assert run({"bound": "margin"}).run()[-1]["loss_nats"] > 0
""",
}

VIEW = {
    "params.yaml": ">>>    grayscale: \n    invert: 0.0",
    "src/annulus/config/images.py": ">>>    grayscale: Fraction\n    invert: Fraction",
    "src/annulus/views/invert.py": '''
def invert(images):
    """Every value v as 1 - v."""
    return 1 - images
''',
    "src/annulus/views/recipe.py": """>>># Pixels worked on
from annulus.views.invert import invert
>>>    blur: Blur | None
    inverted: Bool[Tensor, 'b']
>>>        blur=views.blur and draw_blur
        inverted=chosen(views.invert),
>>>    return view.clamp_(max=1)
    replace_(view, recipe.inverted, invert)""",
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
    "params.yaml": ">>>  folder:\n  plain: {image_size: 8, view_size: 8, validation_fraction: 0.1, colours: 3}",
    "src/annulus/config/images.py": """>>>class Datasets(Params):
class PlainParams(DatasetParams):
    colours: int = Field(ge=2, le=255)

>>>    shapes: ShapesParams
    plain: PlainParams""",
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
    "src/annulus/datasets/prepare.py": """>>>from annulus.datasets.source
from annulus.config.images import PlainParams
from annulus.datasets.plain import open_plain
>>>        case MasksParams(root=root):
        case PlainParams():
            return open_plain(params.image_size, params.colours)""",
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
    "params.yaml": ">>>knn: {k\ncentroid: {layer: pooled}",
    "src/annulus/config/evals.py": """>>>class LinearParams(Params):
class CentroidParams(Params):
    layer: Literal["pooled", "embedding"]
""",
    "src/annulus/config/__init__.py": """>>>from annulus.config.evals
from annulus.config.evals import CentroidParams
>>>    knn: KnnParams
    centroid: CentroidParams""",
    "src/annulus/evals/centroid.py": '''
import torch

from annulus.evals.accuracy import percent


def evaluate_centroid(train, test, params):
    """Percent of test images whose closest class mean is their own."""
    features, labels = train.layer(params.layer), train.labels
    means = torch.stack([features[labels == c].mean(dim=0) for c in range(len(train.classes))])
    return {"top1_percent": percent(torch.cdist(test.layer(params.layer), means).argmin(dim=1) == test.labels)}
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
    "dvc.yaml": """>>>  knn:
  centroid:
    cmd: python stages centroid --features data/main/features --metrics metrics/main/centroid.json
    deps: [data/main/features, stages/centroid.py, src/annulus/encoders, src/annulus/evals, src/annulus/files]
    params: [centroid]
    plots: [{metrics/main/centroid.json: {cache: false}}]
""",
    "tests/test_evals_centroid.py": """
from argparse import Namespace

import centroid
import torch
import yaml
from declared import missing_and_spare
from by_path import ROOT, load

from annulus.encoders.features import Features, save_features


def test_points_beside_their_means_are_right_and_one_beside_the_other_is_not_and_its_stage_is_declared(tmp_path):
    points = torch.tensor([[0.0, 0], [1, 0], [5, 5], [6, 5]])
    layers = {"pooled": points, "embedding": torch.nn.functional.normalize(points + 1, dim=1)}
    for split, labels in (("train", [0, 0, 1, 1]), ("test", [0, 0, 1, 0])):
        save_features(tmp_path, split, Features(layers, torch.tensor(labels), ("low", "high")))
    found = centroid.main({"centroid": load({}).get("centroid")}, Namespace(features=tmp_path))
    assert found.metrics == {"top1_percent": 75.0}
    stages = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
    assert missing_and_spare(stages["centroid"]) == ([], [])
""",
}

FOLLOWED = {"sampler": SAMPLER, "bound": BOUND, "view": VIEW, "data set": DATASET, "evaluation": EVALUATION}


def changed(text, change):
    """A text with what each part of a change inserts before its place."""
    for part in change.split(">>>")[1:]:
        place, inserted = part.split("\n", 1)
        assert place in text, f"no {place!r}"
        text = text.replace(place, f"{inserted}\n{place}")
    return text


def test_recipes_that_are_followed_run_and_name_every_file_that_they_touch(tmp_path):
    for folder in ("src", "stages", "tests"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__", "test_*"))
    for file in ("params.yaml", "dvc.yaml", "pyproject.toml"):
        shutil.copy(ROOT / file, tmp_path / file)
    for name, files in FOLLOWED.items():
        (recipe,) = re.findall(rf"\*\*An? {name}\.\*\*(.*?)\n\n", RECIPES, re.DOTALL)
        assert re.findall(r"(\d)\. ", recipe) == ["1", "2", "3", "4", "5"]
        known = [each.replace("NAME", r"\w+") for each in re.findall(r"`([\w/.]+\.(?:py|yaml))`", recipe)]
        for file, change in files.items():
            assert any(re.fullmatch(each, file.removeprefix("src/annulus/")) for each in known), file
            path = tmp_path / file
            path.write_text(changed(path.read_text(), change) if change.startswith(">>>") else change.lstrip())
    done = subprocess.run(
        [warm.folder() / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        **{"cwd": tmp_path, "capture_output": True, "text": True},
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("..... ")

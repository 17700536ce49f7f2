"""The recipes of docs/add.md, each followed in a scratch copy: only the files that it names have to change.

A sampler, a bound, a view and a study are the page's own blocks. This file has an example of each other recipe.

In the copy the tests of lists, READMEs and parameters pass. They also pass after a user's edits of params.yaml, and
with a user's own numbers in metrics/ once `make tables` has run.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import warm
from added import blocks_of, recipe_of
from by_path import ROOT

LIST_TESTS = ["test_config*.py", "test_readme.py", "test_public.py", "test_pipeline.py", "test_pipeline_stage.py"]
LIST_TESTS += ["test_summary.py", "test_report_metrics.py"]
VALUE_TESTS = ["test_studies_*.py", "test_study_cifar10.py", "test_views_patches.py"]
VALUE_TESTS += ["test_export_hub.py", "test_diagnostics_picture.py", "test_training_loop.py", "test_training_setup.py"]

# For each file its whole text, or after each >>> a place in the file and the lines to insert before it.
SPLIT = {
    "params.yaml": ">>>  lab: {space\n  bgr: {space: bgr, sigma: null}",
    "src/annulus/views/spaces.py": '''>>>LEVEL = 1 / 510
def rgb_to_bgr(images: Rgb) -> Planes:
    """Blue, green, red."""
    return _float(images).flip(1)


>>>    "rgb": Space(
    "bgr": Space(rgb_to_bgr, "b", "gr", LEVEL),''',
    "tests/test_views_spaces.py": """
import torch
from settings import run

from annulus.views.spaces import SPACES


def test_bgr_is_rgb_from_its_end_and_trains():
    images = torch.rand(2, 3, 4, 4)
    assert torch.equal(SPACES["bgr"].from_rgb(images)[:, 0], images[:, 2])
    assert run({"split": "bgr"}).run()[-1]["loss_nats"] > 0
""",
}

BACKBONE = {
    "params.yaml": ">>>  alexnet: {architecture\n  flat: {architecture: flat, stem: cifar}",
    "src/annulus/encoders/convnets.py": '''>>># Builders of architectures in params.yaml
def build_flat(planes: int, stem: str) -> tuple[nn.Module, int]:
    """One convolution."""
    return nn.Conv2d(planes, 16, 3, padding=1), 16


>>>"alexnet": build_alexnet
"flat": build_flat,''',
    "tests/test_encoders_encoder.py": """
from settings import run


def test_a_flat_network_trains():
    assert run({"backbone": "flat"}).run()[-1]["loss_nats"] > 0
""",
}

DATASET = {
    "params.yaml": ">>>  folder:\n  plain: {image_size: 8, view_size: 8, validation_fraction: 0.1}",
    "src/annulus/datasets/plain.py": '''
import torch

COLOURS = ("black", "grey", "white")


def draw_plain(rows, size, key):
    """Grey images, one class for each brightness."""
    grey = torch.from_numpy(rows % 3 * 85).to(torch.uint8)
    return grey[:, None, None, None].expand(-1, 3, size, size).clone()
''',
    "src/annulus/datasets/generated.py": """>>>from annulus.datasets.source
from annulus.datasets.plain import COLOURS, draw_plain
>>>    "mosaics": GeneratedSet
    "plain": GeneratedSet(COLOURS, draw_plain, SMALL),""",
    "tests/test_datasets_plain.py": """
from settings import load

from annulus.datasets.prepare import prepare_images


def test_the_brightness_is_the_class():
    params = load({"dataset": "plain"})
    found = prepare_images("plain", params.get("datasets.${dataset}"), params.get("scales.tiny.prepare"), 0)
    assert (found.train.images.pixels[:, 0, 0, 0] == found.train.labels * 85).all()
    assert (len(found.train), len(found.validation)) == (360, 40)
""",
}

EVALUATION = {
    "params.yaml": ">>>knn: {k\ncentroid: {layer: pooled}",
    "src/annulus_lab/config/all_params.py": """>>>from annulus.evals.knn
from annulus.evals.centroid import CentroidSettings
>>>    knn: KnnSettings
    centroid: CentroidSettings""",
    "src/annulus/evals/centroid.py": '''
from dataclasses import dataclass
from typing import Literal

import torch

from annulus.evals.accuracy import percent
from annulus.settings import Section


@dataclass(frozen=True)
class CentroidSettings(Section):
    layer: Literal["pooled", "embedding"]


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
from annulus_lab.pipeline.stage import Results, run_stage

READS = ["centroid"]
PATHS = ["features", "metrics"]


def main(params, paths):
    train, test = load_features(paths.features, "train"), load_features(paths.features, "test")
    return Results(evaluate_centroid(train, test, params["centroid"]))


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
''',
    "dvc.yaml": """>>>    - stages/knn.py
    - stages/centroid.py
>>>  knn:
  centroid:
    cmd: python stages centroid --features data/main/features --metrics data/main/numbers/centroid.json
    deps: [data/main/code/centroid, data/main/features]
    params: [centroid]
    outs: [data/main/numbers/centroid.json]
>>>    - metrics/main/knn.json
    - metrics/main/centroid.json: {cache: false, persist: true}
""",
    "tests/test_evals_centroid.py": """
from argparse import Namespace

import centroid
import torch
from by_path import ROOT, read_yaml
from declared import missing_and_spare
from settings import load

from annulus.encoders.features import Features, save_features


def test_points_beside_their_means_are_right_and_one_beside_the_other_is_not_and_its_stage_is_declared(tmp_path):
    points = torch.tensor([[0.0, 0], [1, 0], [5, 5], [6, 5]])
    layers = {"pooled": points, "embedding": torch.nn.functional.normalize(points + 1, dim=1)}
    for split, labels in (("train", [0, 0, 1, 1]), ("test", [0, 0, 1, 0])):
        save_features(tmp_path, split, Features(layers, torch.tensor(labels), ("low", "high")))
    found = centroid.main({"centroid": load({}).get("centroid")}, Namespace(features=tmp_path))
    assert found.metrics == {"top1_percent": 75.0}
    assert missing_and_spare(read_yaml(ROOT / "dvc.yaml")["stages"]) == ([], [])
""",
}

PROJECT_FILES = [".dvc", ".dvcignore", "src", "dvc.yaml"]  # as the page's own lines copy them

HEADLINE = {
    "src/annulus/evals/headlines.py": """>>>    "linear_top1_percent"
    "knn_top5_percent": Headline("knn", "top5_percent", optional=True),""",
    "tests/test_summary.py": """


def test_top5_is_a_headline(paths):
    assert summary.main(VARIANT, paths).metrics["knn_top5_percent"] == 97.5
""",
}

FOLLOWED = {
    **{"split": SPLIT, "backbone": BACKBONE, "data set": DATASET, "evaluation": EVALUATION},
    "headline metric": HEADLINE,
}
WHOLE = {name: blocks_of(name) for name in ("sampler", "bound", "view", "study")}
RECIPES = (*WHOLE, *FOLLOWED)
# A user's edits of params.yaml.
EDITS = {
    r"^sampler: \w+": "sampler: uniform",
    r"^  ring: .*": "  ring: {outer: 0.3, inner: 0.05}",
    r"^    temperature: 0.2 ": "    temperature: 0.07 ",
    r"^  shapes: .*": "  shapes: {image_size: 24, view_size: 24, validation_fraction: 0.1}",
}
MOST = {"sampler": 4, "bound": 4, "data set": 4, "evaluation": 6}  # files; three for each other recipe


def changed(text, change):
    """Returns a text in which each part of a change is inserted before its place."""
    for part in change.split(">>>")[1:]:
        place, inserted = part.split("\n", 1)
        inserted = inserted.removesuffix("\n")
        assert place in text, f"no {place!r}"
        text = text.replace(place, f"{inserted}\n{place}", 1)
    return text


def write_other_numbers(folder):
    """Writes numbers as of `make repro` with other seeds or on another processor, then runs `make tables`' program."""
    summary = folder / "metrics/summary.csv"
    head, *rows = summary.read_text().splitlines()
    moved = [re.sub(r"(?<=\d\.)\d", lambda digit: str(9 - int(digit[0])), row) for row in rows]
    head = re.sub(r"seed(\d)", lambda seed: f"seed{int(seed[1]) + 5}", head)
    summary.write_text("\n".join([head, *moved, ""]))
    for name in ("knn", "linear", "pretrain", "diagnostics"):
        path = folder / f"metrics/main/{name}.json"
        seed_numbers = json.loads(path.read_text()).values()
        path.write_text(json.dumps({str(seed): numbers for seed, numbers in enumerate(seed_numbers, start=5)}))
    before = (folder / "metrics/RESULTS.md").read_text()
    own = os.environ | {"PYTHONPATH": str(folder / "src")}
    subprocess.run(
        [warm.folder() / "python", "-m", "annulus_lab.report.readme_numbers"], cwd=folder, env=own, check=True
    )
    assert (folder / "metrics/RESULTS.md").read_text() != before


def follow(name, folder):
    """Applies a recipe or a user's edits to a scratch copy and returns the recipe's own test files."""
    if name == "edits":
        before = text = (folder / "params.yaml").read_text()
        for place, value in EDITS.items():
            text = re.sub(place, value, text, flags=re.MULTILINE)
        assert text != before
        (folder / "params.yaml").write_text(text)
        return []
    if name == "numbers":
        write_other_numbers(folder)
        return []
    if name == "study":
        archive = subprocess.check_output(["git", "archive", "HEAD:stages/strength", *PROJECT_FILES], cwd=ROOT)
        (folder / "stages/temperatures").mkdir()
        subprocess.run(["tar", "x", "-C", folder / "stages/temperatures"], input=archive, check=True)
    for block in WHOLE.get(name, []):
        path = folder / block.path
        path.write_text(block.into(path.read_text() if path.exists() else ""))
    for file, change in FOLLOWED.get(name, {}).items():
        path = folder / file
        path.parent.mkdir(exist_ok=True)
        there = path.read_text() if path.exists() else ""
        path.write_text(changed(there, change) if change.startswith(">>>") else f"{there}{change}".lstrip())
    return [file.removeprefix("tests/") for file in recipe_files(name) if file.startswith("tests/")]


def recipe_files(name):
    """Files that a recipe touches."""
    return list(FOLLOWED[name]) if name in FOLLOWED else list(dict.fromkeys(block.path for block in WHOLE[name]))


def scratch(folder):
    """Copies the checkout with its bytecode and with file times, which bytecode must match."""
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = [Path(name) for name in subprocess.check_output(listed, cwd=ROOT, text=True).split("\0") if name]
    folders = {name.parent / "__pycache__" for name in names if name.suffix == ".py"}
    compiled = (path.relative_to(ROOT) for place in folders for path in (ROOT / place).glob("*.pyc"))
    for name in (*names, *compiled):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)
    for words in (["init", "-q"], ["add", "-A"]):  # a test lists all documents by git
        subprocess.run(["git", *words], cwd=folder, check=True)
    return folder


# sys.executable is the usual Python, since some tests check how it starts.
TESTS = f"import sys, pytest; sys.executable = {sys.executable!r}; sys.exit(pytest.main(sys.argv[1:]))"

# Tests of kills and of several processes depend on no list and no value: one process trains the same settings.
ONE_PROCESS = "not kill and not worker and not another_process"


def red_tests(folder, tests):
    """Returns the failing ones of the test files and tests that a scratch copy has, and pytest's output."""
    parts = [(folder / file, name, test) for test in sorted(tests) for file, _, name in [test.partition("::")]]
    there = [test for path, name, test in parts if path.exists() and f"def {name}" in path.read_text()]
    if not there:  # pytest would run all
        return set(), ""
    done = subprocess.run(
        [warm.folder() / "python", "-c", TESTS, "-p", "no:cacheprovider", "-m", "not slow", "-k", ONE_PROCESS, *there],
        **{"cwd": folder, "capture_output": True, "text": True},
        env=os.environ | {"PYTHONPATH": str(folder / "src"), warm.SHARED: str(warm.folder())},
    )
    output = done.stdout + done.stderr
    red = set(re.findall(r"^(?:FAILED|ERROR) (tests/\w+\.py(?:::\w+)?)", output, re.MULTILINE))
    assert red or done.returncode == 0, output
    return red, output


@pytest.mark.parametrize("name", FOLLOWED)
def test_a_recipe_names_every_file_that_it_touches(name):
    steps = re.findall(r"^(\d)\. ", recipe_of(name), re.MULTILINE)
    assert steps == [str(step + 1) for step in range(len(recipe_files(name)))]
    known = [each.replace("NAME", r"\w+") for each in re.findall(r"`([\w/.]+\.(?:py|yaml|md))`", recipe_of(name))]
    for file in recipe_files(name):
        assert any(re.fullmatch(each, file) for each in known), file


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_touches_few_files(name):
    assert 0 < len(recipe_files(name)) <= MOST.get(name, 3)


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_example_is_under_fifteen_lines_of_code_and_its_test_too(name):
    test_lines = [block.lines for block in WHOLE[name] if block.path.startswith("tests/")]
    code_lines = [block.lines for block in WHOLE[name] if block.path.endswith(".py")]  # params.yaml holds settings
    assert all(lines < 15 for lines in (*test_lines, sum(code_lines) - sum(test_lines)))
    assert len(test_lines) == (name != "study")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_recipes_and_a_user_s_edits_turn_no_test_of_lists_readmes_params_and_stated_values_red(tmp_path):
    """All recipes go into one copy. If a test fails there, each goes into its own copy, to name the wrong one."""
    together = scratch(tmp_path / "all")
    own = [test for name in (*RECIPES, "edits", "numbers") for test in follow(name, together)]
    named = {path for name in (*LIST_TESTS, *VALUE_TESTS, *own) for path in (together / "tests").glob(name)}
    red, output = red_tests(together, [path.relative_to(together).as_posix() for path in named])
    if red:
        guilty = []
        for name in (*RECIPES, "edits", "numbers"):
            alone = scratch(tmp_path / name)
            follow(name, alone)
            guilty += [name] if red_tests(alone, red)[0] else []
        pytest.fail(f"{', '.join(guilty) or 'only all together'} turn {', '.join(sorted(red))} red:\n{output}")


def test_only_tests_of_the_file_itself_read_params_yaml():
    readers = {"stated.py", "test_recipes.py", "test_sources.py"}
    for path in (ROOT / "tests").glob("*.py"):
        assert path.name in readers or 'ROOT / "params.yaml"' not in path.read_text(), path

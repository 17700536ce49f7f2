"""Both studies as a user runs them, at `scale: tiny` and cut to two rows and parts, in a temporary checkout."""

import copy
import json
import re
import subprocess
from contextlib import chdir
from pathlib import Path

import pytest
import yaml
from by_path import ROOT, pipeline, read_yaml
from checkout import Checkout, ran, rows_of
from dvc.repo import Repo

from annulus.files.right import read_right

pytestmark = pytest.mark.slow

ROWS = ["MoCo", "IRing (+C_i)"]  # a plain name, and one that a shell would take apart
ESTIMATES = {"queries": 32, "repeats": 3, "counts": [16, 64], "samplers": {"NCE": {}, "CNCE": {"sampler": "ball"}}}


def two_rows(content: dict) -> None:
    methods = {f"method {row}": {"row": row, "top1_percent": 80.0 + at} for at, row in enumerate(ROWS)}
    content |= {"scale": "tiny", "seeds": [0, 1], "pairs": {"MoCo": ["IRing (+C_i)"]}}
    content["rows"] = {row: content["rows"][row] for row in ROWS}
    content["tables"] = {"a table": {"base": "method MoCo", "methods": methods}}


def two_parts(content: dict) -> None:
    parts = {name: content["parts"][name] for name in ("annealing", "eqco-moco")}
    for part in parts.values():
        part["series"] = dict(list(part["series"].items())[:2])
    parts["eqco-moco"]["sweep"]["values"] = [4, 64]
    content |= {"scale": "tiny", "seeds": [0, 1], "parts": parts, "estimates": ESTIMATES}


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Checkout:
    """Both studies, run from nothing."""
    checkout = Checkout(tmp_path_factory.mktemp("annulus"), "algorithms", "negatives")
    checkout.cut("algorithms", two_rows)
    checkout.cut("negatives", two_parts)
    output = checkout.dvc("repro", study="algorithms")
    assert set(ran(output)) == {"settings", "images", "table", *(f"train@{row}" for row in ROWS)}
    assert "method IRing (+C_i)" in output, "the run ends with its table"
    output = checkout.dvc("repro", study="negatives")
    assert set(ran(output)) == {"settings", "images", "part@annealing", "part@eqco-moco", "estimates"}
    checkout.commit()
    return checkout


@pytest.fixture
def checkout(repository) -> Checkout:
    """The reproduced checkout, as it was committed, with the settings that belong to it."""
    yield repository
    repository.restore()
    for study in ("algorithms", "negatives"):
        repository.dvc("checkout", "--quiet", "--force", "data/settings", study=study)


def test_the_table_has_each_row_s_own_numbers_within_their_ceilings(repository):
    rows = rows_of(repository.project("algorithms") / "metrics/table.csv")
    assert [row["method"] for row in rows] == [f"method {row}" for row in ROWS]
    for row, name in zip(rows, ROWS, strict=True):
        seed_metrics = repository.read(f"stages/algorithms/metrics/rows/{name}.json")
        assert list(seed_metrics) == ["0", "1"]
        accuracies = [metrics["linear_top1_percent"] for metrics in seed_metrics.values()]
        assert float(row["here_percent"]) == pytest.approx(sum(accuracies) / 2, abs=0.011)
        right = read_right(repository.project("algorithms") / f"metrics/right/{name}.json")["linear_top1_percent"]
        assert [100 * bits.mean() for bits in right.values()] == pytest.approx(accuracies)
        assert all(0 < metrics["linear_top1_percent"] < 100 for metrics in seed_metrics.values())
        assert all(metrics["bound_nats"] <= metrics["ceiling_nats"] for metrics in seed_metrics.values())
        assert (row["scale"], row["epochs"], row["seeds"]) == ("tiny", "1", "2")
    assert rows[0]["bound_nats"] != rows[1]["bound_nats"]
    (pair,) = rows_of(repository.project("algorithms") / "metrics/pairs.csv")
    gains = [float(row["here_gain_percent"]) for row in rows]
    assert float(pair["gain_percent"]) == pytest.approx(gains[0] - gains[1], abs=0.011)


def test_a_new_row_is_trained_alone_in_a_fresh_clone_and_compared_as_the_readme_says(repository, tmp_path):
    """YAML of stages/algorithms/README.md goes into the study's file word for word, then its command runs."""
    says = (ROOT / "stages/algorithms/README.md").read_text()
    lines, then = says.partition("```yaml")[2].split("```")[:2]
    study = re.search(r"`make study STUDY=(\w+)`", then)[1]
    (row, (base,)), *others = yaml.safe_load(lines)["pairs"].items()
    assert not others

    subprocess.run(["git", "clone", "-q", repository.folder, tmp_path / "clone"], check=True)
    clone = copy.copy(repository)
    clone.folder = tmp_path / "clone"
    clone.cut("algorithms", lambda content: [content[key].update(own) for key, own in yaml.safe_load(lines).items()])
    output = clone.dvc("repro", study=study)
    assert ran(output) == ["settings", "images", f"train@{row}", "table"]
    compared = [(pair["row"], pair["base"]) for pair in rows_of(clone.project("algorithms") / "metrics/pairs.csv")]
    assert (row, base) in compared
    (line,) = (line for line in output.splitlines() if line.split()[:2] == [row, base])
    assert "±" in line


def test_every_part_has_its_tables_and_eqco_the_ceiling_of_its_margin(repository):
    folder = repository.project("negatives") / "metrics"
    expected = {f"{name}{kind}.csv" for name in ("annealing", "eqco-moco") for kind in ("", "_figure")}
    assert {path.name for path in folder.iterdir()} == expected | {"estimates.csv"}
    rows = rows_of(folder / "eqco-moco.csv")
    assert [row["nn1_verdict"] == "base" for row in rows] == [True, True, False, False]
    points = [(point["series"], point["value"], point["ceiling_nats"]) for point in rows]
    assert points[:2] == [("plain", "4", "1.6094"), ("plain", "64", "4.1744")]
    assert points[2:] == [("EqCo", "4", "5.5491"), ("EqCo", "64", "5.5491")], "whatever the number of negatives"
    estimates = [(row["series"], row["k"]) for row in rows_of(folder / "estimates.csv")]
    assert estimates == [("NCE", "16"), ("NCE", "64"), ("CNCE", "16"), ("CNCE", "64")]


def test_a_row_s_edit_reruns_that_row_and_the_table_alone(checkout):
    for study in ("algorithms", "negatives"):
        assert ran(checkout.dvc("repro", study=study)) == [], "nothing has changed yet"
    states = list(checkout.folder.glob(".annulus/checkpoints/*/*"))
    assert all((state / "let-go").exists() for state in states), "of the last stage"
    others = {row: checkout.read(f"stages/algorithms/metrics/rows/{row}.json") for row in ROWS if row != "MoCo"}
    before = checkout.read("stages/algorithms/metrics/rows/MoCo.json")
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"methods.moco.temperature": 0.5}))
    assert ran(checkout.dvc("repro", study="algorithms")) == ["settings", "train@MoCo", "table"]
    assert checkout.read("stages/algorithms/metrics/rows/MoCo.json") != before
    assert {row: checkout.read(f"stages/algorithms/metrics/rows/{row}.json") for row in others} == others


def test_the_main_line_s_run_runs_no_study_and_its_variant_reaches_none(checkout):
    checkout.edit("params.yaml", "sampler: ring ", "sampler: cave ")
    checkout.edit("params.yaml", "method: ir ", "method: moco ")
    checkout.edit("params.yaml", "- 0\n", "- 7\n")
    for study in ("algorithms", "negatives"):
        assert json.loads(checkout.dvc("status", "--json", study=study)).keys() == {"settings"}
        assert ran(checkout.dvc("repro", study=study)) == ["settings"]
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"views": "none"}))
    # Where nothing of the main line has run yet, a dry run stops after its first stage.
    output = checkout.dvc("repro", "--dry", "--keep-going", status=255)
    assert ran(output) == ["check"]
    assert "algorithms" not in output


def test_a_mistake_in_a_row_is_one_sentence_and_costs_no_metrics_file(checkout):
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"methods.moco.temperatur": 0.5}))
    metrics = {path: path.read_bytes() for path in checkout.project("algorithms").glob("metrics/**/*.*")}
    output = checkout.dvc("repro", study="algorithms", status=255)
    sentence = "MoCo: methods.moco.temperatur: params.yaml has no 'temperatur'; did you mean 'temperature'?"
    assert f"ERROR: stages/algorithms/params.yaml: {sentence}" in output
    assert "Traceback" not in output
    assert ran(output) == ["settings"]
    assert {path: path.read_bytes() for path in checkout.project("algorithms").glob("metrics/**/*.*")} == metrics


PIPELINES = {path.parent.name: pipeline(path) for path in sorted(ROOT.glob("stages/*/dvc.yaml"))}


@pytest.fixture(scope="module")
def dependencies() -> dict[str, set[Path]]:
    """Files and folders that each stage of each project declares, with the stages of a matrix."""
    declarations = {}
    for study in ("", *PIPELINES):
        with chdir(ROOT / "stages" / study if study else ROOT), Repo() as repo:
            for stage in repo.index.stages:
                paths = {Path(dep.fs_path).resolve().relative_to(ROOT) for dep in stage.deps}
                declarations[f"{study or 'main'}:{stage.name}"] = paths
    return declarations


def reached(dependencies: dict[str, set[Path]], *files: str) -> set[str]:
    """Stages that declare one of these files or a folder of it: DVC runs them when the files have changed."""
    covering = {folder for file in files for folder in (Path(file), *Path(file).parents)}
    return {name for name, declared in dependencies.items() if declared & covering}


class Settled:
    """A checkout of some studies with their settings, and the stages that an edit runs again."""

    def __init__(self, folder: Path, dependencies: dict[str, set[Path]], *studies: str) -> None:
        self.checkout, self.dependencies, self.studies = Checkout(folder, *studies), dependencies, studies
        self.files = self.settle()

    def settle(self) -> dict[str, bytes]:
        """Runs the studies' first stages in one process and returns the files that they write."""
        commands = {
            str(self.checkout.project(study)): PIPELINES[study]["stages"]["settings"]["cmd"].split()[1:]
            for study in self.studies
        }
        each = "os.chdir(folder); runpy.run_path('..', None, '__main__')"
        self.checkout.run("-c", f"import os, runpy, sys\nfor folder, sys.argv in {commands}.items(): {each}")
        files = (path for path in self.checkout.folder.glob("stages/*/data/settings/**/*") if path.is_file())
        return {str(path.relative_to(self.checkout.folder)): path.read_bytes() for path in files}

    def run_by(self, path: str, old: str, new: str) -> set[str]:
        """Makes an edit and returns the later stages whose settings or code digest it changes."""
        before = self.files
        self.checkout.edit(path, old, new)
        self.files = self.settle()
        assert before.keys() == self.files.keys()
        return reached(self.dependencies, *(name for name in before if before[name] != self.files[name]))


def test_an_edit_of_code_reaches_the_first_stages_of_its_users_and_then_what_runs_it_alone(dependencies, tmp_path):
    assert reached(dependencies, "src/annulus_lab/pipeline/stage.py", "src/annulus/errors.py") == set()
    users = ("estimators", "negatives", "cifar10_negatives")
    toys = "src/annulus_lab/studies/estimators/toys.py"
    assert reached(dependencies, toys) == {f"{study}:settings" for study in users}
    settled = Settled(tmp_path, dependencies, *users)
    names = ["gaussians", "binary", "staircase@separable", "staircase@joint", "conditional", "ideal", "theorems"]
    assert settled.run_by(toys, "import math\n", "# a comment\nimport math\n") == set()
    assert settled.run_by(toys, "import math\n", "import math\n\nx = 1\n") == {f"estimators:{name}" for name in names}


def test_an_edit_of_a_sampler_reruns_the_rows_that_have_it_and_no_other(dependencies, tmp_path):
    """Each study's settings stage runs before and after. A stage whose settings file stays the same does not run."""
    having = [study for study in PIPELINES if "../../params.yaml" in PIPELINES[study]["stages"]["settings"]["deps"]]
    having.remove("detection")  # it reads no sampler, but the main line's seeds, which the tests' checkout lacks
    assert {"algorithms", "cifar10", "negatives"} < set(having)
    settled = Settled(tmp_path, dependencies, *having)
    rows = read_yaml(ROOT / "stages/algorithms/params.yaml")["rows"]
    cave = [row for row, settings in rows.items() if settings.get("sampler") == "cave"]
    assert len(cave) == 6
    on_cifar10 = read_yaml(ROOT / "stages/cifar10/params.yaml")["rows"]
    expected = {f"{study}:train@{row}" for row in cave for study in ("algorithms", "cifar10_algorithms")}
    law = read_yaml(ROOT / "stages/law/params.yaml")["parts"]
    expected |= {f"law:part@{part}" for part, own in law.items() if "cave" in own["series"]}
    expected |= {"embedded_law:part@ir-256"}
    expected |= {
        f"{study}:further_encoders@encoder{place}"
        for study in ("transfer", "cifar10_transfer")
        for place, one in enumerate(read_yaml(ROOT / f"stages/{study}/params.yaml")["encoders"])
        if one["changes"].get("sampler") == "cave"
    }
    expected |= {f"full_law:part@{part}" for part in ("ir", "ir-long")}
    expected |= {"cifar10_later:train@CAVE", "cifar10_later:train@CAVE+anneal"}
    expected |= {f"cifar10:train@{row}-{seed}" for row in cave if row in on_cifar10 for seed in range(3)}
    assert settled.run_by("params.yaml", "iterations: 20, keep: outside", "iterations: 21, keep: outside") == expected

"""Both studies as a user runs them, at `scale: tiny` and cut to two rows and parts, in a temporary checkout."""

import copy
import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from by_path import ROOT, pipeline, read_yaml
from checkout import Checkout, ran, rows_of
from dvc.repo import Repo

from annulus.files.right import read_right

pytestmark = pytest.mark.slow

ALGORITHMS, CIFAR10, NEGATIVES = (f"stages/{study}/dvc.yaml" for study in ("algorithms", "cifar10", "negatives"))
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
    output = checkout.dvc("repro", ALGORITHMS)
    assert set(ran(output)) == {"settings", "images", "table", *(f"train@{row}" for row in ROWS)}
    assert "method IRing (+C_i)" in output, "the run ends with its table"
    output = checkout.dvc("repro", NEGATIVES)
    assert set(ran(output)) == {"settings", "images", "part@annealing", "part@eqco-moco", "estimates"}
    checkout.commit()
    return checkout


@pytest.fixture
def checkout(repository) -> Checkout:
    """The reproduced checkout, as it was committed, with the settings that belong to it."""
    yield repository
    repository.restore()
    settings = [str(path.relative_to(repository.folder)) for path in repository.folder.glob("data/*/settings")]
    repository.dvc("checkout", "--quiet", "--force", *settings)


def test_the_table_has_each_row_s_own_numbers_within_their_ceilings(repository):
    rows = rows_of(repository.folder / "metrics/algorithms/table.csv")
    assert [row["method"] for row in rows] == [f"method {row}" for row in ROWS]
    for row, name in zip(rows, ROWS, strict=True):
        of_seeds = repository.read(f"metrics/algorithms/rows/{name}.json")
        assert list(of_seeds) == ["0", "1"]
        accuracies = [metrics["linear_top1_percent"] for metrics in of_seeds.values()]
        assert float(row["here_percent"]) == pytest.approx(sum(accuracies) / 2, abs=0.011)
        right = read_right(repository.folder / f"metrics/algorithms/right/{name}.json")["linear_top1_percent"]
        assert [100 * bits.mean() for bits in right.values()] == pytest.approx(accuracies)
        assert all(0 < metrics["linear_top1_percent"] < 100 for metrics in of_seeds.values())
        assert all(metrics["bound_nats"] <= metrics["ceiling_nats"] for metrics in of_seeds.values())
        assert (row["scale"], row["epochs"], row["seeds"]) == ("tiny", "1", "2")
    assert rows[0]["bound_nats"] != rows[1]["bound_nats"]
    (pair,) = rows_of(repository.folder / "metrics/algorithms/pairs.csv")
    gains = [float(row["here_gain_percent"]) for row in rows]
    assert float(pair["gain_percent"]) == pytest.approx(gains[0] - gains[1], abs=0.011)


def test_a_new_row_is_trained_alone_in_a_fresh_clone_and_compared_as_the_readme_says(repository, tmp_path):
    """Word for word: YAML of stages/algorithms/README.md goes into the study's file, the command below it follows."""
    says = (ROOT / "stages/algorithms/README.md").read_text()
    lines, then = says.partition("```yaml")[2].split("```")[:2]
    command = re.search("`dvc (repro .+?)`", then)[1]
    (row, (base,)), *others = yaml.safe_load(lines)["pairs"].items()
    assert not others

    subprocess.run(["git", "clone", "-q", repository.folder, tmp_path / "clone"], check=True)
    clone = copy.copy(repository)
    clone.folder = tmp_path / "clone"
    clone.cut("algorithms", lambda content: [content[key].update(own) for key, own in yaml.safe_load(lines).items()])
    output = clone.dvc(*command.split())
    assert ran(output) == ["settings", "images", f"train@{row}", "table"]
    found = [(pair["row"], pair["base"]) for pair in rows_of(clone.folder / "metrics/algorithms/pairs.csv")]
    assert (row, base) in found
    (line,) = (line for line in output.splitlines() if line.split()[:2] == [row, base])
    assert "±" in line


def test_every_part_has_its_tables_and_eqco_the_ceiling_of_its_margin(repository):
    folder = repository.folder / "metrics/negatives"
    expected = {f"{name}{kind}.csv" for name in ("annealing", "eqco-moco") for kind in ("", "_figure")}
    assert {path.name for path in folder.iterdir()} == expected | {"estimates.csv"}
    rows = rows_of(folder / "eqco-moco.csv")
    assert [row["nn1_verdict"] == "base" for row in rows] == [True, True, False, False]
    points = [(point["series"], point["value"], point["ceiling_nats"]) for point in rows]
    assert points[:2] == [("plain", "4", "1.6094"), ("plain", "64", "4.1744")]
    assert points[2:] == [("EqCo", "4", "5.5491"), ("EqCo", "64", "5.5491")], "whatever the number of negatives"
    found = [(row["series"], row["k"]) for row in rows_of(folder / "estimates.csv")]
    assert found == [("NCE", "16"), ("NCE", "64"), ("CNCE", "16"), ("CNCE", "64")]


def test_a_row_s_edit_reruns_that_row_and_the_table_alone(checkout):
    assert ran(checkout.dvc("repro", ALGORITHMS, NEGATIVES)) == [], "nothing has changed yet"
    states = list(checkout.folder.glob(".annulus/checkpoints/*/*"))
    assert all((state / "let-go").exists() for state in states), "of the last stage"
    others = {row: checkout.read(f"metrics/algorithms/rows/{row}.json") for row in ROWS if row != "MoCo"}
    before = checkout.read("metrics/algorithms/rows/MoCo.json")
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"methods.moco.temperature": 0.5}))
    assert ran(checkout.dvc("repro", ALGORITHMS)) == ["settings", "train@MoCo", "table"]
    assert checkout.read("metrics/algorithms/rows/MoCo.json") != before
    assert {row: checkout.read(f"metrics/algorithms/rows/{row}.json") for row in others} == others


def test_the_main_line_s_run_runs_no_study_and_its_variant_reaches_none(checkout):
    checkout.edit("params.yaml", "sampler: ring ", "sampler: cave ")
    checkout.edit("params.yaml", "method: ir ", "method: moco ")
    checkout.edit("params.yaml", "- 0\n", "- 7\n")
    assert json.loads(checkout.dvc("status", "--json", ALGORITHMS, NEGATIVES)) == {}
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"views": "none"}))
    # Where nothing of the main line has run yet, a dry run stops after its first stage.
    output = checkout.dvc("repro", "--dry", "--keep-going", status=255)
    assert ran(output) == ["check"]
    assert "algorithms" not in output


def test_a_mistake_in_a_row_is_one_sentence_and_costs_no_metrics_file(checkout):
    checkout.cut("algorithms", lambda content: content["rows"]["MoCo"].update({"methods.moco.temperatur": 0.5}))
    metrics = {path: path.read_bytes() for path in checkout.folder.glob("metrics/algorithms/**/*.*")}
    output = checkout.dvc("repro", ALGORITHMS, status=255)
    sentence = "MoCo: methods.moco.temperatur: params.yaml has no 'temperatur'; did you mean 'temperature'?"
    assert f"ERROR: stages/algorithms/params.yaml: {sentence}" in output
    assert "Traceback" not in output
    assert ran(output) == ["settings"]
    assert {path: path.read_bytes() for path in checkout.folder.glob("metrics/algorithms/**/*.*")} == metrics


PIPELINES = {str(path.relative_to(ROOT)): pipeline(path) for path in sorted(ROOT.glob("stages/*/dvc.yaml"))}


@pytest.fixture(scope="module")
def dependencies() -> dict[str, set[Path]]:
    """The files and folders that the stages of all pipelines declare; those of a matrix too."""
    with Repo(ROOT) as repo:
        return {
            f"{stage.path_in_repo}:{stage.name}": {Path(dep.fs_path).relative_to(ROOT) for dep in stage.deps}
            for stage in repo.index.stages
        }


def reached(dependencies: dict[str, set[Path]], *files: str) -> set[str]:
    """The stages that DVC would run by themselves when these files have changed."""
    covering = {folder for file in files for folder in (Path(file), *Path(file).parents)}
    return {name for name, declared in dependencies.items() if declared & covering}


def test_an_edit_reruns_the_stages_that_reach_it_and_none_where_it_enters_no_number(dependencies):
    package = "src/annulus/"
    assert reached(dependencies, *(package + name for name in ("pipeline/stage.py", "errors.py"))) == set()
    names = ["settings", "gaussians", "binary", "staircase@separable", "staircase@joint", "conditional", "ideal"]
    own = {f"stages/estimators/dvc.yaml:{name}" for name in [*names, "theorems"]}
    assert reached(dependencies, f"{package}studies/estimators/toys.py") == own | {
        f"stages/{study}/dvc.yaml:estimates" for study in ("negatives", "cifar10_negatives")
    }


def test_an_edit_of_a_sampler_reruns_the_rows_that_have_it_and_no_other(dependencies, tmp_path):
    """Each study's settings stage, before and after: of what depends on a file that stays the same nothing runs."""
    having = {name: own for name, own in PIPELINES.items() if "samplers" in own["stages"]["settings"]["params"]}
    assert {ALGORITHMS, CIFAR10, NEGATIVES} < having.keys()
    checkout = Checkout(tmp_path, *(Path(name).parent.name for name in having))

    def settled() -> dict[str, bytes]:
        commands = [pipeline["stages"]["settings"]["cmd"].split()[1:] for pipeline in having.values()]
        checkout.run("-c", f"import runpy, sys\nfor sys.argv in {commands}: runpy.run_path('stages', None, '__main__')")
        files = (path for path in tmp_path.glob("data/*/settings/**/*") if path.is_file())
        return {str(path.relative_to(tmp_path)): path.read_bytes() for path in files}

    before = settled()
    checkout.edit("params.yaml", "iterations: 20, keep: outside", "iterations: 21, keep: outside")
    after = settled()
    assert before.keys() == after.keys()
    rows = read_yaml(ROOT / "stages/algorithms/params.yaml")["rows"]
    cave = [row for row, settings in rows.items() if settings.get("sampler") == "cave"]
    assert len(cave) == 6
    on_cifar10 = read_yaml(ROOT / "stages/cifar10/params.yaml")["rows"]
    expected = {f"{ALGORITHMS}:train@{row}" for row in cave}
    expected |= {f"stages/cifar10_algorithms/dvc.yaml:train@{row}" for row in cave}
    law = read_yaml(ROOT / "stages/law/params.yaml")["parts"]
    expected |= {f"stages/law/dvc.yaml:part@{part}" for part, own in law.items() if "cave" in own["series"]}
    expected |= {"stages/embedded_law/dvc.yaml:part@ir-256"}
    expected |= {f"stages/full_law/dvc.yaml:part@{part}" for part in ("ir", "ir-long")}
    expected |= {f"{CIFAR10}:train@{row}-{seed}" for row in cave if row in on_cifar10 for seed in range(3)}
    assert reached(dependencies, *(name for name in before if before[name] != after[name])) == expected

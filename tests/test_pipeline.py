"""Each dvc.yaml says what is true: every file, parameter and path that a stage touches is declared."""

import shlex

import pytest
import yaml
from by_path import script
from declared import ROOT, missing_and_spare, script_of
from dvc.utils.hydra import apply_overrides

FILES = [ROOT / "dvc.yaml", *sorted(ROOT.glob("stages/*/dvc.yaml"))]
PIPELINES = {path.parent.name if path.parent != ROOT else "main": yaml.safe_load(path.read_text()) for path in FILES}
STUDIES = [name for name in PIPELINES if name != "main"]
STAGES = {f"{name} {stage}": it for name, content in PIPELINES.items() for stage, it in content["stages"].items()}


def arguments(stage: dict) -> dict[str, str]:
    """The command's options, quotes taken off."""
    words = shlex.split(stage["cmd"])[3:]
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def is_declared(path: str, stage: dict) -> bool:
    declared = [path for kind in ("deps", "outs", "metrics", "plots", "params") for path in names(stage.get(kind, []))]
    return path in declared or any(other.startswith(f"{path}/") for other in declared)


def names(entries: list) -> list[str]:
    """Paths of a list that may hold `path: {options}` entries."""
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def test_a_stage_declares_every_room_that_it_reaches():
    for name, stage in STAGES.items():
        missing, spare = missing_and_spare(stage)
        assert not missing, f"add to the deps of {name}: {missing}"
        assert not spare, f"{name} does not reach {spare}; remove them from its deps"


def test_an_undeclared_room_is_named():
    deps = ["stages/knn.py", "src/annulus/evals", "src/annulus/views"]
    missing, spare = missing_and_spare({"cmd": "python stages knn --features x", "deps": deps})
    assert (missing, spare) == (
        ["src/annulus/compute", "src/annulus/encoders", "src/annulus/files"],
        ["src/annulus/views"],
    )


def test_a_stage_of_the_main_line_declares_every_parameter_that_it_reads():
    for stage in PIPELINES["main"]["stages"].values():
        assert getattr(script(script_of(stage)), "READS", []) == stage.get("params", []), stage["cmd"]


def test_a_stage_declares_every_path_of_its_command():
    for name, stage in STAGES.items():
        given = arguments(stage)
        for path in given.values():
            assert path == "params.yaml" or is_declared(path, stage), (name, path)
        if paths := getattr(script(script_of(stage)), "PATHS", []):
            assert sorted(given) == sorted(paths if name.startswith("main ") else [*paths, "settings"]), name


def test_numbers_are_in_git_and_all_other_outputs_in_the_cache():
    """Tables and curves are `plots`: DVC's run cache leaves out every stage that has an uncached plain output."""
    for name, stage in STAGES.items():
        for entry in stage.get("metrics", []) + stage.get("plots", []):
            ((path, options),) = entry.items()
            assert path.startswith("metrics/"), name
            assert (options.get("cache") is False) != path.endswith("confusion.csv"), "a row an image stays out of git"
            assert not options.get("persist"), "the run cache leaves out a stage that has a persistent output"
        assert all(path.startswith("data/") for path in stage.get("outs", [])), name


def test_what_dvc_counts_as_metrics_are_the_headline_numbers():
    """All others are `plots`: `dvc metrics diff` and `dvc exp show` fit a screen; no two stages write the same."""
    kinds = ("outs", "metrics", "plots")
    written = [path for stage in STAGES.values() for kind in kinds for path in names(stage.get(kind, []))]
    assert len(written) == len(set(written))
    counted = [path for stage in STAGES.values() for path in names(stage.get("metrics", []))]
    assert counted == ["metrics/summary.json"]


def test_the_files_stay_as_short_as_a_reviewer_reads():
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 200
    locks = {path.parent.name: len(path.with_suffix(".lock").read_text().splitlines()) for path in FILES}
    assert locks.pop("cifar10") <= 4000, "of all its rows"
    first = [ROOT.name, "algorithms", "negatives", "estimators"]
    assert sum(locks.pop(name) for name in first) <= 7000
    assert max(locks.values()) <= 1500
    code = [dep for dep in STAGES["main pretrain"]["deps"] if dep.startswith(("src/", "stages/"))]
    assert len(code) <= 13
    for study in STUDIES:
        for path in (ROOT / "stages" / study).glob("*.py"):
            assert len(path.read_text().splitlines()) <= 60


@pytest.mark.parametrize("study", STUDIES)
def test_all_parameters_of_a_study_pass_through_its_settings_stage(study):
    """It is the one with `params`; each other stage depends on a file that it writes, and on no other stage's."""
    stages = PIPELINES[study]["stages"]
    assert [name for name, stage in stages.items() if "params" in stage] == ["settings"]
    assert stages["settings"]["outs"] == [f"data/{study}/settings"]
    for name, stage in stages.items():
        assert stage["wdir"] == "../.."
        if name != "settings":
            (file,) = [dep for dep in stage["deps"] if dep.startswith(f"data/{study}/settings/")]
            assert arguments(stage)["settings"] == file


@pytest.mark.parametrize("study", STUDIES)
def test_a_matrix_goes_over_the_section_that_it_is_named_after(study):
    content = yaml.safe_load((ROOT / "stages" / study / "params.yaml").read_text())
    for stage in PIPELINES[study]["stages"].values():
        for item, rows in stage.get("matrix", {}).items():
            plural = f"{item}es" if item.endswith("s") else f"{item}s"
            assert rows == f"${{{plural}}}"
            assert f"${{item.{item}" in arguments(stage)["settings"]
            # The name is a key, a file's name and an argument in quotes.
            names_of = [row["name"] if isinstance(row, dict) else row for row in content[plural]]
            assert not [name for name in names_of if set('./"') & set(str(name))]


@pytest.mark.parametrize("path", ["params.yaml", "stages/algorithms/params.yaml"])
def test_a_change_by_dvc_is_one_line_of_a_params_file(path, tmp_path):
    """`dvc exp run -S` writes the whole file anew, in a form of its own: long lines break, comments after lists go."""
    copied = tmp_path / "params.yaml"
    copied.write_text((ROOT / path).read_text())
    apply_overrides(str(copied), ["scale=tiny"])
    before, after = (file.read_text().splitlines() for file in (ROOT / path, copied))
    assert len(before) == len(after)
    assert [line.split(":")[0] for line, other in zip(before, after, strict=True) if line != other] == ["scale"]

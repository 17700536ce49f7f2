"""Each dvc.yaml declares every file, parameter and path that its stages touch."""

import ast
import json
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from by_path import pipeline, read_yaml, script
from checkout import Checkout
from declared import ROOT, missing_and_spare, script_of
from dvc.utils.hydra import apply_overrides

FILES = [ROOT / "dvc.yaml", *sorted(ROOT.glob("stages/*/dvc.yaml"))]
PIPELINES = {path.parent.name if path.parent != ROOT else "main": pipeline(path) for path in FILES}
STUDIES = [name for name in PIPELINES if name != "main"]
STAGES = {f"{name} {stage}": it for name, content in PIPELINES.items() for stage, it in content["stages"].items()}


def project_folder(name: str) -> Path:
    """The DVC project of a pipeline."""
    return ROOT if name == "main" else ROOT / "stages" / name


def arguments(stage: dict) -> dict[str, str]:
    """Options of the command, without quotes."""
    words = shlex.split(stage["cmd"])[3:]
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def names(stage: dict, *kinds: str) -> list[str]:
    """Paths of lists whose entries may be `path: {options}`."""
    entries = [entry for kind in kinds for entry in stage.get(kind, [])]
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def test_the_first_stage_of_a_pipeline_declares_every_room_that_any_of_its_scripts_reaches():
    for name, content in PIPELINES.items():
        differences = missing_and_spare(content["stages"], project_folder(name))
        assert differences == ([], []), f"to add to the deps of the first stage of {name}, and to take out"
    stages = {"check": {"cmd": "python stages knn --features x", "deps": ["stages/knn.py", "src/annulus/evals"]}}
    stages["check"]["deps"] += ["src/annulus/views", "src/annulus/running/code.py"]
    missing, spare = missing_and_spare(stages)
    assert missing == [f"src/annulus/{room}" for room in ("device", "encoders", "files")]
    assert spare == ["src/annulus/views"]


def test_every_other_stage_depends_on_a_digest_of_its_code_and_on_no_code():
    for name, content in PIPELINES.items():
        for stage, it in list(content["stages"].items())[1:]:
            assert not [dep for dep in it["deps"] if "src/" in dep or dep.endswith(".py")], (name, stage)
            if name == "main":
                assert it["deps"][0] == f"data/main/code/{stage}"
            else:
                place = arguments(it)["settings"].removeprefix("data/settings/").removesuffix(".json")
                readers = script(script_of(content["stages"]["settings"])).READERS
                assert f"stages/{readers[place.split('/')[0]]}.py" == script_of(it), (name, stage)


def test_a_stage_declares_every_path_of_its_command_and_one_of_the_main_line_every_parameter_that_it_reads():
    for name, stage in STAGES.items():
        options, declared = arguments(stage), names(stage, "deps", "outs", "metrics", "plots", "params")
        for path in options.values():
            known = path in declared or any(other.startswith(f"{path}/") for other in declared)
            assert path == "params.yaml" or known, (name, path)
        main, place = name.startswith("main "), script_of(stage)
        for paths in re.findall(r"^PATHS = (\[.*\])$", (ROOT / place).read_text(), re.MULTILINE):
            assert sorted(options) == sorted([*ast.literal_eval(paths), *["settings"] * (not main)]), name
        assert not main or getattr(script(place), "READS", []) == stage.get("params", []), name


def test_numbers_are_in_git_where_no_failed_run_deletes_them_and_all_other_outputs_in_the_cache():
    """DVC deletes an output before its stage runs, unless it has `persist`. The run cache leaves out a stage with such
    an output. In the main line only `summary` has any, and it takes seconds."""
    for name, stage in STAGES.items():
        for entry in [entry for kind in ("outs", "metrics", "plots") for entry in stage.get(kind, [])]:
            path, options = next(iter(entry.items())) if isinstance(entry, dict) else (entry, {})
            large = path.endswith("confusion.csv") or path in ("metrics/main/neighbours.png", "metrics/main/map.svg")
            in_git = path.startswith("metrics/") and not large  # rows and pictures of images stay out of git
            assert (options.get("cache") is False) == (options.get("persist") is True) == in_git, (name, path)
            assert in_git or large or path.startswith("data/"), (name, path)
            assert not in_git or not name.startswith("main ") or name == "main summary"


def test_what_dvc_counts_as_metrics_are_the_headline_numbers_and_what_it_draws_are_tables_and_pictures():
    """`dvc metrics diff` and `dvc exp show` fit a screen, and `dvc plots show` has no error line."""
    for name, content in PIPELINES.items():
        stages = content["stages"].values()
        written = [path for stage in stages for path in names(stage, "outs", "metrics", "plots")]
        assert len(written) == len(set(written)), "no two stages write the same"
        metrics = [path for stage in stages for path in names(stage, "metrics")]
        assert metrics == (["metrics/summary.json"] if name == "main" else [])
        assert not [path for stage in stages for path in names(stage, "plots") if path.endswith(".json")]


def test_a_study_of_another_s_form_has_a_copy_of_its_file():
    """DVC reads no links in a commit. With a linked file `dvc metrics diff` and `dvc exp show` print nothing."""
    texts = {path: path.read_text() for path in FILES}
    assert not [path for path in FILES if path.is_symlink()]
    heads = [re.sub("^#.*\n", "", text, flags=re.MULTILINE).split("    outs:")[0] for text in set(texts.values())]
    assert len(heads) == len(set(heads)), "edit all files of a form alike"


def test_the_projects_of_studies_are_alike():
    """All have equal DVC settings. Each has its own cache, so `dvc gc` at the root deletes no study's data. Each has
    links to the code and to the plot templates: DVC would hash a folder outside the project with its bytecode."""
    for study in STUDIES:
        folder = project_folder(study)
        for name in (".dvc/config", ".dvc/.gitignore", ".dvcignore"):
            assert (folder / name).read_text() == (project_folder(STUDIES[0]) / name).read_text(), study
        assert str((folder / "src").readlink()) == "../../src"
        assert str((folder / ".dvc/plots").readlink()) == "../../../.dvc/plots"
    assert "cache" not in (project_folder(STUDIES[0]) / ".dvc/config").read_text()


def test_no_document_names_a_pipeline_of_a_study_as_a_target_of_the_root_s_project():
    """DVC refuses such a target. The command for `dvc repro stages/law/dvc.yaml` is `make study STUDY=law`."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=ROOT, text=True).split("\0")[:-1]
    ours = {"tests/test_pipeline.py"}
    suffixes = (".md", ".py", ".yaml", ".yml", ".ipynb", "Makefile", ".html")
    for path in (ROOT / name for name in listed if name.endswith(suffixes) and name not in ours):
        if path.is_file():
            assert not re.search(r"dvc (repro|exp run)[^`\n]* stages/\w+/dvc\.yaml", path.read_text()), path


@pytest.mark.slow
def test_dvc_s_own_comparisons_read_all_pipelines_of_a_commit(tmp_path):
    checkout = Checkout(tmp_path, *STUDIES)
    summary = tmp_path / "metrics/summary.json"
    summary.parent.mkdir(exist_ok=True)
    for number in (1.0, 2.5):
        summary.write_text(json.dumps({"knn_top1_percent": number}))
        checkout.commit()
    differences = json.loads(checkout.dvc("metrics", "diff", "HEAD~1", "HEAD", "--json"))
    assert differences == {"metrics/summary.json": {"knn_top1_percent": {"old": 1.0, "new": 2.5, "diff": 1.5}}}


def test_the_files_stay_as_short_as_a_reviewer_reads():
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 190
    assert all(len(path.read_text().splitlines()) <= 170 for path in FILES[1:])
    for path in (path for study in STUDIES for path in (ROOT / "stages" / study).glob("*.py")):
        assert len(path.read_text().splitlines()) <= 70


def test_the_lock_of_each_project_stays_short():
    """A DVC command reads its project's whole lock, and `dvc exp run` reads it several times."""
    locks = [lock for path in FILES if (lock := path.with_suffix(".lock")).is_file()]  # none before the first run
    assert all(len(lock.read_text().splitlines()) <= 1200 for lock in locks)


@pytest.mark.parametrize("study", STUDIES)
def test_all_parameters_of_a_study_pass_through_its_settings_stage_and_a_matrix_is_a_section_of_its_name(study):
    """The settings stage depends on the parameter files. Each other stage depends on one file that it writes."""
    stages = PIPELINES[study]["stages"]
    content = read_yaml(ROOT / "stages" / study / "params.yaml")
    assert next(iter(stages)) == "settings"
    assert not [name for name, stage in stages.items() if "params" in stage or "wdir" in stage]
    assert stages["settings"]["outs"] == ["data/settings"]
    read = {dep for dep in stages["settings"]["deps"] if dep.endswith("params.yaml")}
    assert "params.yaml" in read
    assert ("../../params.yaml" in read) == ("params" in arguments(stages["settings"]))
    assert content.get("of", study) == study or f"../{content['of']}/params.yaml" in read
    for name, stage in stages.items():
        if name != "settings":
            (file,) = [dep for dep in stage["deps"] if dep.startswith("data/settings/")]
            assert arguments(stage)["settings"] == file
        for item, rows in stage.get("matrix", {}).items():
            plural = f"{item}es" if item.endswith("s") else f"{item}s"
            assert rows == f"${{{plural}}}"
            assert f"${{item.{item}" in arguments(stage)["settings"]
            # The name is a key, a file's name and an argument in quotes.
            rows = [row["name"] if isinstance(row, dict) else row for row in content[plural]]
            assert not [row for row in rows if set('./"') & set(str(row))]


@pytest.mark.parametrize("path", ["params.yaml", "stages/algorithms/params.yaml"])
def test_a_change_by_dvc_is_one_line_of_a_params_file(path, tmp_path):
    """`dvc exp run -S` rewrites the whole file in its own format: long lines break, comments after lists go."""
    copied = tmp_path / "params.yaml"
    copied.write_text((ROOT / path).read_text())
    apply_overrides(str(copied), ["scale=tiny"])
    pairs = zip((ROOT / path).read_text().splitlines(), copied.read_text().splitlines(), strict=True)
    assert [line.split(":")[0] for line, other in pairs if line != other] == ["scale"]

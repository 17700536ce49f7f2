"""Each dvc.yaml says what is true: every file, parameter and path that a stage touches is declared."""

import ast
import json
import re
import shlex
from contextlib import suppress
from typing import get_type_hints

import pytest
import yaml
from by_path import pipeline, read_yaml, script
from checkout import Checkout
from declared import ROOT, missing_and_spare, script_of
from dvc.utils.hydra import apply_overrides
from stated import TREE

from annulus.config.params import SECTION_OF
from annulus.errors import InputError
from annulus.studies.study import MainStudy, OwnStudy

FILES = [ROOT / "dvc.yaml", *sorted(ROOT.glob("stages/*/dvc.yaml"))]
PIPELINES = {path.parent.name if path.parent != ROOT else "main": pipeline(path) for path in FILES}
STUDIES = [name for name in PIPELINES if name != "main"]
STAGES = {f"{name} {stage}": it for name, content in PIPELINES.items() for stage, it in content["stages"].items()}


def arguments(stage: dict) -> dict[str, str]:
    """The command's options, quotes taken off."""
    words = shlex.split(stage["cmd"])[3:]
    return {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}


def names(stage: dict, *kinds: str) -> list[str]:
    """Paths of lists that may hold `path: {options}` entries."""
    entries = [entry for kind in kinds for entry in stage.get(kind, [])]
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


def kind_of(study: str) -> type[OwnStudy]:
    """The study as its settings script reads it."""
    return get_type_hints(script(script_of(PIPELINES[study]["stages"]["settings"])).main)["study"]


def test_a_stage_declares_every_room_that_it_reaches():
    for name, stage in STAGES.items():
        assert missing_and_spare(stage) == ([], []), f"to add to the deps of {name}, and to take out"
    deps = ["stages/knn.py", "src/annulus/evals", "src/annulus/views"]
    missing, spare = missing_and_spare({"cmd": "python stages knn --features x", "deps": deps})
    assert missing == [f"src/annulus/{room}" for room in ("device", "encoders", "files")]
    assert spare == ["src/annulus/views"]


def test_a_stage_declares_every_path_of_its_command_and_one_of_the_main_line_every_parameter_that_it_reads():
    for name, stage in STAGES.items():
        given, declared = arguments(stage), names(stage, "deps", "outs", "metrics", "plots", "params")
        for path in given.values():
            known = path in declared or any(other.startswith(f"{path}/") for other in declared)
            assert path == "params.yaml" or known, (name, path)
        main, place = name.startswith("main "), script_of(stage)
        for paths in re.findall(r"^PATHS = (\[.*\])$", (ROOT / place).read_text(), re.MULTILINE):
            assert sorted(given) == sorted([*ast.literal_eval(paths), *["settings"] * (not main)]), name
        assert not main or getattr(script(place), "READS", []) == stage.get("params", []), name


def test_numbers_are_in_git_and_all_other_outputs_in_the_cache():
    """Tables and curves are `plots`: DVC's run cache leaves out every stage that has an uncached plain output."""
    for name, stage in STAGES.items():
        for entry in stage.get("metrics", []) + stage.get("plots", []):
            ((path, options),) = entry.items()
            assert path.startswith("metrics/"), name
            large = path.endswith("confusion.csv") or path in ("metrics/main/neighbours.png", "metrics/main/map.svg")
            assert (options.get("cache") is False) != large, "rows and pictures of images stay out of git"
            assert not options.get("persist"), "the run cache leaves out a stage that has a persistent output"
        assert all(path.startswith("data/") for path in stage.get("outs", [])), name


def test_what_dvc_counts_as_metrics_are_the_headline_numbers():
    """All others are `plots`: `dvc metrics diff` and `dvc exp show` fit a screen; no two stages write the same."""
    written = [path for stage in STAGES.values() for path in names(stage, "outs", "metrics", "plots")]
    assert len(written) == len(set(written))
    assert [path for stage in STAGES.values() for path in names(stage, "metrics")] == ["metrics/summary.json"]


def test_a_study_of_another_s_form_has_a_copy_of_its_file():
    """DVC reads no links in a commit: with one of them `dvc metrics diff` and `dvc exp show` tell nothing."""
    texts = {path: path.read_text() for path in FILES}
    assert not [path for path in FILES if path.is_symlink()]
    heads = [text.split("# DVC runs")[0] for text in set(texts.values())]
    assert len(heads) == len(set(heads)), "edit all files of a form alike"


@pytest.mark.slow
def test_dvc_s_own_comparisons_read_all_pipelines_of_a_commit(tmp_path):
    checkout = Checkout(tmp_path, *STUDIES)
    summary = tmp_path / "metrics/summary.json"
    summary.parent.mkdir(exist_ok=True)
    for number in (1.0, 2.5):
        summary.write_text(json.dumps({"knn_top1_percent": number}))
        checkout.commit()
    found = json.loads(checkout.dvc("metrics", "diff", "HEAD~1", "HEAD", "--json"))
    assert found == {"metrics/summary.json": {"knn_top1_percent": {"old": 1.0, "new": 2.5, "diff": 1.5}}}


def test_the_files_stay_as_short_as_a_reviewer_reads():
    assert len((ROOT / "dvc.yaml").read_text().splitlines()) <= 250
    assert len([dep for dep in STAGES["main pretrain"]["deps"] if dep.startswith(("src/", "stages/"))]) <= 13
    for path in (path for study in STUDIES for path in (ROOT / "stages" / study).glob("*.py")):
        assert len(path.read_text().splitlines()) <= 62


@pytest.mark.parametrize("study", STUDIES)
def test_all_parameters_of_a_study_pass_through_its_settings_stage_and_a_matrix_is_a_section_of_its_name(study):
    """The settings stage is the one with `params`; each other depends on a file that it writes, and on no other's."""
    stages = PIPELINES[study]["stages"]
    content = read_yaml(ROOT / "stages" / study / "params.yaml")
    assert [name for name, stage in stages.items() if "params" in stage] == ["settings"]
    assert stages["settings"]["outs"] == [f"data/{study}/settings"]
    own = f"stages/{study}/params.yaml"
    watched = {section for one in stages["settings"]["params"] if own in one for section in one[own]}
    assert own in stages["settings"]["deps"] or watched == content.keys(), "an edit of a section would run nothing"
    for name, stage in stages.items():
        assert stage["wdir"] == "../.."
        if name != "settings":
            (file,) = [dep for dep in stage["deps"] if dep.startswith(f"data/{study}/settings/")]
            assert arguments(stage)["settings"] == file
        for item, rows in stage.get("matrix", {}).items():
            plural = f"{item}es" if item.endswith("s") else f"{item}s"
            assert rows == f"${{{plural}}}"
            assert f"${{item.{item}" in arguments(stage)["settings"]
            # The name is a key, a file's name and an argument in quotes.
            rows = [row["name"] if isinstance(row, dict) else row for row in content[plural]]
            assert not [row for row in rows if set('./"') & set(str(row))]


@pytest.mark.parametrize("study", [name for name in STUDIES if kind_of(name) is MainStudy])
def test_a_study_of_the_main_line_declares_each_choice_of_the_root_that_its_settings_hold(study, tmp_path):
    settings, own = PIPELINES[study]["stages"]["settings"], ROOT / "stages" / study / "params.yaml"
    root = tmp_path / "params.yaml"

    def files(**changes: str) -> dict:
        root.write_text(yaml.safe_dump(TREE | changes), encoding="utf-8")
        return script(script_of(settings)).main(MainStudy(root, own))

    before, held = files(), []
    for selector, section in SECTION_OF.items():
        for choice in TREE[section]:
            with suppress(InputError):  # two choices that do not go together
                if files(**{selector: choice}) != before:
                    held.append(selector)
                    break
    assert held
    assert not set(held) - set(names(settings, "params")), "to add to the params: an edit there would run nothing"


@pytest.mark.parametrize("path", ["params.yaml", "stages/algorithms/params.yaml"])
def test_a_change_by_dvc_is_one_line_of_a_params_file(path, tmp_path):
    """`dvc exp run -S` writes the whole file anew, in a form of its own: long lines break, comments after lists go."""
    copied = tmp_path / "params.yaml"
    copied.write_text((ROOT / path).read_text())
    apply_overrides(str(copied), ["scale=tiny"])
    pairs = zip((ROOT / path).read_text().splitlines(), copied.read_text().splitlines(), strict=True)
    assert [line.split(":")[0] for line, other in pairs if line != other] == ["scale"]

"""A stage fails if its parameters or code were edited while it ran: DVC would record the edit with old numbers."""

import json
from pathlib import Path

import pytest
import yaml
from dvc.utils.serialize import dump_yaml
from stated import TREE

from annulus_lab.pipeline import edited
from annulus_lab.pipeline.provenance import stage_records
from annulus_lab.pipeline.stage import Results, run_resolved, run_stage

READS = ["samplers.${sampler}", "scales.${scale}.pretrain"]
PATHS, ARGV = ["metrics"], ["--metrics", "knn.json"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with parameters, a library of two files, and a script that imports one of them."""
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_text(yaml.safe_dump(TREE | {"sampler": "ring"}), encoding="utf-8")
    Path("settings.json").write_text('{"seeds": [3]}', encoding="utf-8")
    for name in ("read.py", "apart.py"):
        Path(name).write_text("one = 1\n", encoding="utf-8")
    monkeypatch.setattr(edited, "LIBRARY", tmp_path)
    monkeypatch.setattr(edited, "imported_files", lambda script: {script, tmp_path / "read.py"})
    return tmp_path


def run(edit) -> None:
    """Runs a stage that applies `edit` to params.yaml's content."""

    def main(params, paths):
        tree = yaml.safe_load(Path("params.yaml").read_text(encoding="utf-8"))
        edit(tree)
        Path("params.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
        return Results({"k": 1})

    run_stage(main, READS, PATHS, ARGV)


def test_an_edit_of_a_value_that_the_stage_reads_costs_its_results(checkout):
    stated = TREE["samplers"]["ring"]["outer"]
    with pytest.raises(
        SystemExit, match=rf"edited while this stage ran: samplers.ring.outer \({stated} -> 0.5\); dvc.lock would"
    ):
        run(lambda tree: tree["samplers"]["ring"].update(outer=0.5))
    assert not Path("knn.json").exists()


@pytest.mark.parametrize(
    "edit",
    [
        lambda tree: tree["knn"].update(k=3),  # the stage does not read it
        lambda tree: tree.update(sampler="cave"),  # DVC names samplers.ring, as it was chosen when it started
    ],
)
def test_an_edit_of_what_dvc_does_not_name_beside_the_numbers_costs_none(checkout, edit):
    run(edit)
    assert json.loads(Path("knn.json").read_text(encoding="utf-8")) == {"k": 1}


@pytest.mark.parametrize("name", ["read.py", "read.c", "settings.json"])
def test_an_edit_of_the_code_that_ran_costs_the_results_and_one_of_other_code_does_not(checkout, name):
    def main(settings, paths):
        Path(name).write_text('{"seeds": [4]}', encoding="utf-8")
        return Results({"k": 1})

    argv = ["--metrics", "knn.json", "--settings", "settings.json"]
    with pytest.raises(SystemExit, match=f"edited while this stage ran: {name}; dvc.lock"):
        run_resolved(main, PATHS, argv)
    name = "apart.py"
    run_resolved(main, PATHS, argv)
    assert Path("knn.json").exists()


def test_half_an_edit_is_an_edit(checkout, monkeypatch):
    def unread(script):
        raise SyntaxError

    def main(settings, paths):
        Path("read.py").write_text("def", encoding="utf-8")

    monkeypatch.setattr(edited, "imported_files", unread)
    with pytest.raises(SystemExit, match=r"edited while this stage ran: read\.py; dvc"):
        run_resolved(main, PATHS, ["--metrics", "knn.json", "--settings", "settings.json"])


def test_another_choice_than_the_check_has_seen_in_this_run_is_refused_before_any_work(checkout, monkeypatch):
    """DVC's lock would name samplers.ball beside the numbers of the ring."""
    monkeypatch.setenv("DVC_STAGE", "pretrain")
    checked = {"params": {"params.yaml": {"sampler": "ball", "scale": TREE["scale"]}}}
    dump_yaml("dvc.lock", {"schema": "2.0", "stages": {"check": checked}})
    with pytest.raises(
        SystemExit, match="edited while DVC ran: sampler is 'ring', and the run began with 'ball'; run `dvc"
    ):
        run(lambda tree: pytest.fail("it ran"))
    seen = []
    run_stage(lambda params, paths: seen.append(params) or Results({"k": 1}), READS, PATHS, ARGV, tracked=False)
    assert seen, "the check itself begins a run"
    assert stage_records(checkout) == []

"""dvc.yaml says what is true: every file, parameter and path that a stage touches is declared."""

import ast

import pytest
import yaml
from declared import ROOT, missing_and_spare

STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]


def constants(name: str) -> dict[str, list[str]]:
    """The READS and PATHS of a stage's script."""
    tree = ast.parse((ROOT / STAGES[name]["cmd"].split()[1]).read_text())
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    return {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in assigned
        if node.targets[0].id in ("READS", "PATHS")
    }


def names(entries: list) -> list[str]:
    """Paths of a list that may hold `path: {options}` entries."""
    return [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_every_module_that_it_imports(name):
    missing, spare = missing_and_spare(STAGES[name])
    lines = "\n".join(f"    - {path}" for path in missing)
    assert not missing, f"add to the deps of {name} in dvc.yaml:\n{lines}"
    assert not spare, f"{name} no longer imports {spare}; take them out of its deps"


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_every_parameter_that_it_reads(name):
    assert constants(name)["READS"] == STAGES[name].get("params", [])


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_every_path_of_its_command(name):
    stage = STAGES[name]
    words = stage["cmd"].split()[2:]
    given = dict(zip(words[::2], words[1::2], strict=True))
    assert sorted(given) == sorted(f"--{path}" for path in constants(name)["PATHS"])
    declared = {
        *names(stage["deps"]),
        *names(stage.get("outs", []) + stage.get("metrics", []) + stage.get("plots", [])),
    }
    for path in given.values():
        assert path in declared or any(other.startswith(f"{path}/") for other in declared), path


@pytest.mark.parametrize("name", STAGES)
def test_metrics_and_curves_are_in_git_and_all_other_outputs_in_the_cache(name):
    """Curves are `plots`: DVC's run cache leaves out every stage that has an uncached plain output."""
    for entry in STAGES[name].get("metrics", []) + STAGES[name].get("plots", []):
        ((path, options),) = entry.items()
        assert path.startswith("metrics/")
        assert options["cache"] is False
    for path in STAGES[name].get("outs", []):
        assert path.startswith("data/")

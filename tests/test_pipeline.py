"""Each dvc.yaml says what is true: every file, parameter and path that a stage touches is declared."""

import ast
import shlex

import pytest
import yaml
from declared import ROOT, missing_and_spare
from dvc.utils.hydra import apply_overrides

from annulus.config import SECTION_OF
from annulus.trials import READS as RUN_READS

STAGES = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
ROOT_PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
STUDIES = {path.parent.name: yaml.safe_load(path.read_text()) for path in sorted(ROOT.glob("stages/*/dvc.yaml"))}
OF_STUDIES = {f"{study} {name}": (study, name) for study, content in STUDIES.items() for name in content["stages"]}
of_each_study = pytest.mark.parametrize(("study", "name"), OF_STUDIES.values(), ids=OF_STUDIES.keys())


def constants(script: str) -> dict[str, list[str]]:
    """The READS, OWN and PATHS of a stage's script."""
    tree = ast.parse((ROOT / script).read_text())
    found = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="READS" | "OWN" | "PATHS" as name)], value=value):
                found[name] = ast.literal_eval(value)
            case ast.AnnAssign(target=ast.Name(id="READS" | "OWN" | "PATHS" as name), value=value):
                found[name] = ast.literal_eval(value)
    return found


def script_of(stage: dict) -> str:
    return stage["cmd"].split()[1]


def arguments(stage: dict) -> dict[str, str]:
    """The command's options, quotes taken off."""
    words = shlex.split(stage["cmd"])[2:]
    return dict(zip(words[::2], words[1::2], strict=True))


def is_declared(path: str, stage: dict) -> bool:
    declared = names([entry for kind in ("deps", "outs", "metrics", "plots") for entry in stage.get(kind, [])])
    return path in declared or any(other.startswith(f"{path}/") for other in declared)


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
    assert constants(script_of(STAGES[name]))["READS"] == STAGES[name].get("params", [])


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_declares_every_path_of_its_command(name):
    given = arguments(STAGES[name])
    assert sorted(given) == sorted(f"--{path}" for path in constants(script_of(STAGES[name]))["PATHS"])
    for path in given.values():
        assert is_declared(path, STAGES[name]), path


@pytest.mark.parametrize(
    "stage",
    [*STAGES.values(), *(STUDIES[study]["stages"][name] for study, name in OF_STUDIES.values())],
    ids=[*STAGES, *OF_STUDIES],
)
def test_metrics_and_curves_are_in_git_and_all_other_outputs_in_the_cache(stage):
    """Curves are `plots`: DVC's run cache leaves out every stage that has an uncached plain output."""
    for entry in stage.get("metrics", []) + stage.get("plots", []):
        ((path, options),) = entry.items()
        assert path.startswith("metrics/")
        assert options["cache"] is False
    for path in stage.get("outs", []):
        assert path.startswith("data/")


# --- studies ------------------------------------------------------------------------------------------


def test_both_studies_are_there():
    assert set(STUDIES) >= {"algorithms", "negatives"}


@of_each_study
def test_a_study_s_stage_declares_every_module_that_it_imports(study, name):
    missing, spare = missing_and_spare(STUDIES[study]["stages"][name])
    lines = "\n".join(f"    - {path}" for path in missing)
    assert not missing, f"add to the deps of {name} in stages/{study}/dvc.yaml:\n{lines}"
    assert not spare, f"{study}: {name} no longer imports {spare}; take them out of its deps"


@of_each_study
def test_a_study_s_stage_declares_what_it_reads_of_the_root_and_of_its_own(study, name):
    stage = STUDIES[study]["stages"][name]
    found = constants(script_of(stage))
    own = {f"stages/{study}/params.yaml": found["OWN"]}
    assert stage["params"] == [*found["READS"], own]


@of_each_study
def test_a_study_s_stage_declares_every_path_of_its_command(study, name):
    """Beside its paths it takes the study's own params.yaml, and what one stage of a matrix is about."""
    stage = STUDIES[study]["stages"][name]
    assert stage["wdir"] == "../.."
    given = arguments(stage)
    assert given.pop("--study") == f"stages/{study}/params.yaml"
    for item, rows in stage.get("matrix", {}).items():
        assert given.pop(f"--{item}") == f"${{item.{item}}}"
        assert rows == f"${{{item}s}}", "a matrix goes over the section of the study that it is named after"
        assert f"{item}s.${{item.{item}}}" in constants(script_of(stage))["OWN"]
    assert sorted(given) == sorted(f"--{path}" for path in constants(script_of(stage))["PATHS"])
    for path in given.values():
        assert is_declared(path, stage), path
        assert path.startswith((f"data/{study}/", f"metrics/{study}/"))


@of_each_study
def test_a_study_s_reads_are_sections_of_the_root_s_and_cover_what_its_runs_read(study, name):
    """A row may choose any of them, so a stage that trains depends on whole sections; the selectors are the study's."""
    stage = STUDIES[study]["stages"][name]
    reads = constants(script_of(stage))["READS"]
    assert set(reads) <= set(ROOT_PARAMS) - set(SECTION_OF) - {"seed"}
    if "src/annulus/trials.py" in stage["deps"]:
        assert set(reads) >= {read.split(".")[0] for read in RUN_READS} - {"seed"}
        assert {"scale", "seeds", "defaults", "scales"} < set(constants(script_of(stage))["OWN"])


def test_no_two_stages_write_the_same():
    written = [
        path
        for content in [*STUDIES.values(), {"stages": STAGES}]
        for stage in content["stages"].values()
        for path in names(stage.get("outs", []) + stage.get("metrics", []) + stage.get("plots", []))
    ]
    assert len(written) == len(set(written))


@pytest.mark.parametrize("study", STUDIES)
def test_names_of_rows_and_parts_are_no_deeper_keys_and_no_folders(study):
    """DVC reads a dot in `rows.NAME` as a deeper key; NAME is a file's name too."""
    content = yaml.safe_load((ROOT / "stages" / study / "params.yaml").read_text())
    for stage in STUDIES[study]["stages"].values():
        for item in stage.get("matrix", {}):
            assert content[f"{item}s"]
            assert not [name for name in content[f"{item}s"] if "." in name or "/" in name or '"' in name]


@pytest.mark.parametrize("path", ["params.yaml", "stages/algorithms/params.yaml"])
def test_a_change_by_dvc_is_one_line_of_a_params_file(path, tmp_path):
    """`dvc exp run -S` writes the whole file anew, in a form of its own: long lines break, comments after lists go."""
    copied = tmp_path / "params.yaml"
    copied.write_text((ROOT / path).read_text())
    apply_overrides(str(copied), ["scale=tiny"])
    before, after = (file.read_text().splitlines() for file in (ROOT / path, copied))
    assert len(before) == len(after)
    assert [line.split(":")[0] for line, other in zip(before, after, strict=True) if line != other] == ["scale"]

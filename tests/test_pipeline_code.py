"""The code of a computation is found in the source: the same for every process, without what it does not reach."""

import sys

import pytest
from by_path import ROOT

from annulus.errors import InputError
from annulus.pipeline.code import hash_code
from annulus.trials.runs import hash_trial


def test_code_is_a_file_and_what_computes_of_what_it_imports_wherever_it_lies(tmp_path):
    imports = "from annulus.bounds import la\nfrom annulus.pipeline import checkpoint, stage\n"
    (tmp_path / "stage.py").write_text(imports)
    code = hash_code(tmp_path / "stage.py")
    rooms = {name.partition("/")[0] for name in code}
    assert rooms == {"script", "bounds", "compute", "files"}
    assert "bounds/partition.py" not in code, "it does not import that one"
    (tmp_path / "another.py").write_text(imports)
    assert hash_code(tmp_path / "another.py") == code
    (tmp_path / "another.py").write_text(f"{imports}a = 1\n")
    assert {name for name, digest in hash_code(tmp_path / "another.py").items() if digest != code[name]} == {"script"}
    with pytest.raises(InputError, match=r"cannot read .*none\.py: No such file .*; get the repository's own version"):
        hash_code(tmp_path / "none.py")


def test_what_happens_to_be_imported_does_not_count():
    """A sweep's process and a stage's process have imported different modules."""
    import annulus.report.claims  # noqa: F401

    assert "annulus.report.claims" in sys.modules
    rooms = {name.partition("/")[0] for name in hash_trial()}
    stage = (ROOT / "stages/algorithms/dvc.yaml").read_text()
    for room in rooms:
        assert f"- src/annulus/{room}\n" in stage, "what a run depends on, its stage declares"
    assert {"training", "methods", "views", "evals"} <= rooms
    assert not {"report", "estimators", "intervals.py", "datasets"} & rooms
    assert not {"trials/outcomes.py", "trials/papers.py"} & hash_trial().keys(), "tables of finished runs"

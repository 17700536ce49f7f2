"""The code of a computation is found in the source: the same for every process, without what it does not reach."""

import ast
import re
import sys

import pytest
from by_path import ROOT
from test_studies_runs import variant

from annulus.errors import InputError
from annulus.methods import METHODS
from annulus.running.code import CHOICES, _files_of, _imported_by, hash_code, is_docstring
from annulus.studies import runs
from annulus.studies.runs import TrialCode, hash_trial


def test_code_is_a_file_and_what_computes_of_what_it_imports_wherever_it_lies(tmp_path):
    imports = (
        "from annulus.bounds import la\nfrom annulus.running import checkpoint\nfrom annulus.pipeline import stage\n"
    )
    (tmp_path / "stage.py").write_text(imports)
    code = hash_code(tmp_path / "stage.py")
    rooms = {name.partition("/")[0] for name in code}
    assert rooms == {"script", "bounds", "device", "files"}
    assert "device/space.py" not in code, "it does not import that one"
    (tmp_path / "another.py").write_text(imports)
    assert hash_code(tmp_path / "another.py") == code
    (tmp_path / "another.py").write_text(f"{imports}a = 1\n")
    assert {name for name, digest in hash_code(tmp_path / "another.py").items() if digest != code[name]} == {"script"}
    for suffix in ("c", "cpp", "cu", "h"):
        (tmp_path / f"another.{suffix}").write_text("int a = 1;\n")
        before = hash_code(tmp_path / "another.py")
        (tmp_path / f"another.{suffix}").write_text("int a = 2;\n")
        assert hash_code(tmp_path / "another.py")["script"] != before["script"], "what stands beside it is its part"
    with pytest.raises(InputError, match=r"cannot read .*none\.py: No such file .*; get the repository's own version"):
        hash_code(tmp_path / "none.py")


FORMS = """import torch, annulus.negatives.ranks, annulus.views.crop
from annulus import negatives as n, errors  # both (of them)
def lazily():
    import annulus.evals.headlines as h
    from annulus.evals import (
        knn,  # one (of two)
        linear as probe,
    )
if TYPE_CHECKING:
    from annulus.evals import segmentation
"""


def test_imports_and_docstrings_are_those_of_the_syntax_tree(tmp_path):
    """In every file here, and in all forms of a statement."""
    (tmp_path / "forms.py").write_text(FORMS)
    for file in [tmp_path / "forms.py", *(ROOT / "src").rglob("*.py"), *(ROOT / "stages").rglob("*.py")]:
        tree, names = ast.parse(file.read_bytes()), []
        for node in tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []  # never runs
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        found, plain = set(_imported_by(file)), {path for name in names for path in _files_of(name)}
        assert plain <= found, file
        defined = "|".join(name.rpartition(".")[2] for name in names)
        taken = rf"^(?:def |class )?(?:{defined}|InputError)\b"  # by dots: annulus.InputError
        assert all(re.search(taken, path.read_text(), re.MULTILINE) for path in found - plain), "defines such a name"
        only = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body)
        assert is_docstring(file) == only, file
    expected = {"negatives/ranks", "views/crop", "errors", "evals/headlines", "evals/knn", "evals/linear"}
    expected |= {"__init__", *(f"{room}/__init__" for room in ("negatives", "views", "evals"))}
    found = {path.relative_to(ROOT / "src/annulus") for path in _imported_by(tmp_path / "forms.py")}
    assert {str(path.with_suffix("")) for path in found} == expected


@pytest.mark.parametrize("package", CHOICES)
def test_a_package_of_choices_only_imports_names_and_lists_them(package):
    """Else a run would not see an edit of it."""
    for statement in ast.parse(CHOICES[package].read_bytes()).body[1:]:
        if isinstance(statement, ast.ImportFrom):
            assert statement.module.startswith(f"{package}."), "and from its own files"
        else:
            assert isinstance(statement, ast.Assign), ast.unparse(statement)
            of = (ast.Name, ast.Constant, ast.List, ast.Dict, ast.Load, ast.Store)
            assert all(
                isinstance(node, of) for value in [*statement.targets, statement.value] for node in ast.walk(value)
            )


def test_of_what_can_be_chosen_a_run_s_code_is_what_it_chose_with_all_that_is_imported(tmp_path):
    every, code = hash_trial(), TrialCode()
    expected = {
        (): {"methods/ir.py", "negatives/samplers.py", "bounds/infonce.py"},
        ("bound", "mlcpc"): {"bounds/alpha.py", "bounds/infonce.py"},
        ("bound", "binary-nce"): {"bounds/binary_nce.py", "bounds/partition.py"},
        ("method", "pirl"): {"methods/pirl.py", "methods/jigsaw_branch.py", "methods/ir.py", "views/jigsaw.py"},
        ("method", "moco"): {"methods/moco.py", "methods/keys.py", "encoders/shuffled_batchnorm.py"},
    }
    found = {change: code.of(variant(0, dict([change] if change else []))) for change in expected}
    for change, files in expected.items():
        assert files <= found[change].keys()
        assert found[change].items() <= every.items()
        assert {"training/loop.py", "methods/contrast.py", "negatives/by_rank.py"} <= found[change].keys()
        assert not {f"{room}/__init__.py" for room in ("bounds", "methods", "negatives")} & found[change].keys()
    for method in METHODS:  # the class of the settings, and the method's own
        run = variant(0, {"method": method}).run
        for kind in (type(run.method), run.method.method):
            file = f"{kind.__module__.removeprefix('annulus.').replace('.', '/')}.py"
            assert file in code.of(variant(0, {"method": method}))
    assert not {"bounds/la.py", "methods/moco.py", "methods/pirl.py", "negatives/by_weight.py"} & found[()].keys()
    assert set().union(*found.values()) < every.keys()
    (tmp_path / "whole.py").write_text("from annulus import bounds\nfrom annulus.negatives import SAMPLERS, cave\n")
    whole = hash_code(tmp_path / "whole.py", [])
    assert {"bounds/__init__.py", "bounds/la.py", "negatives/__init__.py", "negatives/by_weight.py"} <= whole.keys()
    (tmp_path / "one.py").write_text("from annulus.negatives import cave, own\n")
    one = {name for name in hash_code(tmp_path / "one.py", []) if name.startswith("negatives/")}
    assert {"negatives/by_cluster.py", "negatives/own.py"} <= one
    assert not {"negatives/__init__.py", "negatives/samplers.py"} & one


def test_a_run_s_code_has_all_five_choices_and_is_read_once(monkeypatch):
    """Each may be of one's own, in a file that nothing else imports; an edit while runs wait is too late."""
    asked = []
    monkeypatch.setattr(runs, "hash_code", lambda file, chosen: asked.append(chosen) or {"edit": str(len(asked))})
    code, run = TrialCode(), variant(0, {"sampler": "ring", "anneal": "step", "neighbours": "s"})
    assert [code.of(run), code.of(run)] == [{"edit": "1"}, {"edit": "1"}]
    chosen = run.run
    for choice in (chosen.method, chosen.bound, chosen.sampler, chosen.neighbours, chosen.annealing):
        assert type(choice) in asked[0]


DOTS = """import annulus as lab

class Own(lab.negatives.Ring):
    def draw(self, scores, own, k, generator, progress=1.0, clusters=None):
        return lab.Selection(lab.negatives.draw_weighted(scores, own, k, generator).index)
"""
TAKEN = {
    DOTS: ({"samplers", "selection", "by_weight"}, {"__init__", "neighbours", "annealing"}),
    "import annulus\ninner = annulus.negatives.by_cluster.cave": ({"by_cluster"}, {"__init__", "samplers"}),
    "import annulus.bounds\nannulus.Selection": ({"selection"}, {"__init__", "by_weight"}),
    "from annulus import Selection as S": ({"selection"}, {"__init__", "by_weight"}),
    "import annulus\nroom = annulus.negatives\nroom.cave": ({"__init__", "by_cluster", "by_weight"}, set()),
}


@pytest.mark.parametrize(("source", "of"), TAKEN.items())
def test_names_that_a_file_takes_by_dots_or_that_are_imported_when_asked_for_have_their_files(tmp_path, source, of):
    """As a sampler or bound of one's own takes them, which follows the examples in `help`."""
    (tmp_path / "own.py").write_text(source)
    reached, others = of
    found = {name for name in hash_code(tmp_path / "own.py", []) if name.startswith("negatives/")}
    assert {f"negatives/{name}.py" for name in reached} <= found
    assert not {f"negatives/{name}.py" for name in others} & found


def test_a_relative_import_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "own.py").write_text("import torch\nfrom .samplers import Sampler\n")
    with pytest.raises(InputError, match=r"own\.py, line 2: from \.samplers import Sampler is relative .* whole name"):
        hash_code(tmp_path / "own.py")


def test_what_happens_to_be_imported_does_not_count():
    """A sweep's process and a stage's process have imported different modules."""
    import annulus.report.claims  # noqa: F401

    assert "annulus.report.claims" in sys.modules
    rooms = {name.partition("/")[0] for name in hash_trial()}
    stage = (ROOT / "stages/algorithms/dvc.yaml").read_text()
    shared = {name for name in hash_trial() if name.startswith("studies/")}
    for room in rooms - {"studies"} | shared:
        assert f"- src/annulus/{room}\n" in stage, "what a run depends on, its stage declares"
    assert {"training", "methods", "views", "evals"} <= rooms
    assert not {"report", "datasets"} & rooms
    assert not {"studies/outcomes.py", "studies/papers.py", "evals/intervals.py"} & hash_trial().keys(), "of tables"

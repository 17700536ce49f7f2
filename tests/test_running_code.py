"""A computation's code is read from the source: the same in every process, without files that it does not reach."""

import ast
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from by_path import ROOT
from test_studies_runs import variant

import annulus
from annulus.errors import InputError
from annulus.methods import METHODS
from annulus.running import sources
from annulus.running.code import LIBRARY, OURS, _files_of, _imported_by, hash_code, is_docstring
from annulus.running.sources import Sources, read_source
from annulus_lab.report.public_page import ROOMS
from annulus_lab.studies.shared import runs
from annulus_lab.studies.shared.runs import TrialCode, hash_trial


def test_code_is_a_file_and_what_computes_of_what_it_imports_wherever_it_lies(tmp_path):
    imports = "from annulus.bounds import la\nfrom annulus.running import checkpoint\n"
    imports += "from annulus_lab.pipeline import stage\n"
    (tmp_path / "stage.py").write_text(imports)
    code = hash_code(tmp_path / "stage.py")
    rooms = {"/".join(name.split("/")[:2]) for name in code}
    assert rooms == {"script", "annulus/bounds", "annulus/device", "annulus/files"}
    assert "annulus/device/memory_check.py" not in code, "it does not import that one"
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


SOURCE = '''"""A module."""
import math  # of Python


def area(radius):
    """Square metres."""
    # pi is enough
    text = """two

    # lines"""
    return math.pi * radius**2, text, "#"
'''
SAME = '''import math
def area(radius):
    text = """two

    # lines"""

    return math.pi * radius**2, text, "#"  # of a circle
'''


def test_comments_docstrings_and_blank_lines_do_not_count_and_all_else_does():
    assert read_source(SAME.encode()).statements == read_source(SOURCE.encode()).statements
    others = {
        "**2": "**3",
        '"""two\n\n': '"""two\n',
        '"#"': '"# of"',
        "# lines": "# rows",
        "radius": "side",
        "    r": "   r",
    }
    for old, new in others.items():
        assert old in SAME
        with suppress(SyntaxError):
            assert read_source(SAME.replace(old, new).encode()).statements != read_source(SAME.encode()).statements, old
    assert read_source(b'"""Only this."""\n# and that\n').statements == ""


def test_what_was_read_of_a_file_is_kept_for_the_next_process_and_a_damaged_record_is_read_anew(tmp_path, monkeypatch):
    file, content = tmp_path / "of/sources.json", SOURCE.encode()
    first = Sources(file)
    first.read(content)
    first.keep()
    monkeypatch.setattr(sources, "read_source", lambda content: pytest.fail("read again"))
    assert Sources(file).read(content) == first.read(content)
    monkeypatch.undo()
    for damaged in ("", "[]", '{"reader": 3}', file.read_text().replace('"reader": "', '"reader": "0')):
        file.write_text(damaged)
        assert Sources(file).known == {}
        assert Sources(file).read(content) == first.read(content)
    file.unlink()
    file.mkdir()
    unwritten = Sources(file)
    unwritten.read(content)
    unwritten.keep()


OUR_FILES = [file for folder in ("src", "stages") for file in sorted((ROOT / folder).rglob("*.py"))]
FORMS = """import torch, annulus.negatives.ranks as ranks
from annulus import files as f, errors  # both (of them)
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
    """The test reads every file here and all forms of an import statement."""
    (tmp_path / "forms.py").write_text(FORMS)
    for file in [tmp_path / "forms.py", *OUR_FILES]:
        tree, names = ast.parse(file.read_bytes()), []
        for node in tree.body:
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                node.body = []  # never runs
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        paths, plain = set(_imported_by(file)), {path for name in names for path in _files_of(name)}
        assert {path for path in paths if path.suffix == ".py"} == plain, file
        assert {path.with_suffix(".py") for path in paths} == plain, "each table of names stands beside its package"
        only = all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in tree.body)
        assert is_docstring(file) == only, file
    expected = {"negatives/ranks", "errors", "evals/headlines", "evals/knn", "evals/linear"}
    expected |= {"__init__", *(f"{room}/__init__" for room in ("negatives", "files", "evals"))}
    paths = {path.relative_to(LIBRARY) for path in _imported_by(tmp_path / "forms.py")}
    assert {str(path.with_suffix("")) for path in paths} == expected
    chosen = {path.relative_to(LIBRARY) for path in _imported_by(tmp_path / "forms.py", chosen=True)}
    assert {str(path.with_suffix("")) for path in chosen} == expected - {
        "__init__",
        "negatives/__init__",
        "evals/__init__",
    }


def reexports(file: Path) -> list[str]:
    """Names that a file imports from a package although another file defines them."""
    imports = []
    for node in ast.walk(ast.parse(file.read_bytes())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        if isinstance(node, ast.ImportFrom):
            last = {name: _files_of(f"{node.module}.{name}")[-1:] for name in names}
            imports += [
                f"{node.module}.{name}"
                for name, files in last.items()
                for package in files
                if (package.stem, _files_of(node.module)[-1:]) == ("__init__", files)
                and not re.search(rf"^{name} = ", package.read_text(), re.M)
            ]
        else:
            imports += [name for name in names if name in ("annulus", "annulus_lab")]
    return imports


# The version of the command, and the page of all public names.
PACKAGE_IMPORTS = {"src/annulus/__main__.py": ["annulus"], "src/annulus_lab/report/public_page.py": ["annulus"]}


def test_our_own_code_imports_a_name_from_the_file_that_defines_it(tmp_path):
    """Otherwise a run would depend on all public names of a package: on moco.py while ir is selected."""
    imports = {file.relative_to(ROOT).as_posix(): reexports(file) for file in OUR_FILES if file.name != "__init__.py"}
    assert {file: names for file, names in imports.items() if names} == PACKAGE_IMPORTS
    wrong = "from annulus.bounds import BOUNDS, InfoNCE, la\nimport annulus\nfrom annulus import MoCo, errors\n"
    (tmp_path / "wrong.py").write_text(f"{wrong}import annulus.bounds.la\n")
    assert reexports(tmp_path / "wrong.py") == ["annulus.bounds.InfoNCE", "annulus", "annulus.MoCo"]


PACKAGES = sorted(path for house in OURS for path in house.rglob("__init__.py") if path.parent not in OURS)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.parent.name)
def test_a_package_only_names_what_its_files_define(package):
    """Otherwise a run would not see an edit of the package."""
    name = ".".join(package.parent.relative_to(LIBRARY.parent).parts)
    for statement in ast.parse(package.read_bytes()).body[1:]:
        if isinstance(statement, ast.ImportFrom):
            assert statement.module.startswith(f"{name}.") or statement.module in ("annulus.late", "annulus.errors")
        elif isinstance(statement, ast.Expr):
            assert ast.unparse(statement).startswith("require(__name__, None, ")
        elif ast.unparse(statement) != "__all__, __getattr__, __dir__ = late(__name__)":
            assert isinstance(statement, ast.Assign), ast.unparse(statement)
            allowed = (ast.Name, ast.Constant, ast.List, ast.Dict, ast.Load, ast.Store)
            assert all(
                isinstance(node, allowed) for value in [*statement.targets, statement.value] for node in ast.walk(value)
            )


def test_of_what_can_be_chosen_a_run_s_code_is_what_it_chose_with_all_that_is_imported(tmp_path):
    every, code = hash_trial(), TrialCode()
    expected = {
        (): {"annulus/methods/ir.py", "annulus/negatives/samplers.py", "annulus/bounds/infonce.py"},
        ("bound", "mlcpc"): {"annulus/bounds/alpha.py", "annulus/bounds/infonce.py"},
        ("bound", "binary-nce"): {"annulus/bounds/binary_nce.py", "annulus/bounds/partition.py"},
        ("method", "pirl"): {
            "annulus/methods/pirl.py",
            "annulus/methods/jigsaw_branch.py",
            "annulus/methods/ir.py",
            "annulus/views/jigsaw.py",
        },
        ("method", "moco"): {
            "annulus/methods/moco.py",
            "annulus/methods/keys.py",
            "annulus/encoders/shuffled_batchnorm.py",
        },
    }
    hashes = {change: code.hashes(variant(0, dict([change] if change else []))) for change in expected}
    for change, files in expected.items():
        assert files <= hashes[change].keys()
        assert hashes[change].items() <= every.items()
        assert {"annulus/training/loop.py", "annulus/methods/contrast.py", "annulus/negatives/by_rank.py"} <= hashes[
            change
        ].keys()
        assert (
            not {f"annulus/{room}/__init__.py" for room in ("bounds", "methods", "negatives")} & hashes[change].keys()
        )
    for method in METHODS:  # the class of the settings, and the method's own
        run = variant(0, {"method": method}).run
        for kind in (type(run.method), run.method.method):
            file = f"{kind.__module__.replace('.', '/')}.py"
            assert file in code.hashes(variant(0, {"method": method}))
    assert (
        not {
            "annulus/bounds/la.py",
            "annulus/methods/moco.py",
            "annulus/methods/pirl.py",
            "annulus/negatives/by_weight.py",
        }
        & hashes[()].keys()
    )
    assert set().union(*hashes.values()) < every.keys()
    (tmp_path / "whole.py").write_text("from annulus import bounds\nfrom annulus.negatives import SAMPLERS, cave\n")
    whole = hash_code(tmp_path / "whole.py", [])
    assert {
        "annulus/bounds/__init__.py",
        "annulus/bounds/la.py",
        "annulus/negatives/__init__.py",
        "annulus/negatives/by_weight.py",
    } <= whole.keys()
    (tmp_path / "one.py").write_text(
        "from annulus.negatives import by_cluster\nfrom annulus.negatives.own import Own\n"
    )
    one = {name for name in hash_code(tmp_path / "one.py", []) if name.startswith("annulus/negatives/")}
    assert {"annulus/negatives/by_cluster.py", "annulus/negatives/own.py"} <= one
    assert not {"annulus/negatives/__init__.py", "annulus/negatives/samplers.py"} & one


def test_a_run_s_code_has_all_five_choices_and_is_read_once(monkeypatch):
    """Each may be a user's own, in a file that nothing else imports. An edit while runs wait is not read."""
    calls = []
    monkeypatch.setattr(runs, "hash_code", lambda file, chosen: calls.append(chosen) or {"edit": str(len(calls))})
    code, run = TrialCode(), variant(0, {"sampler": "ring", "anneal": "step", "neighbours": "s"})
    assert [code.hashes(run), code.hashes(run)] == [{"edit": "1"}, {"edit": "1"}]
    chosen = run.run
    for choice in (chosen.method, chosen.bound, chosen.sampler, chosen.neighbours, chosen.annealing):
        assert type(choice) in calls[0]


DOTS = """import annulus as lab

class Own(lab.negatives.Ring):
    def draw(self, scores, own, k, generator, progress=1.0, clusters=None):
        return lab.Selection(lab.negatives.draw_weighted(scores, own, k, generator).index)
"""
EVERY = {"negatives/samplers", "negatives/selection", "negatives/by_weight", "bounds/la", "methods/moco", "evals/knn"}
TAKEN = {
    DOTS: (EVERY, set()),
    "import annulus\ninner = annulus.negatives.by_cluster.cave": (EVERY, set()),
    "import annulus.bounds.la\nannulus.Selection": (EVERY, set()),
    "from annulus import Selection as S": (EVERY, set()),
    "from annulus import negatives\nnegatives.cave": ({"negatives/by_cluster", "negatives/by_weight"}, {"methods/ir"}),
    "from annulus.evals import search": ({"evals/knn", "evals/linear"}, {"methods/ir", "evals/plane"}),
    "from annulus.negatives.selection import Selection": ({"negatives/selection"}, {"negatives/by_weight"}),
    "import annulus.negatives.selection as s": ({"negatives/selection"}, {"negatives/__init__", "negatives/by_weight"}),
}


@pytest.mark.parametrize(("source", "expected"), TAKEN.items())
def test_a_file_that_imports_a_package_depends_on_all_its_public_names_at_once_or_late(tmp_path, source, expected):
    """A user's own sampler or bound imports the package so, after the examples in `help`."""
    (tmp_path / "own.py").write_text(source)
    reached, others = ({f"annulus/{name}.py" for name in names} for names in expected)
    files = hash_code(tmp_path / "own.py", []).keys()
    assert reached <= files
    assert not others & files


def test_the_file_of_every_public_name_counts_where_a_file_imports_annulus(tmp_path):
    (tmp_path / "own.py").write_text("import annulus\n")
    files = hash_code(tmp_path / "own.py", []).keys()
    for package in (annulus, *(getattr(annulus, room) for room in ROOMS)):
        for name in package.__all__:
            home = getattr(getattr(package, name), "__module__", "annulus.views.sets").replace(".", "/")  # SETS
            assert name in ROOMS or f"{home}.py" in files or home == "annulus/errors", name


def test_a_relative_import_is_refused_with_a_sentence(tmp_path):
    (tmp_path / "own.py").write_text("import torch\nfrom .samplers import Sampler\n")
    with pytest.raises(InputError, match=r"own\.py, line 2: from \.samplers import Sampler is relative .* whole name"):
        hash_code(tmp_path / "own.py")


def test_what_happens_to_be_imported_does_not_count():
    """A sweep's process and a stage's process have imported different modules."""
    import annulus_lab.report.claims  # noqa: F401

    assert "annulus_lab.report.claims" in sys.modules
    rooms = {"/".join(name.split("/")[:2]) for name in hash_trial()}
    stage = (ROOT / "stages/algorithms/dvc.yaml").read_text()
    for room in rooms - {"annulus_lab/studies"} | {"annulus_lab/studies/shared"}:
        assert f"- src/{room}\n" in stage, "what a run depends on, its stage declares"
    assert {f"annulus/{room}" for room in ("training", "methods", "views", "evals")} <= rooms
    assert not {"annulus_lab/report", "annulus/datasets"} & rooms
    table_files = {f"annulus_lab/studies/shared/{name}.py" for name in ("outcomes", "papers")}
    assert not (table_files | {"annulus/evals/intervals.py"}) & hash_trial().keys()

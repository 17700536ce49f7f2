"""Facts in the READMEs and in docs/: links, commands, files, choices and numbers exist; blocks of code run.

A block of shell or Python is run here, or says why not in a comment above it: `<!-- not run: WHY -->`.
"""

import math
import os
import re
import shutil
import subprocess
from importlib.util import find_spec

import pytest
import torch
import warm
from by_path import ROOT, parse_yaml

from annulus.config.params import SECTION_OF
from annulus.errors import InputError
from annulus.report.readme import INSTRUCTION, with_tables

STUDIES = sorted(path.parent.name for path in ROOT.glob("stages/*/dvc.yaml"))
READMES = [
    *(
        "README.md",
        "stages/README.md",
        "data/README.md",
        "metrics/README.md",
        "metrics/RESULTS.md",
        "src/annulus/README.md",
    ),
    *(f"stages/{study}/README.md" for study in STUDIES if (ROOT / f"stages/{study}/README.md").exists()),
]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
TEXTS = [*READMES, *PAGES, "src/annulus/PUBLIC.md"]
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]+) -->\n)?^ *```(?P<language>sh|python)\n(?P<code>.*?)^ *```$", re.M | re.S
)
BLOCKS = [(name, block) for name in TEXTS for block in BLOCK.finditer((ROOT / name).read_text())]
# README's lines of Python are run, and their numbers looked at, by a test of their own.
RUN = [(name, block) for name, block in BLOCKS if not block["why"] and name != "README.md"]


def read(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_to_a_file_or_a_heading(name):
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", read(name))
    for path, _, heading in ((one or other).partition("#") for one, other in links):
        if path.startswith("https://"):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), path
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if heading else []
        known = ["", *(re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings)]
        assert heading in known, (path, heading)


def test_the_choices_are_in_params_yaml_in_its_order():
    params = parse_yaml(read("params.yaml"))
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("README.md"), re.MULTILINE)
    assert len(rows) == 8
    for key, choices in rows:
        shown, there = choices.strip().split(", "), list(params[SECTION_OF[key]])
        assert shown == [choice for choice in there if choice in shown], key


def test_the_lines_of_python_learn_and_print_what_is_true(capsys):
    (lines,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    assert len(lines.splitlines()) <= 17
    torch.manual_seed(0)
    exec(lines, {})
    printed = [
        re.fullmatch(r"InfoNCE ([\d.]+) nats; at chance log\(1 \+ 64\) = ([\d.]+)", line)
        for line in capsys.readouterr().out.splitlines()
    ]
    losses = [float(line[1]) for line in printed]
    assert {float(line[2]) for line in printed} == {round(math.log(1 + 64), 2)}
    assert len(losses) == 10
    assert 0 < losses[-1] < losses[0] / 2


@pytest.mark.parametrize(("name", "block"), RUN, ids=[f"{name}-{number}" for number, (name, _) in enumerate(RUN)])
def test_a_block_runs_where_no_comment_says_why_not(name, block, tmp_path):
    if block["language"] == "python":
        command = [warm.folder() / "python", "-c", block["code"]]
    else:
        command = ["bash", "-euo", "pipefail", "-c", block["code"]]
    program = tmp_path / "annulus"  # of this checkout, as an installed one is on PATH
    program.write_text(f'#!/bin/sh\nexec "{warm.folder()}/python" -m annulus "$@"\n')
    program.chmod(0o755)
    paths = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | paths, capture_output=True, text=True)
    assert done.returncode == 0, f"{name}: {done.stderr}"


def test_a_block_that_is_not_run_says_why_and_names_tests_that_exist():
    reasons = [block["why"] for _, block in BLOCKS if block["why"]]
    assert len(reasons) == sum(len(re.findall(r"^ *<!-- not run: .+ -->$", read(name), re.M)) for name in TEXTS)
    for reason in reasons:
        assert all((ROOT / path).exists() for path in re.findall(r"tests/\w+\.py", reason)), reason
    found = sum(len(re.findall(r"^ *```(?:sh|python)$", read(name), re.M)) for name in TEXTS)
    assert found == len(BLOCKS)


def test_every_command_names_a_target_a_module_or_a_stage_that_exists():
    texts = "\n".join(read(name) for name in TEXTS)
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^|&& )make ([a-z-]+)", texts, re.MULTILINE)) <= targets
    for module in re.findall(r"python -m (annulus[.\w]*)", texts):
        assert find_spec(module), module
    for file, stage in re.findall(r"\b(stages/\w+/dvc\.yaml)(?::(\w+)@?)?", texts.replace("STUDY", STUDIES[0])):
        assert not stage or stage in parse_yaml(read(file))["stages"], (file, stage)


@pytest.mark.parametrize("name", TEXTS)
def test_every_file_that_is_named_exists(name):
    text = read(name)
    paths = re.findall(r"`((?:metrics|src|stages|tests)/[\w./-]+)`", text)
    if name.startswith("metrics/"):
        paths += [
            f"metrics/{path}" for path in re.findall(r"`((?:main|comparisons|benchmarks|figures)/[\w./-]+)`", text)
        ]
    assert [path for path in paths if not re.search("[A-Z]{3}", path) and not (ROOT / path).exists()] == []


def test_the_line_for_merges_settles_every_lock_and_metrics_file(tmp_path):
    """DVC reads no pipeline, the main line's neither, while the lock of any study has conflict marks."""
    [line] = re.findall(
        r"`(git checkout --ours .*?) && dvc repro && git add -A && git commit`", read("stages/README.md")
    )

    def git(*words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path)

    def committed(side):
        for name in ("dvc.lock", "stages/law/dvc.lock", "metrics/law/table.csv"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(side)
        git("add", "-A"), git("commit", "-qm", side)

    git("init", "-qb", "main"), committed("base")
    git("checkout", "-qb", "theirs"), committed("theirs")
    git("checkout", "-q", "main"), committed("ours")
    assert git("merge", "-q", "theirs").returncode, "in conflict"
    subprocess.run(line, shell=True, check=True, cwd=tmp_path)
    assert {path.read_text() for path in tmp_path.rglob("*.*") if path.is_file() and ".git" not in path.parts} == {
        "ours"
    }


def test_every_study_has_a_readme_that_the_list_leads_to_and_its_command():
    listed = re.findall(r"^\| \[\w+\]\((\w+)/README\.md\)", read("stages/README.md"), re.MULTILINE)
    assert sorted(listed) == STUDIES, "a study has a line in the list of stages/README.md"
    for study in STUDIES:
        readme = f"stages/{study}/README.md"
        assert readme in READMES, "write it, with its question and its command"
        assert f"stages/{study}/dvc.yaml" in read(readme)


@pytest.mark.parametrize("name", READMES)
def test_tables_are_made_of_the_files(name):
    text = read(name)
    assert text.count("<!-- table ") == len(INSTRUCTION.findall(text))
    assert with_tables(text, ROOT / "metrics") == text, "run `make tables`"


@pytest.mark.parametrize(
    ("instruction", "complaint"),
    [
        ("absent.csv: a", "absent.csv: No such file"),
        ("here.csv: b = top1_procent", "no column 'top1_procent'"),
        ("here.csv: a; c = 1", "no column 'c'"),
        ("here.csv: a; a = z", "no row is left"),
    ],
)
def test_a_table_of_what_is_not_there_is_refused(tmp_path, instruction, complaint):
    (tmp_path / "here.csv").write_text("a,top1_percent\nx,1.0\n")
    with pytest.raises(InputError, match=complaint):
        with_tables(f"<!-- table {instruction} -->\n", tmp_path)


def test_a_number_stands_with_its_interval_and_a_gain_with_its_sign(tmp_path):
    (tmp_path / "here.csv").write_text(
        "a,top1_percent,top1_interval_percent,gain_percent,gain_interval_percent,bound_nats\n"
        "x,61.83,3.11,0.0,0.0,0.0146\ny,9.96,,-2.25,0.5,-0.001\nz,,,3.0,,\n"
    )
    made = with_tables("<!-- table here.csv: a, top1_percent, gain_percent, bound_nats -->\n| old |\n", tmp_path)
    assert made.splitlines()[3:] == [
        "| x | 61.8 ± 3.1 |  | 0.0146 |",
        "| y | 10.0 | -2.2 ± 0.5 | -0.0010 |",
        "| z |  | +3.0 |  |",
    ]
    rows = "a,verdict,gain_percent,gain_interval_percent\nx,base,0.0,0.0\ny,equal,0.0,0.0\nz,one seed,0.0,\n"
    (tmp_path / "here.csv").write_text(rows)
    made = with_tables("<!-- table here.csv: a, gain_percent -->\n| old |\n", tmp_path)
    assert made.splitlines()[3:] == ["| x |  |", "| y | +0.000 ± 0.000 |", "| z | +0.000 |"], (
        "of a base alone 0 says nothing"
    )


def test_the_comparison_has_the_measured_numbers():
    """README's rows are those of the file; whether its base is the committed main line is asked by .ci/published."""
    (shown,) = re.findall(r"```\n(number .*?)```", read("README.md"), re.DOTALL)
    assert set(shown.splitlines()) <= set(read("metrics/figures/comparison.txt").splitlines())


def test_continuous_integration_refuses_a_comparison_of_another_main_line(tmp_path):
    assert ".ci/published" in read(".ci/run")
    for name in (".ci/published", "metrics/figures/comparison.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    measured = read("metrics/figures/comparison.txt").partition("\nnumber ")[2].splitlines()[1:]
    rows = [line.split()[:2] for line in measured[: measured.index("")]]
    assert len(rows) == 11
    for place, digit in ((None, ""), (0, "1"), (-1, "1")):
        changed = [f"{name},{mean}{digit if row == rows[place or 0] else ''}" for row in rows for name, mean in [row]]
        (tmp_path / "metrics/summary.csv").write_text("\n".join(["number,mean", *changed, ""]))
        done = subprocess.run([tmp_path / ".ci/published"], capture_output=True, text=True)
        assert (done.returncode == 0) == (place is None), done.stderr
    assert "make the comparison anew by its command in metrics/README.md, and mend README.md" in done.stderr

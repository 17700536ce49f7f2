"""Facts in the READMEs and in docs/: links, commands, files, choices and numbers exist; blocks of code run.

Each block of shell or Python runs here, unless a comment above it gives a reason: `<!-- not run: WHY -->`.
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
from added import files
from by_path import ROOT, parse_yaml
from report_root import written

from annulus.errors import InputError
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.report.readme_numbers import INSTRUCTION, NUMBER, pages, with_numbers

STUDIES = sorted(path.parent.name for path in ROOT.glob("stages/*/dvc.yaml"))
READMES = [
    *(
        "README.md",
        "stages/README.md",
        "data/README.md",
        "metrics/README.md",
        "metrics/RESULTS.md",
        "metrics/MAIN.md",
        "metrics/benchmarks/README.md",
        "src/annulus/README.md",
        "src/annulus_lab/README.md",
    ),
    *(f"stages/{study}/README.md" for study in STUDIES if (ROOT / f"stages/{study}/README.md").exists()),
]
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/*.md"))
TEXTS = [*READMES, *PAGES, "src/annulus/PUBLIC.md"]
BLOCK = re.compile(
    r"(?:^ *<!-- not run: (?P<why>[^\n]+) -->\n)?^ *```(?P<language>sh|python)\n(?P<code>.*?)^ *```$", re.M | re.S
)
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
BLOCKS = [(name, block) for name in TEXTS for block in BLOCK.finditer((ROOT / name).read_text())]
MADE = {*files()}  # files that a reader of docs/add.md writes
# A separate test runs README's lines of Python and checks their numbers.
RUN = [(name, block) for name, block in BLOCKS if not block["why"] and name != "README.md"]


def read(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", TEXTS)
def test_every_link_leads_to_a_file_or_a_heading(name):
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", FENCE.sub("", read(name)))
    for path, _, heading in ((one or other).partition("#") for one, other in links):
        if path.startswith("https://"):
            continue
        target = (ROOT / name).parent / path if path else ROOT / name
        assert target.exists(), path
        headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE) if heading else []
        known = ["", *(re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings)]
        assert heading in known, (path, heading)


def test_the_readme_starts_with_three_commands_and_has_a_thousand_words_at_most():
    start = read("README.md").partition("\n## Start\n")[2].partition("\n## ")[0]
    (lines,) = re.findall(r"```sh\n(.*?)```", start, re.DOTALL)
    commands = [line.partition("#")[0].rpartition(";")[2].strip() for line in lines.splitlines()]
    assert commands == ["make repro", "dvc exp run -S sampler=uniform", "make compare BASE=HEAD"]
    visible = re.sub(r"<!--.*?-->", "", read("README.md"))
    assert len(visible.split()) <= 1000


def test_the_choices_are_in_params_yaml_in_its_order():
    params = parse_yaml(read("params.yaml"))
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("README.md"), re.MULTILINE)
    assert len(rows) == 8
    for key, choices in rows:
        names, known = choices.strip().split(", "), list(params[SELECTOR_SECTIONS[key]])
        assert names == [choice for choice in known if choice in names], key


def test_the_lines_of_python_learn_and_print_what_is_true(capsys):
    (lines,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    assert len(lines.splitlines()) <= 17
    outputs = []
    for seed in (1, 2, 3):
        torch.manual_seed(seed)
        exec(lines, {})
        outputs.append(capsys.readouterr().out.splitlines())
    assert outputs[0] == outputs[1] == outputs[2], "a reader's numbers are those of the next reader"
    printed = [re.fullmatch(r"InfoNCE ([\d.]+) nats; at chance log\(1 \+ 64\) = ([\d.]+)", line) for line in outputs[0]]
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
    program = tmp_path / "annulus"  # this checkout's program on PATH, like an installed one
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
    count = sum(len(re.findall(r"^ *```(?:sh|python)$", read(name), re.M)) for name in TEXTS)
    assert count == len(BLOCKS)


def test_every_command_names_a_target_a_module_or_a_stage_that_exists():
    texts = "\n".join(read(name) for name in TEXTS)
    own = {path.split("/")[1] for path in MADE if path.startswith("stages/") and path.count("/") > 1}
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^|&& )make ([a-z-]+)", texts, re.MULTILINE)) <= targets
    for module in re.findall(r"python -m (annulus[.\w]*)", texts):
        assert find_spec(module), module
    named = re.findall(r"make study STUDY=([a-z]\w*)(?: ARGS=(\w+))?", texts)
    assert any(stage for _, stage in named)
    for study, stage in [*named, *re.findall(r"cd stages/([a-z]\w*) && dvc repro(?: (\w+))?", texts)]:
        assert study in {*STUDIES, *own}
        assert not stage or stage in parse_yaml(read(f"stages/{study}/dvc.yaml"))["stages"], (study, stage)


@pytest.mark.parametrize("name", TEXTS)
def test_every_file_that_is_named_exists(name):
    text = read(name)
    paths = re.findall(r"`((?:metrics|src|stages|tests)/[\w./-]+)`", text)
    if name.startswith("metrics/"):
        paths += [
            f"metrics/{path}" for path in re.findall(r"`((?:main|comparisons|benchmarks|figures)/[\w./-]+)`", text)
        ]
    if name.startswith("src/"):
        paths += re.findall(r"`([\w/]+/(?:\w+\.(?:py|c|yaml))?)`", text)
    folders = [ROOT, *([(ROOT / name).parent] if name.startswith(("src/", "stages/")) else [])]  # or its own
    lacking = {path for path in paths if not any((folder / path).exists() for folder in folders)} - MADE
    assert [path for path in lacking if not re.search("[A-Z]{3}", path)] == []


def test_the_line_for_merges_settles_every_lock_and_metrics_file(tmp_path):
    """While the lock of any study has conflict marks, DVC reads no pipeline, not even the main line's."""
    [line] = re.findall(r"`(git checkout --ours .*?) && make check-locks`", read("stages/README.md"))

    def git(*words):
        return subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b", *words], cwd=tmp_path)

    def commit(side):
        for name in ("dvc.lock", "stages/law/dvc.lock", "metrics/main/knn.json", "stages/law/metrics/table.csv"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(side)
        git("add", "-A"), git("commit", "-qm", side)

    git("init", "-qb", "main"), commit("base")
    git("checkout", "-qb", "theirs"), commit("theirs")
    git("checkout", "-q", "main"), commit("ours")
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
        assert re.search(rf"make study STUDY={study}\b", read(readme)), "its command"


@pytest.mark.parametrize("name", READMES)
def test_tables_are_made_of_the_files(name):
    text = read(name)
    assert text.count("<!-- table ") == len(INSTRUCTION.findall(text))
    assert text.count("<!-- number ") == len(NUMBER.findall(text))
    assert ROOT / name in pages(ROOT) or "<!-- table " not in text, "`make tables` writes it"
    assert with_numbers(text, ROOT) == text, "run `make tables`"


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
    written(tmp_path, "here.csv", [{"a": "x", "top1_percent": 1.0}])
    with pytest.raises(InputError, match=complaint):
        with_numbers(f"<!-- table {instruction} -->\n", tmp_path)


def test_both_counts_of_claims_stand_in_the_first_table_of_the_results():
    first = (ROOT / "metrics/RESULTS.md").read_text(encoding="utf-8").partition("<!-- claims -->\n")[2]
    heads = [cell.strip() for cell in first.partition("\n")[0].strip("|").split("|")]
    assert {"held", "no effect", "size refuted", "size refuted, elsewhere"} <= set(heads)
    stale = "| x |\n| --- |\n"
    made = with_numbers(f"<!-- claims -->\n{stale}after\n", ROOT)
    assert made == f"<!-- claims -->\n{first.partition(chr(10) * 2)[0]}\nafter\n"


def test_a_number_within_a_sentence_or_a_row_is_of_one_row(tmp_path):
    rows = [("x", 0.0, ""), ("y", -2.25, 0.5), ("z, late", 3.0, "")]
    written(
        tmp_path, "here.csv", [{"a": a, "gain_percent": gain, "gain_interval_percent": half} for a, gain, half in rows]
    )
    number = "<!-- number here.csv: gain_percent; a = {} -->{}<!-- /number -->"
    text = f"| one | {number.format('y', 'old')} | and {number.format('z, late', '')} |\n"
    made = with_numbers(text, tmp_path)
    assert made == f"| one | {number.format('y', '-2.2 ± 0.5')} | and {number.format('z, late', '+3.0')} |\n"
    assert with_numbers(made, tmp_path) == made
    with pytest.raises(InputError, match="2 rows are left"):
        with_numbers(number.format("y | z, late", "old"), tmp_path)


def test_a_number_over_another_row_is_their_difference_in_pairs_of_a_seed(tmp_path):
    seeds = {"x": (60.0, 62.0, 64.0), "y": (58.0, 61.0, 60.0)}  # differences 2, 1, 4
    rows = [
        {"a": a, "top1_percent": 0.0} | {f"top1_seed{s}_percent": value for s, value in enumerate(values)}
        for a, values in seeds.items()
    ]
    written(tmp_path, "here.csv", rows)
    written(tmp_path, "there.csv", rows[1:])
    written(tmp_path, "others.csv", [{"a": "y", "top1_percent": 0.0, "top1_seed7_percent": 58.0}])
    number = "<!-- number here.csv: top1_percent; a = x; over {}a = y -->{}<!-- /number -->"
    half = 4.303 * ((2 - 7 / 3) ** 2 + (1 - 7 / 3) ** 2 + (4 - 7 / 3) ** 2) ** 0.5 / 6**0.5  # Student's t, 2 degrees
    for file in ("", "there.csv: "):
        assert with_numbers(number.format(file, "old"), tmp_path) == number.format(file, f"+2.3 ± {half:.1f}")
    with pytest.raises(InputError, match=r"same seeds.*seed0.* and top1_seed7_percent"):
        with_numbers(number.format("others.csv: ", "old"), tmp_path)


def test_a_number_stands_with_its_interval_and_a_gain_with_its_sign(tmp_path):
    here = tmp_path / "metrics/here.csv"
    here.parent.mkdir()
    here.write_text(
        "a,top1_percent,top1_interval_percent,gain_percent,gain_interval_percent,bound_nats\n"
        "x,61.83,3.11,0.0,0.0,0.0146\ny,9.96,,-2.25,0.5,-0.001\nz,,,3.0,,\n"
    )
    made = with_numbers("<!-- table here.csv: a, top1_percent, gain_percent, bound_nats -->\n| old |\n", tmp_path)
    assert made.splitlines()[3:] == [
        "| x | 61.8 ± 3.1 |  | 0.0146 |",
        "| y | 10.0 | -2.2 ± 0.5 | -0.0010 |",
        "| z |  | +3.0 |  |",
    ]
    rows = "a,verdict,gain_percent,gain_interval_percent\nx,base,0.0,0.0\ny,equal,0.0,0.0\nz,one seed,0.0,\n"
    here.write_text(rows)
    made = with_numbers("<!-- table here.csv: a, gain_percent -->\n| old |\n", tmp_path)
    assert made.splitlines()[3:] == ["| x |  |", "| y | +0.000 ± 0.000 |", "| z | +0.000 |"], (
        "of a base alone 0 says nothing"
    )


def test_a_gain_is_bold_that_stands_with_all_gains_of_its_column(tmp_path):
    """With Student's t of five seeds, 2.776 for one gain: p is 0.05 at 1 half-width, 0.013 at 1.5 and 0.0067 at 1.8."""
    gains = {
        "base": (0.0, 0.0),
        "far": (1.8, 1.0),
        "near": (-1.5, 1.0),
        "at the end": (1.001, 1.0),
        "one seed": (9, ""),
    }
    rows = [
        {
            "a": a,
            "table": table,
            "seeds": 5,
            "gain_percent": gain,
            "gain_interval_percent": half,
            "paper_percent": place,
        }
        for a, (gain, half) in gains.items()
        for place, table in enumerate("xyz" if a == "far" else "x")
    ]
    instruction = "<!-- table here.csv: a, gain_percent; table = x -->\n"

    def bold(some):
        written(tmp_path, "here.csv", some)
        return [line.split("|")[1].strip() for line in with_numbers(instruction, tmp_path).splitlines() if "**" in line]

    assert bold(rows) == ["far", "near", "at the end"], "of three: 0.0067, 0.013, 0.05 are below 0.05 / 3, / 2, / 1"
    more = [{**rows[-2], "a": f"none {n}", "gain_percent": n / 10} for n in range(7)]
    assert bold([*rows, *more]) == []
    assert bold([{**row, "seeds": 2} for row in rows]) == [], "with one degree of freedom"
    assert "**" not in with_numbers("<!-- number here.csv: gain_percent; a = near -->x<!-- /number -->", tmp_path)


def test_the_comparison_has_the_measured_numbers():
    """README's rows are in the file. .ci/published checks that the file's base is the committed main line."""
    (table,) = re.findall(r"```\n(number .*?)```", read("README.md"), re.DOTALL)
    assert set(table.splitlines()) <= set(read("metrics/figures/comparison.txt").splitlines())


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

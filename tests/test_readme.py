"""What the READMEs say of the repository: links, choices, papers, and the lines of Python, which run."""

import re

import pytest
import yaml
from settings import ROOT

from annulus.config.params import SECTION_OF
from annulus.errors import InputError
from annulus.report.readme import INSTRUCTION, with_tables

READMES = ["README.md", "stages/README.md", "data/README.md", "metrics/README.md", "src/annulus/README.md"]


def read(name):
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", READMES)
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


def test_the_choices_are_those_of_params_yaml():
    params = yaml.safe_load(read("params.yaml"))
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", read("README.md"), re.MULTILINE)
    assert len(rows) == 7
    for key, choices in rows:
        assert choices.strip().split(", ") == list(params[SECTION_OF[key]]), key


def test_the_lines_of_python_run():
    (lines,) = re.findall(r"```python\n(.*?)```", read("README.md"), re.DOTALL)
    found = {}
    exec(lines, found)
    assert len([line for line in lines.splitlines() if line]) == 6
    assert (found["loss"].ndim, found["loss"] > 0) == (0, True)


def test_tables_are_made_of_the_files():
    text = read("metrics/README.md")
    assert text.count("<!-- table ") == len(INSTRUCTION.findall(text)) > 20
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


def test_the_comparison_is_told_as_measured():
    """README's rows are those of the file, and the file's base is the committed main line."""
    measured = read("metrics/figures/comparison.txt").splitlines()
    (shown,) = re.findall(r"```\n(number .*?)```", read("README.md"), re.DOTALL)
    assert set(shown.splitlines()) <= set(measured)
    means = {row.split(",")[0]: row.split(",")[1] for row in read("metrics/summary.csv").splitlines()[1:]}
    base = {line.split()[0]: line.split()[1] for line in measured if line.split()[:1] and line.split()[0] in means}
    assert base == means

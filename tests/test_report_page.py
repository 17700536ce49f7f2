"""The report's content, as HTML and as Markdown: all sections from whatever exists, every text escaped."""

import base64
import hashlib
import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest
import report_root

from annulus.report.__main__ import main
from annulus.report.content import VERDICTS, confusion, gather
from annulus.report.markdown import code, markdown, safe, ticks
from annulus.report.page import html
from annulus.report.papers import ComparedRow, Comparison, load_tables
from annulus.report.tables import MINUS, Table, number, of_comparison

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECTIONS = ["comparison", "pictures", "main", "curves", "diagnostics", "claims", "tables", "figures", "run"]
HOSTILE = '<script>alert("1")</script>|`x`\n[a](javascript:b) *c* & "d" <img src=x onerror=e>'


class Parsed(HTMLParser):
    """A page's start tags and its text, without scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text, self.inside = [], [], None
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside is None:
            self.text.append(data)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("report")
    report_root.everything(root)
    return root


@pytest.fixture(scope="module")
def report(root):
    return gather(root, NOW)


@pytest.fixture(scope="module")
def page(report):
    return html(report)


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    return gather(tmp_path_factory.mktemp("empty"), NOW)


def test_an_empty_folder_gives_every_section_with_the_command_that_fills_it(empty):
    page, text = html(empty), markdown(empty)
    for section in SECTIONS:
        assert f'<section id="{section}">' in page
    assert "metrics/summary.csv is not there" in page
    for command in ("make repro", "dvc repro stages/negatives/dvc.yaml"):
        assert f"<code>{command}</code>" in page
        assert f"`{command}`" in text
    assert 'section id="broken"' not in page
    assert empty.counts == {"not run": len(empty.verdicts)}
    assert all(each.comparison.status == "not run" for paper in empty.papers for each in paper.tables)


def test_numbers_of_every_part_are_in_both_formats(page, report):
    text = markdown(report)
    for words in ("39.70", "0.2966", "22.9 ± 1.2", f"{MINUS}58.3", "8.64", "Computed by: AMD EPYC, AVX2."):
        assert words in page
        assert words in text
    assert page.count("<svg") == text.count("Drawn from") + 2 == len(report.figures + report.curves) + 5


def test_the_comparison_comes_first_with_gains_intervals_and_verdicts(page, report):
    text = markdown(report)
    assert report.gains.told.startswith("Of 1 differences 1 are better, 0 worse and 0 within noise; about 0 would")
    assert [(shown.where, shown.plot.title) for shown in report.gains.figures] == [
        ("ring, Table 1(a)", "Linear probe, gain over IR")
    ]
    assert text.count("| MoCoRing | +0.70 ± 0.50 | better | +0.7 |") == 2
    assert report.cifar10.tables[0].caption.endswith("cpu, 60 epochs, 2 seeds.")
    assert re.findall(r'<section id="(\w+)"', page) == [*SECTIONS, "broken"]
    assert page.index("<svg") < page.index('<section id="pictures">')


def test_the_headline_has_its_interval_and_seeds_and_stages_have_theirs(report):
    (knn, *_) = [[cell.text for cell in row] for row in report.headline.rows]
    assert knn == ["kNN top-1", "39.70", "0.85", "percent", "39.70", "39.70"]
    stage, *_ = report.main
    assert [[cell.text for cell in row] for row in stage.rows] == [
        ["images", "1,000", "", "", "1,000", "1,000"],
        ["top-1", "39.70", "12.71", "percent", "38.70", "40.70"],  # Student's t of 1 degree * 1.414 / 2**0.5
    ]


def test_claims_stand_under_their_paper_the_decided_first(page, report):
    for paper in report.papers:
        assert {verdict.paper for verdict in paper.verdicts} == {paper.key}
        places = [VERDICTS.index(verdict.verdict) for verdict in paper.verdicts]
        assert places == sorted(places)
    assert sum(len(paper.verdicts) for paper in report.papers) == len(report.verdicts)
    shown = re.findall(r'<tr id="claim-([^"]*)"', page)
    assert shown == [verdict.id for paper in report.papers for verdict in paper.verdicts]


def test_every_claim_table_and_verdict_is_named_and_only_tables_that_were_run_are_in_markdown(page, report):
    text = markdown(report)
    assert sum(report.counts.values()) == len(report.verdicts)
    for verdict in report.verdicts:
        assert f'id="claim-{verdict.id}"' in page
        assert text.count(safe(verdict.claim)) >= 1, verdict.id
    for paper in report.papers:
        for each in paper.tables:
            comparison = each.comparison
            assert f'id="table-{comparison.table.id}"' in page
            title = safe(f"{comparison.table.where}: {comparison.table.task}")
            assert (f"**{title}: " in text) == (comparison.status != "not run"), title
            assert (f"  - {title}\n" in text) == (comparison.status == "not run"), title


def test_a_broken_file_is_named_where_it_is_missed_and_at_the_end_and_nothing_else_suffers(tmp_path):
    for part in (report_root.main_line, report_root.negatives_study, report_root.algorithms):
        part(tmp_path)
    (tmp_path / "metrics/main/knn.json").write_text('{"0": {"top1_percent": NaN}}')
    (tmp_path / "metrics/negatives/temperature.csv").write_text("series,value\nIR,0.1\n")
    (tmp_path / "metrics/algorithms/table.csv").write_text("")
    (tmp_path / "metrics/main/linear.json").write_text("{")
    found = gather(tmp_path, NOW)
    assert {fault.name for fault in found.broken} >= {
        "main/knn.json", "main/linear.json", "negatives/temperature.csv", "algorithms/table.csv"}  # fmt: skip
    broken = {figure.plot.name: figure.of.reason for figure in found.figures if figure.of and figure.of.broken}
    assert broken == {"mutualinfo.fig10": "metrics/negatives/temperature.csv: has no column 'nn1_top1_percent'"}
    assert isinstance(found.headline, Table)
    for text in (html(found), markdown(found)):
        assert "Broken" in text
        assert "top1_percent is nan" in text.replace("\\_", "_")
    table = next(each for paper in found.papers for each in paper.tables if each.comparison.table.id == "ring.table1a")
    assert table.comparison.status == "broken"


def test_confusion_is_in_percent_of_the_true_class():
    rows = [{"actual": a, "predicted": p} for a, p in (("b", "b"), ("b", "a"), ("b", "b"), ("b", "b"), ("a", "a"))]
    found = confusion(rows)
    assert [column.title for column in found.columns] == ["true class", "a", "b"]
    assert [[cell.text for cell in row] for row in found.rows] == [["a", "100", "0"], ["b", "25", "75"]]
    with pytest.raises(ValueError, match="has no column 'predicted'"):
        confusion([{"actual": "a"}])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Class, series and file names, parameters and a stage's record, each with markup in it."""
    root = tmp_path_factory.mktemp("hostile")
    report_root.everything(root, classes=("disc", HOSTILE, "star"), series=HOSTILE)
    params = (root / "params.yaml").read_text().replace("dataset: shapes ", "dataset: folder ")
    report_root.params(root, params.replace("root: data/folder", f"root: {json.dumps(HOSTILE)}"))
    (root / "metrics/runs/<b>run & `x`|.json").write_text('{"a<b>_percent": 1.0, "named": "<i>|`"}')
    (root / "stages/a<b>|`").mkdir(parents=True)
    (root / "stages/a<b>|`/params.yaml").write_text('scale: "<u>"\nseeds: ["<u>"]\n')
    (root / ".annulus/runs").mkdir(parents=True)
    run = {"stage": HOSTILE, "started": 0.0, "seconds": 1.0, "processor": HOSTILE, "cores": 2, "gpus": [],
           "torch": None, "commit": None, "experiment": HOSTILE, "files": {}}  # fmt: skip
    (root / ".annulus/runs/a.json").write_text(json.dumps(run))
    return gather(root, NOW)


def test_hostile_names_are_text_in_html(hostile, page):
    found, plain = Parsed(html(hostile)), Parsed(page)
    assert '<script>alert("1")</script>' in "".join(found.text)
    count = [sum(tag == "script" for tag, _ in parsed.tags) for parsed in (found, plain)]
    assert count == [1, 1]
    assert not [attributes for _, attributes in found.tags if any(name.startswith("on") for name in attributes)]
    assert all(a["src"].startswith("data:image/png;base64,") for tag, a in found.tags if tag == "img")
    assert not {"i", "u"} & {tag for tag, _ in found.tags}


def test_hostile_names_are_text_in_markdown(hostile):
    text = markdown(hostile)
    lines = text.splitlines()
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"\\`", "", text))
    assert not re.findall(r"<(\w+)", outside_code)
    assert not re.findall(r"(?<!\\)\]\(", outside_code)
    # Every table keeps its columns: as many unescaped bars in each of its rows as in its head.
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"\|( -{3}:? \|)+", line)]
    assert len(heads) >= 19
    for head in heads:
        bars = lines[head].count("|")
        for line in lines[head - 1 : head + 40]:
            if not line.startswith("|"):
                if line == "":
                    break
                raise AssertionError(f"a row was broken: {line[:80]!r}")
            assert len(re.findall(r"(?<!\\)\|", line)) == bars


def test_markdown_text_is_escaped_makes_no_links_and_calls_nobody():
    for text, shown in {
        "a|b": r"a\|b",
        "`x`": r"\`x\`",
        "a\n# b": r"a \# b",
        "<b>&amp;": "&lt;b&gt;&amp;amp;",
        "*a* _b_ [c](d) ~e~": r"\*a\* \_b\_ \[c\](d) \~e\~",
        "\\|": r"\\\|",
    }.items():
        assert safe(text) == shown
    for text in ("http://", "@someone", "www.a"):
        assert text not in safe(f"{text}.b")
    # Code is code unless it would end early.
    assert [code(text) for text in ("a b", "a`b", "a|b")] == ["`a b`", r"a\`b", r"a\|b"]
    assert ticks("run `make *x*`; or *not*") == r"run `make *x*`; or \*not\*"
    assert ticks("one ` alone") == r"one \` alone"


def test_nothing_is_fetched_and_only_the_page_s_own_script_may_run(page):
    found = Parsed(page)
    policy = next(a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    for tag, attributes in found.tags:
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:")), f"{tag} leaves the page"
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert "@import" not in style
    assert "url(" not in style


def test_numbers_are_shown_for_reading():
    for value, decimals, shown in (
        (39.7, 2, "39.70"),
        (-0.25, None, f"{MINUS}0.2500"),
        (0.000123, 2, f"1.23e{MINUS}4"),
        (1234567.0, None, "1,234,567"),
        (12345678.5, None, "1.23e7"),
        (0.0, None, "0"),
    ):
        assert number(value, decimals) == shown


def compared(*rows):
    table = next(table for table in load_tables() if table.id == "ring.table1a")
    return of_comparison(Comparison(table, list(rows), "run"))


def test_a_paper_s_table_has_its_number_ours_and_the_difference():
    found = compared(
        ComparedRow({"method": "IR"}, None, 81.2, 0.3, 79.64, 0.5, -1.56, "cifar10, paper"),
        ComparedRow({"method": "LA"}, None, 83.9, None),
        ComparedRow({"method": "LA"}, None, 83.9, None),
    )
    assert len(found.rows) == 3, "rows printed twice under one name stay two"
    assert [column.title for column in found.columns] == ["method", "paper", "here", "difference"]
    assert [cell.text for cell in found.rows[0]] == ["IR", "81.2 ± 0.3", "79.6 ± 0.5", f"{MINUS}1.6"]
    assert [cell.text for cell in found.rows[1]] == ["LA", "83.9", "not run", ""]
    assert found.groups == []


def test_the_command_writes_both_files_and_prints_where(tmp_path, capsys):
    report_root.main_line(tmp_path)
    (tmp_path / "stages" / "own").mkdir(parents=True)  # half a character, of what the report shows but does not check
    (tmp_path / "stages" / "own" / "params.yaml").write_text('scale: "\\ud800"\nseeds: [0]\n')
    main(["--root", str(tmp_path)])
    paths = [tmp_path / "data/report" / name for name in ("index.html", "report.md")]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    assert paths[0].read_text().startswith("<!doctype html>")
    assert paths[1].read_text().startswith("# What the papers claim")
    assert "\\ud800" in paths[1].read_text()


@pytest.mark.parametrize(
    ("put", "root", "sentence"),
    [
        (lambda root: (root / "data/report/index.html").mkdir(parents=True), ".", "cannot write .*: Is a directory"),
        (lambda root: None, "nowhere", r"--root .*nowhere is no folder; name the repository's$"),
    ],
    ids=["a folder", "no root"],
)
def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path, put, root, sentence):
    put(tmp_path)
    with pytest.raises(SystemExit, match=f"^ERROR: {sentence}"):
        main(["--root", str(tmp_path / root)])

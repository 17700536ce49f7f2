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
from annulus.report.claims import Verdict
from annulus.report.content import Empty, confusion, gather, shown_numbers
from annulus.report.markdown import code, markdown, safe, ticks
from annulus.report.page import html
from annulus.report.papers import ComparedRow, Comparison, load_tables
from annulus.report.tables import MINUS, Table, decimals_of, named, number, numeric, of_comparison

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECTIONS = ["run", "main", "claims", "tables", "figures", "curves", "diagnostics", "pictures"]
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
    for words in ("metrics/summary.json is not there", "metrics/estimators/gaussians.csv is not there"):
        assert words in page
    for command in ("make repro", "dvc repro stages/negatives/dvc.yaml", "dvc repro stages/estimators/dvc.yaml"):
        assert f"<code>{command}</code>" in page
        assert f"`{command}`" in text
    assert 'section id="broken"' not in page
    assert empty.counts == {"not run": len(empty.verdicts)}
    assert all(each.comparison.status == "not run" for paper in empty.papers for each in paper.tables)


def test_numbers_of_every_part_are_in_both_formats(page, report):
    text = markdown(report)
    for words in ("39.70", "0.2966", "22.9 ± 1.2", f"{MINUS}58.3", "8.64", "30 epochs, 1 seed"):
        assert words in page
        assert words in text
    assert len([figure for figure in [*report.figures, *report.curves] if figure.of]) == 0
    assert page.count("<svg") == text.count("Drawn from") == len(report.figures + report.curves) + 3
    assert page.count("data:image/png") == 2 * (1 + 3) + 1 + 8


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
            assert title in text
            assert (f"**{title}: " in text) == (comparison.status != "not run"), title
            assert (f"  - {title}\n" in text) == (comparison.status == "not run"), title
    for verdict, count in report.counts.items():
        decided = verdict in ("held", "did not hold")
        assert text.count(f"| **{verdict}** |") == (count if decided else 0)
        assert (f"\n- **{verdict}**" in text) != decided
    shared = [line for line in text.splitlines() if line.startswith("- **")]
    assert len(shared) == len(set(shared)), "one reason is said once"


def test_a_broken_file_is_named_where_it_is_missed_and_at_the_end_and_nothing_else_suffers(tmp_path):
    for part in (report_root.main_line, report_root.negatives_study, report_root.algorithms):
        part(tmp_path)
    (tmp_path / "metrics/main/knn.json").write_text('{"top1_percent": NaN}')
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


@pytest.mark.parametrize("content", ["{", '{"a": [1]}', '{"a": 1' + "0" * 400 + "}"], ids=["no JSON", "list", "large"])
def test_a_metrics_file_may_hold_anything(tmp_path, content):
    for name in ("summary.json", "main/diagnostics.json", "runs/a.json", "benchmarks/b.json"):
        (tmp_path / "metrics" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "metrics" / name).write_text(content)
    found = gather(tmp_path, NOW)
    assert isinstance(found.headline, Empty)
    assert found.headline.broken
    assert "Broken files" in html(found)


def test_pictures_that_are_missing_or_broken_say_why(tmp_path):
    report_root.params(tmp_path)
    assert gather(tmp_path, NOW).pictures == Empty("data/main/examples.safetensors is not here", "make repro")
    report_root.pictures(tmp_path)
    (tmp_path / "data/main/examples.safetensors").write_bytes(b"no")
    found = gather(tmp_path, NOW)
    assert found.pictures.broken
    assert "examples.safetensors cannot be read" in html(found)


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
    assert len(heads) >= 20
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


def test_links_within_the_page_lead_somewhere(page):
    found = Parsed(page)
    ids = {attributes["id"] for _, attributes in found.tags if "id" in attributes}
    links = {attributes["href"][1:] for tag, attributes in found.tags if tag == "a"}
    assert links <= ids
    assert len(links) > 20
    assert len(ids) == len([1 for _, attributes in found.tags if "id" in attributes])
    assert len(page.encode()) < 3e6


def test_a_verdict_is_told_by_words_and_a_sign(page):
    badges = re.findall(r'<span class="badge ([\w-]+)">(.) ([^<]*)</span>', page)
    assert {words for _, _, words in badges} <= {"held", "did not hold", "not run at this scale", "not run", "broken"}
    assert len({sign for _, sign, _ in badges}) == len({words for _, _, words in badges}) > 2


def test_numbers_are_shown_for_reading():
    for value, decimals, shown in (
        (39.7, 2, "39.70"),
        (-0.25, None, f"{MINUS}0.2500"),
        (0.000123, None, f"1.23e{MINUS}4"),
        (0.000123, 2, f"1.23e{MINUS}4"),
        (1234567.0, None, "1,234,567"),
        (12345678.5, None, "1.23e7"),
        (0.0, None, "0"),
        (0.0, 2, "0.00"),
        (10.23, None, "10.23"),
        (3.0, 1, "3.0"),
    ):
        assert number(value, decimals) == shown


def test_a_number_s_cell_keeps_the_value_it_sorts_by_and_units_leave_the_names():
    cell = numeric(39.678, 1, 1.25)
    assert (cell.text, cell.value) == ("39.7 ± 1.2", 39.678)
    assert numeric(0.4, 1, sign=True).text == "+0.4"
    assert numeric(None).text == ""
    assert named("knn_top1_percent") == ("kNN top-1", "percent")
    assert named("images") == ("images", "")
    # Decimals are those that the values are printed with.
    assert (decimals_of([64.3, 81.25, None]), decimals_of([64.0], least=1)) == (2, 1)
    assert (decimals_of([0.1, 0.00001]), decimals_of([1 / 3])) == (None, 4)


def compared(*rows, status="run"):
    table = next(table for table in load_tables() if table.id == "ring.table1a")
    return of_comparison(Comparison(table, list(rows), status))


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


def test_columns_of_a_paper_stand_side_by_side_under_their_own_names():
    found = compared(
        ComparedRow({"method": "IR"}, "top1", 81.2, None, 80.2, None, -1.0, "demo"),
        ComparedRow({"method": "IR"}, "top5", 98.9, None, 99.9, None, 1.0, "paper"),
        ComparedRow({"method": "LA", "K": "64"}, "top5", None, None),
    )
    assert found.groups == [("", 2), ("top1", 3), ("top5", 3), ("", 1)]
    assert [cell.text for cell in found.rows[0]] == [
        "IR", "", "81.2", "80.2", f"{MINUS}1.0", "98.9", "99.9", "+1.0", "demo; paper"]  # fmt: skip
    assert [cell.text for cell in found.rows[1]] == ["LA", "64", "", "", "", "not legible", "not run", "", ""]
    assert "differ by row" in found.caption


def test_a_table_that_was_not_run_has_the_paper_s_numbers_alone():
    found = compared(ComparedRow({"method": "IR"}, "top1", 81.2, 0.3), status="not run")
    assert [column.title for column in found.columns] == ["method", "top1"]
    assert [cell.text for cell in found.rows[0]] == ["IR", "81.2 ± 0.3"]


def test_a_claim_s_numbers_are_rounded_alike_and_long_lists_shortened():
    numbers = {"gain": 0.7, "curve": [1.0, 2.25], "long": [float(n) for n in range(20)], "same": [0.5] * 4}
    verdict = Verdict("a", "A.", "ring", [], "held", "gain > 0", numbers, None, None)
    assert shown_numbers(verdict) == [
        ("gain", "0.7"), ("curve", "1.00, 2.25"), ("long", "0, 1, 2, …, 18, 19"),
        ("same", "0.5 (4 times)")]  # fmt: skip


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
        (lambda root: (root / "data").write_text("a file in the way"), ".", r"cannot write .*index\.html"),
        (lambda root: None, "nowhere", r"--root .*nowhere is no folder; name the repository's$"),
    ],
    ids=["a folder", "a file", "no root"],
)
def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path, put, root, sentence):
    put(tmp_path)
    with pytest.raises(SystemExit, match=f"^ERROR: {sentence}"):
        main(["--root", str(tmp_path / root)])

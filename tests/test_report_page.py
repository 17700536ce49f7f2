"""The report's content, as HTML and as Markdown: all sections from the files that exist, every text escaped.

In a browser the page loads without errors and requests, sorts, and fits a phone.
"""

import base64
import hashlib
import itertools
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import report_root
from browser import Browser
from report_root import Parsed

from annulus.diagnostics.maps import short_name
from annulus.errors import InputError
from annulus_lab.compare.escaped import code, safe, ticks
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.verdicts import VERDICTS
from annulus_lab.report.command import main
from annulus_lab.report.page.content import confusion, gather, group_by_paper
from annulus_lab.report.page.html import html
from annulus_lab.report.page.markdown import markdown, unmeasured_tables
from annulus_lab.report.page.sections import Empty
from annulus_lab.report.papers.comparison import ComparedRow, Comparison, load_tables
from annulus_lab.report.papers.tables import MINUS, Column, Table, number, paper_table
from annulus_lab.report.presets.overview import Commands

NOW = datetime(2026, 11, 21, tzinfo=UTC)
SECTIONS = ["gain", "states", "real", "law", "claims", "tables", "comparison", "long", "main", "curves",
            "diagnostics", "pictures", "figures", "run"]  # fmt: skip
SCRIPT = "<script>document.title='pwned'</script>"
HOSTILE = f"{SCRIPT}|`x`\n[a](javascript:b) *c* & 'd' <img src=x onerror=\"document.title='pwned'\">"

pytestmark = pytest.mark.slow


def texts(table):
    """The cells of a table, row by row."""
    return [[cell.text for cell in row] for row in table.rows]


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    """Report of all files, with markup in the names of a class, a series and files, in parameters and in a record."""
    root = tmp_path_factory.mktemp("report")
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


@pytest.fixture(scope="module")
def page(report):
    return html(report)


@pytest.fixture(scope="module")
def text(report):
    return markdown(report)


def test_an_empty_folder_gives_every_section_with_the_command_that_fills_it(tmp_path):
    report_root.pipelines(tmp_path, "negatives")
    empty = gather(tmp_path, NOW)
    page, text = html(empty), markdown(empty)
    assert re.findall(r'<section id="(\w+)"', page) == SECTIONS
    assert "metrics/summary.csv is not there" in page
    assert "<code>make test-all</code> asserts it: <code>tests/" in page
    for command in ("make repro", "make study STUDY=negatives"):
        assert f"<code>{command}</code>" in page
        assert f"`{command}`" in text
    assert "| claim | verdict |" not in text, "no table without a row"
    assert empty.runs is None
    assert "No stage has run on this machine: the numbers are from git." in text
    theorems = empty.counts["asserted by a test"]
    assert empty.counts == {"asserted by a test": theorems, "not run": len(empty.verdicts) - theorems}
    assert all(each.comparison.status == "not run" for paper in empty.papers for each in paper.tables)


def test_a_table_stands_beside_its_commands_and_their_hours(report):
    commands = Commands("infomin.table3/g(RGB)", 4, 1, "at least 2 h of an NVIDIA H200")
    line = "At the paper's scale: 4 commands, 1 row without; the first: at least 2 h of an NVIDIA H200"
    tables = {each.comparison.table.id: each.comparison for paper in report.papers for each in paper.tables}
    papers = group_by_paper(tables.values(), report.verdicts, {"infomin.table3": commands, "ring.table1a": commands})
    unrun = unmeasured_tables(next(paper for paper in papers if paper.key == "infomin"))
    assert re.search(rf"  - Table 3: STL-10 .* backbones\. .*{re.escape(f'{line} (`{commands.line}`).')}\n", unrun)
    page = " ".join(Parsed(html(replace(report, papers=papers))).text)
    assert page.count(line.removeprefix("At the paper's scale: ")) == 2
    assert page.count("annulus preset 'infomin.table3/g(RGB)'") == 2


def test_numbers_of_every_part_are_in_both_formats(page, text, report):
    for words in ("39.70", "0.2966", "22.9 ± 1.2", "+1.20 ± 0.50", "8.64", "5 seeds, AMD EPYC, AVX2."):
        assert words in page
        assert words in text
    further = [part.figure for study in report.further for part in study.parts.values() if part.figure]
    assert further
    figures = [*report.law.figures, *report.figures, *report.curves, *further]
    assert page.count("<svg") == text.count("Drawn from") + 4 == len(figures) + 7


def test_the_page_begins_with_a_sentence_of_size_interval_seeds_and_images_and_its_figure_then_real_images(
    page, text, report
):
    sentence = "Ring negatives gain 1.20 ± 0.50 points of linear-probe accuracy over uniform ones"
    assert report.gain.sentence == sentence
    assert text.startswith(f"# {sentence}\n")
    words = (
        "49.30 % right, 48.10 % after training with uniform negatives: 2 seeds, 1,000 test images of shapes, scale demo"
    )
    assert words in report.gain.details
    assert report.gain.details.endswith(" in pairs. What differs: sampler: uniform → ring.")
    unbroken = sentence.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")
    assert page.index(f"<h1>{unbroken}") < page.index("<svg") < page.index('<section id="real">')
    assert report.real.finding == "On CIFAR-10 MoCoRing gains 0.70 ± 0.50 points against its base"
    assert report.generated.verdict_summary.startswith(
        "Of 1 differences 1 are better, 0 worse and 0 within noise. Holm"
    )
    ((where, title),) = [(figure.where, figure.plot.title) for figure in report.generated.figures]
    assert (where, title) == ("ring, Table 1(a)", "Linear probe, gain over its base")
    assert len(re.findall(r"\| MoCoRing \| \+0\.70 ± 0\.50 \| better \| [^|]* \| \+0\.7 \|", text)) == 3
    assert report.real.tables[0].caption.endswith("demo, 10 epochs, 2 seeds.")
    assert report.long.tables[0].caption.endswith("cpu, 60 epochs, 2 seeds.")
    place = SECTIONS.index("main")
    assert re.findall(r'<section id="(\w+)"', page) == [*SECTIONS[:place], "further", *SECTIONS[place:]]


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"verdict": "worse", "difference": -1.2}, "Ring negatives lose 1.20 ± 0.50 points"),
        ({"verdict": "within noise (could see 0.5)", "difference": -0.2}, "ones: .0.20 ± 0.50 points .*see 0.5"),
        ({"verdict": "one seed: not known", "interval": ""}, "uniform ones: .1.20 points .*, one seed: not known"),
        ({"changed": "bound: cpc -> infonce"}, "The main line's negatives gain 1.20"),
        ({"head": 50.0}, "is of another run than metrics/summary.csv: linear_top1_percent 50.0, not 49.3"),
        ({"seeds": "two"}, "seeds is 'two' in row 1, expected a number"),
    ],
)
def test_the_first_sentence_says_no_more_than_its_numbers(tmp_path, changed, sentence):
    report_root.main_line(tmp_path)
    report_root.over_uniform(tmp_path, **changed)
    report = gather(tmp_path, NOW)
    gain = report.gain
    assert re.search(sentence, gain.reason if isinstance(gain, Empty) else gain.sentence)
    assert isinstance(gain, Empty) is ("head" in changed or "seeds" in changed)
    assert isinstance(gain, Empty) or ("95 % interval" in gain.details) is ("interval" not in changed)
    assert getattr(gain, "broken", False) is ("seeds" in changed), "another processor's run breaks nothing"
    assert "<h1>" in html(report)


def test_the_headline_has_its_interval_and_seeds_and_stages_have_theirs(report):
    assert "<b>run & `x`|" in [run for run, *_ in texts(report.runs)]
    assert texts(report.headline)[0] == ["kNN top-1", "39.70", "0.85", "percent", "39.70", "39.70"]
    assert texts(report.main[0]) == [
        ["images", "1,000", "", "", "1,000", "1,000"],
        ["top-1", "39.70", "12.71", "percent", "38.70", "40.70"],  # Student's t of 1 degree * 1.414 / 2**0.5
    ]


def test_claims_stand_under_their_paper_the_decided_first_and_only_tables_that_were_run_are_in_markdown(
    page, text, report
):
    for paper in report.papers:
        assert {verdict.paper for verdict in paper.verdicts} == {paper.key}
        places = [VERDICTS.index(verdict.verdict) for verdict in paper.verdicts]
        assert places == sorted(places)
        for each in paper.tables:
            comparison = each.comparison
            assert f'id="table-{comparison.table.id}"' in page
            title = safe(f"{comparison.table.where}: {comparison.table.task}")
            assert (f"**{title}: " in text) == (comparison.status != "not run"), title
            assert bool(re.search(rf"  - {re.escape(title)}[.\n]", text)) == (comparison.status == "not run"), title
    figure_papers = [(one.plot.name, verdict.paper) for one in report.figures for verdict in one.verdicts]
    assert figure_papers
    assert {paper == name.partition(".")[0] for name, paper in figure_papers} == {True}
    claim_ids = re.findall(r'<tr id="claim-([^"]*)"', page)
    assert claim_ids == [verdict.id for paper in report.papers for verdict in paper.verdicts]
    assert len(claim_ids) == len(report.verdicts) == sum(report.counts.values())
    assert [verdict.id for verdict in report.verdicts if safe(verdict.claim) not in text] == []


def test_a_broken_file_is_named_where_it_is_missed_and_at_the_end_and_nothing_else_suffers(tmp_path):
    report_root.main_line(tmp_path)
    report_root.algorithms(tmp_path)
    for name, content in (
        ("main/knn.json", '{"0": {"top1_percent": NaN}}'),
        ("cifar10_negatives/temperature.csv", "series,value\nIR,0.1\n"),
        ("cifar10_algorithms/table.csv", ""),
        ("main/linear.json", "{"),
    ):
        (tmp_path / metrics_path(name)).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / metrics_path(name)).write_text(content)
    report = gather(tmp_path, NOW)
    names = ["main/knn.json", "main/linear.json", "cifar10_negatives/temperature.csv", "cifar10_algorithms/table.csv"]
    assert {fault.name for fault in report.broken} >= set(names)
    broken = {figure.plot.name: figure.svg.reason for figure in report.figures if getattr(figure.svg, "broken", False)}
    assert broken == {
        "mutualinfo.fig10": "stages/cifar10_negatives/metrics/temperature.csv: has no column 'nn1_top1_percent'"
    }
    assert isinstance(report.headline, Table)
    page = html(report)
    assert re.findall(r'<section id="(\w+)"', page) == [*SECTIONS, "broken"]
    for output in (page, markdown(report)):
        assert "Broken" in output
        assert "top1_percent is nan" in output.replace("\\_", "_")
    table = next(each for paper in report.papers for each in paper.tables if each.comparison.table.id == "ring.table1a")
    assert table.comparison.status == "broken"


def test_confusion_is_in_percent_of_the_true_class():
    rows = [{"actual": a, "predicted": p} for a, p in (("b", "b"), ("b", "a"), ("b", "b"), ("b", "b"), ("a", "a"))]
    table = confusion(rows)
    assert [column.title for column in table.columns] == ["true class", "a", "b"]
    assert texts(table) == [["a", "100", "0"], ["b", "25", "75"]]
    with pytest.raises(ValueError, match="has no column 'predicted'"):
        confusion([{"actual": "a"}])


def test_hostile_names_are_text_only_the_page_s_own_script_may_run_and_what_is_referred_to_is_there(page):
    parsed = Parsed(page)
    assert SCRIPT in "".join(parsed.text)
    assert sum(tag == "script" for tag, _ in parsed.tags) == 1
    assert not {"i", "u"} & {tag for tag, _ in parsed.tags}
    policy = next(a["content"] for tag, a in parsed.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "unsafe-inline" not in policy.partition("script-src")[2].partition(";")[0]
    for tag, attributes in parsed.tags:
        assert not [name for name in attributes if name.startswith("on")]
        assert tag != "img" or attributes["src"].startswith(("data:image/webp;base64,", "data:image/svg+xml,"))
        for name in ("src", "href", "xlink:href", "action", "data"):
            assert attributes.get(name, "#").startswith(("#", "data:")), f"{tag} leaves the page"
    values = [(name, value or "") for _, attributes in parsed.tags for name, value in attributes.items()]
    ids = [value for name, value in values if name == "id"]
    assert len(set(ids)) == len(ids)
    refers = {value[1:] for name, value in values if name.endswith("href") and value.startswith("#")}
    refers |= {place for _, value in values for place in re.findall(r"url\(#([^)]*)\)", value)}
    assert refers <= set(ids), "points at nothing"
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]
    assert not [outside for outside in ("@import", "url(") if outside in style]


def test_hostile_names_are_text_in_markdown(text):
    lines = text.splitlines()
    outside_code = re.sub(r"`[^`\n]*`", "", re.sub(r"\\`", "", text))
    assert not re.findall(r"<(\w+)|(?<!\\)\]\(", outside_code)
    # Every table keeps its columns: each row has the number of unescaped bars of the head.
    heads = [i for i, line in enumerate(lines) if re.fullmatch(r"\|( -{3}:? \|)+", line)]
    assert len(heads) >= 19
    for head in heads:
        for line in itertools.takewhile(bool, lines[head - 1 :]):
            assert line.startswith("|"), f"a row was broken: {line[:80]!r}"
            assert len(re.findall(r"(?<!\\)\|", line)) == lines[head].count("|")


def test_markdown_text_is_escaped_makes_no_links_and_calls_nobody():
    for text, expected in {
        "a|b": r"a\|b",
        "`x`": r"\`x\`",
        "a\n# b": r"a \# b",
        "<b>&amp;": "&lt;b&gt;&amp;amp;",
        "*a* _b_ [c](d) ~e~": r"\*a\* \_b\_ \[c\](d) \~e\~",
        "\\|": r"\\\|",
    }.items():
        assert safe(text) == expected
    for text in ("http://", "@someone", "www.a"):
        assert text not in safe(f"{text}.b")
    # Code is code unless it would end early.
    assert [code(text) for text in ("a b", "a`b", "a|b")] == ["`a b`", r"a\`b", r"a\|b"]
    assert ticks("run `make *x*`; or *not*") == r"run `make *x*`; or \*not\*"
    assert ticks("one ` alone") == r"one \` alone"


def test_numbers_are_shown_for_reading():
    for value, decimals, expected in (
        (39.7, 2, "39.70"),
        (-0.25, None, f"{MINUS}0.2500"),
        (0.000123, 2, f"1.23e{MINUS}4"),
        (1234567.0, None, "1,234,567"),
        (12345678.5, None, "1.23e7"),
        (0.0, None, "0"),
    ):
        assert number(value, decimals) == expected


def test_a_paper_s_table_has_its_number_ours_and_the_difference():
    rows = [ComparedRow({"method": "IR"}, None, 81.2, 0.3, 79.64, 0.5, -1.56, "cifar10, paper")]
    rows += [ComparedRow({"method": "LA"}, None, 83.9, None)] * 2
    table = next(table for table in load_tables() if table.id == "ring.table1a")
    ours = paper_table(Comparison(table, rows, "run"))
    assert [column.title for column in ours.columns] == ["method", "paper", "here", "difference"]
    not_run = ["LA", "83.9", "not run", ""]
    assert texts(ours) == [["IR", "81.2 ± 0.3", "79.6 ± 0.5", f"{MINUS}1.6"], not_run, not_run], "printed twice: two"
    assert ours.groups == []
    assert Table("", [Column("a", group="g"), Column("b", group="g"), Column("c")]).groups == [("g", 2), ("", 1)]


def test_the_command_writes_both_files_and_prints_where_or_says_in_a_sentence_why_it_cannot(
    tmp_path, capsys, monkeypatch
):
    (tmp_path / "stages" / "own").mkdir(parents=True)  # half a character; the report does not check it
    (tmp_path / "stages" / "own" / "params.yaml").write_text('scale: "\\ud800"\nseeds: [0]\n')
    main(["--root", str(tmp_path)])
    paths = [tmp_path / "data/report" / name for name in ("index.html", "report.md")]
    assert capsys.readouterr().out.split() == [str(path) for path in paths]
    assert paths[0].read_text().startswith("<!doctype html>")
    assert paths[1].read_text().startswith("# What was measured here")
    assert "\\ud800" in paths[1].read_text()
    paths[0].unlink()
    paths[0].mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r" is in no checkout of annulus .*; give --root$"):
        main([])
    for root, sentence in ((".", "cannot write .*: Is a directory"), ("no", "--root .*no is no folder; name the rep")):
        with pytest.raises(InputError, match=f"^{sentence}"):
            main(["--root", str(tmp_path / root)])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    return Browser(tmp_path_factory.mktemp("browser"))


def test_the_page_full_or_empty_loads_in_silence_and_asks_for_nothing_or_this_browser_would_tell(
    browser, page, tmp_path
):
    bad = browser.load('<script>console.error("boom")</script><img src="http://127.0.0.1:9/x.png">')
    assert "boom" in bad.console[0]
    assert bad.requests == ["http://127.0.0.1:9/x.png"]
    for each in (page, html(gather(tmp_path, NOW))):
        loaded = browser.load(each)
        assert "<title>annulus: papers beside results</title>" in loaded.dom, "a hostile name is text"
        assert loaded.console == []  # it would log a script that the policy stopped
        assert loaded.requests == []


# The answer of each script about the page; all scripts run in one frame.
SCRIPTS = """
const numbersOf = (row, place) => row.cells[place].textContent.trim();
const sorted = (table, place) => {
  const heading = table.tHead.rows[table.tHead.rows.length - 1].cells[place];
  const now = () => [heading.getAttribute('aria-sort'), [...table.tBodies[0].rows].map((row) => numbersOf(row, place))];
  const click = () => { heading.querySelector('button').click(); return now(); };
  return [now(), click(), click()];
};
const captioned = (words) => [...page.querySelectorAll('table.sorts')].find(
  (table) => table.caption && table.caption.textContent.includes(words));
const notRun = () => {
  const table = page.querySelector('#table-ring\\\\.table1a table'), head = table.tHead;
  const cells = [...head.rows[head.rows.length - 1].cells];
  return sorted(table, cells.findIndex((cell) => cell.textContent.startsWith('here')));
};
const filtered = () => {
  const rows = () => [...page.querySelectorAll('#claims tr[data-verdict]')].filter((row) => row.offsetParent !== null);
  const all = rows().length, button = page.querySelector('#claims .tools button[data-verdict="not run"]');
  button.click();
  const chosen = rows().map((row) => row.dataset.verdict), pressed = button.getAttribute('aria-pressed');
  page.querySelector('#claims .tools button').click();
  const words = page.querySelector('#claims .tools input');
  words.value = 'eqco.table9';
  words.dispatchEvent(new view.Event('input'));
  return [all, chosen, pressed, rows().map((row) => row.textContent.includes('eqco.table9'))];
};
const linked = () => {
  const closed = page.querySelector('#tables details[id]:not([open])'), before = closed.open;
  view.location.hash = '#' + closed.id;
  view.dispatchEvent(new view.Event('hashchange'));
  return [before, closed.open];
};
const reachable = (all) => [...page.querySelectorAll(all)].every((one) => one.tabIndex >= 0);
const width = (pixels) => {
  document.querySelector('iframe').style.width = pixels + 'px';
  for (const each of page.querySelectorAll('details')) each.open = true;
  return [view.innerWidth, page.documentElement.scrollWidth];
};
const overlaps = (pixels) => {
  width(pixels);
  const words = page.querySelector('#claims .tools input');
  words.value = '';
  words.dispatchEvent(new view.Event('input'));
  const cells = [...page.querySelectorAll('th, td, figcaption, .tile')];
  const over = (cell) => {
    const content = page.createRange();
    content.selectNodeContents(cell);
    return content.getBoundingClientRect().right > cell.getBoundingClientRect().right + 1;
  };
  return cells.filter((cell) => cell.offsetParent && over(cell)).map((cell) => cell.textContent.trim());
};
const height = page.documentElement.scrollHeight;
const unfolded = page.querySelectorAll('section > details[open] > summary > h2').length;
const first = (all) => page.querySelector(all).getBoundingClientRect();
const whole = (pixels) => {
  document.querySelector('iframe').style.width = pixels + 'px';
  return [...page.querySelectorAll('#gain > :not(details) .box')].map((box) => box.scrollWidth <= box.clientWidth);
};
answer({
  words: page.body.innerText.split(/\\s+/).length, whole: whole(390),
  figure: [first('svg').top, first('svg').bottom > 0],
  numbers: sorted(captioned('Headline'), 1), text: sorted(captioned('Confusion'), 0), notRun: notRun(),
  filtered: filtered(), linked: linked(),
  keyboard: [reachable('th button'), page.querySelectorAll('th button').length > 20, reachable('.box'), reachable('a')],
  height: [height, unfolded],
  widths: [390, 768, 1280].map(width), overlaps: [390, 1280].map(overlaps),
});
"""


@pytest.fixture(scope="module")
def answers(browser, page):
    return browser.answer(page, SCRIPTS)


def test_a_click_sorts_numbers_by_value_text_as_text_and_what_was_not_run_to_the_end(answers):
    (start, unsorted), up, down = answers["numbers"]
    assert start == "none"
    assert sorted(unsorted) == sorted(["0.2966", "39.70", "49.30", "8"])
    assert up == ["ascending", ["0.2966", "8", "39.70", "49.30"]]
    assert down == ["descending", ["49.30", "39.70", "8", "0.2966"]]
    _, up, down = answers["text"]
    assert up == ["ascending", [short_name(HOSTILE), "disc", "star"]]
    assert down == ["descending", ["star", "disc", short_name(HOSTILE)]]
    _, (_, up), (_, down) = answers["notRun"]
    ran = ["22.9 ± 1.2", "23.6 ± 1.2"]
    assert (up, down) == ([*ran, *["not run"] * 5], [*ran[::-1], *["not run"] * 5])


def test_claims_are_filtered_by_verdict_and_by_words(answers):
    everything, chosen, pressed, matches = answers["filtered"]
    assert everything > len(chosen) > 0
    assert set(chosen) == {"not run"}
    assert pressed == "true"
    assert 0 < len(matches) < everything
    assert all(matches)


def test_links_open_tables_keys_reach_all_that_can_be_clicked_and_all_fits_the_screen(answers):
    assert answers["linked"] == [False, True]
    assert answers["keyboard"] == [True] * 4
    assert answers["widths"] == [[width, width] for width in (390, 768, 1280)]
    assert answers["overlaps"] == [[], []], "no cell runs into the next"
    height, unfolded = answers["height"]
    assert unfolded == 0
    assert height < 5 * 800, "a few screens before anything is unfolded"
    assert 300 < answers["words"] < 15_000, "words before anything is unfolded"
    assert answers["whole"] == [True], "the first figure fits a telephone"
    top, visible = answers["figure"]
    assert visible
    assert 0 < top < 400, "the first screen of 900 shows a figure of results"


def test_the_confusion_names_classes_as_short_as_the_map_and_counts_each_by_its_whole_name():
    long = [f"{50 * 'W'} {ending}" for ending in ("one", "two")]
    rows = [{"actual": long[0], "predicted": long[1]}, {"actual": long[1], "predicted": long[1]}]
    table = confusion(rows)
    labels = [f"{18 * 'W'}...{15 * 'W'} {ending}" for ending in ("one", "two")]
    assert [column.title for column in table.columns] == ["true class", *labels]
    assert [[cell.text for cell in row] for row in table.rows] == [[labels[0], "0", "100"], [labels[1], "0", "100"]]

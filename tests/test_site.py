"""The documentation site: built as `make docs` builds it, notebooks run, every link of every page followed."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from by_path import ROOT
from stated import stated_params
from test_presets import set_by

from annulus.config.file import checked, read_tree
from annulus.errors import InputError

# Without MkDocs and its like these tests are skipped, with the sentence that names what is missing.
building = pytest.importorskip("annulus.site.build", exc_type=ModuleNotFoundError)
sections = pytest.importorskip("annulus.site.sections", exc_type=ModuleNotFoundError)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # beside other work the whole site takes minutes

NOTEBOOKS = sorted(path.stem for path in ROOT.glob("docs/notebooks/*.ipynb"))


class Page(HTMLParser):
    """What a page links and loads, its anchors, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.anchors, self.text, self.inside = [], [], set(), [], None
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        attributes, self.inside = dict(attributes), tag
        self.anchors.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag in ("link", "script", "img", "iframe"):
            self.loads += [attributes[key] for key in ("href", "src") if attributes.get(key)]

    def handle_data(self, data: str) -> None:
        self.text += [] if self.inside in ("script", "style") else [data]


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    report = folder / "index.html"
    report.write_text("<!doctype html><title>the report</title><header><p>annulus</p></header>")
    building.assemble(ROOT, folder / "pages", report)
    building.build(ROOT, folder / "pages", folder / "site")
    return folder / "site"


@pytest.fixture(scope="module")
def pages(site) -> dict[str, Page]:
    return {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}


def test_every_link_leads_to_a_page_and_its_anchor_and_nothing_is_loaded_from_elsewhere(site, pages):
    for name, page in pages.items():
        if name == "404.html":  # its links begin at the site's root
            continue
        for link in page.links + page.loads:
            path, _, anchor = unquote(link).partition("#")
            if re.match(r"https?://|mailto:|data:", path):
                assert link in page.links, f"{name} loads {link}"
                continue
            target = ((site / name).parent / path).resolve() if path else site / name
            assert target.is_file() or target == site, f"{name}: {link}"
            there = pages.get(target.relative_to(site.resolve()).as_posix()) if target.suffix == ".html" else None
            assert not (there and anchor) or anchor in there.anchors, f"{name}: {link}"


def test_the_report_leads_back_to_the_site(pages):
    assert "index.html" in pages["report.html"].links


@pytest.mark.parametrize(
    ("report", "complaint"), [(None, "cannot read the report"), ("<p>annulus</p>", "it has no <header>")]
)
def test_what_is_no_report_is_refused(report, complaint, tmp_path):
    page = tmp_path / "report.html"
    if report is not None:
        page.write_text(report)
    with pytest.raises(InputError, match=complaint):
        building.with_way_back(page)


@pytest.mark.parametrize(
    ("entry", "page", "words"),
    [
        ("Add a sampler, bound, view", "add.html", "A sampler ¶ A line under samplers"),
        ("Compare runs; what ± means", "comparing.html", "± is half the width of a 95 % interval"),
        ("Your own images", "own_images.html", "dataset=folder"),
        ("Sweeps, Slurm, machines", "clusters.html", "--executor slurm"),
        ("GPU and speed", "gpu.html", "ANNULUS_COMPILE"),
    ],
)
def test_a_newcomer_finds_it_in_one_guess(site, pages, entry, page, words):
    assert page in pages["index.html"].links
    assert entry in pages["index.html"].text
    assert words in pages[page].text
    found = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any(one["location"].startswith(page) for one in found)


def test_each_paper_has_its_settings_claims_and_tables(pages):
    for paper in ("eqco", "infomin", "mlcpc", "mutualinfo", "ring"):
        page = pages[f"papers/{paper}.html"]
        assert {"settings", "claims", "what-ran-here", "what-did-not-run-here"} <= page.anchors
        assert re.search(r"Its claims here: (?:\d+ [a-z ]+(?: \([^)]*\))?, )*\d+ [a-z ]+(?: \([^)]*\))?\.", page.text)
    command = "# ring.table1a/MoCoRing dvc exp run -S 'seeds = [0,1,2,3,4]' -S dataset = cifar10 -S method = moco"
    assert command in re.sub(r"\s*=\s*", " = ", pages["papers/ring.html"].text)


def test_the_options_of_each_figure_s_series_fit_params_yaml(tmp_path):
    """A section that is null there, such as a view set's blur, is set as a whole: DVC sets no key of null."""
    stated_params(tmp_path / "params.yaml")
    tree = read_tree(tmp_path / "params.yaml")
    text = "\n".join(building.papers.pages(ROOT).values())
    lines = re.findall(r"^- \*\*.*\*\*: `(-S .*)`$", text, re.MULTILINE)
    assert len(lines) > 50
    for line in lines:
        checked(set_by(shlex.split(line.replace("${scale}", "demo"))[1::2], tree), line)


def test_a_part_of_no_paper_needs_no_figure_and_a_figure_that_no_paper_has_is_refused(tmp_path):
    part = {"base": {"series": "a"}, "series": {"a": {}}}
    own = tmp_path / "stages/own/params.yaml"
    own.parent.mkdir(parents=True)

    def parts(**figure):
        content = {"scale": "tiny", "seeds": [0], "scales": {"tiny": {}}, "parts": {"p": part | figure}}
        own.write_text(json.dumps(content))
        return building.papers.parts(tmp_path, "infomin")

    assert parts() == parts(figure="none") == parts(figure="ring.fig2b") == []
    assert "stages/own/dvc.yaml:part@p" in parts(figure="infomin.fig11")[1]
    with pytest.raises(InputError, match=r"parts\.p\.figure: 'infomin\.fig1l' is no figure .*; did you mean 'infomin"):
        parts(figure="infomin.fig1l")


def test_the_reference_has_every_public_name(pages):
    shown = set().union(*(page.anchors for name, page in pages.items() if name.startswith("reference/")))
    assert {"annulus.methods.moco.MoCo", "annulus.negatives.by_rank.ring", "annulus.bounds.infonce.infonce"} <= shown
    assert ">>>" in pages["reference/bounds.html"].text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_outputs_and_shown_with_them(name, site, pages):
    cells = json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    pictures = [link for link in pages[f"notebooks/{name}.html"].loads if link.endswith(".png") and name in link]
    assert pictures
    assert all((site / "notebooks" / link).stat().st_size > 5000 for link in pictures)


def test_the_comparing_notebook_has_the_number_of_the_table(pages):
    rows = (ROOT / "metrics/cifar10_algorithms/table.csv").read_text().splitlines()
    head = rows[0].split(",")
    (row,) = (row for row in (line.split(",") for line in rows) if row[:2] == ["mutualinfo.table1", "RING"])
    gain, half = (float(row[head.index(f"here_knn_gain{kind}_percent")]) for kind in ("", "_interval"))
    assert f"{gain:+.2f} ± {half:.2f} points: better (paired)" in pages["notebooks/comparing.html"].text


def test_headings_in_code_are_no_sections():
    parts = sections.sections_of("# A\n\nfirst\n\n```sh\n# no heading\n```\n\n## B c, d\n\nsecond\n")
    assert [(part.level, part.anchor) for part in parts] == [(1, ""), (2, "b-c-d")]
    assert "# no heading" in parts[0].text


def made_of(root: Path, *names: str) -> dict[str, str]:
    """The pages of the files of these names below docs/."""
    book = sections.Book(root)
    book.add({name: f"docs/{name}" for name in names})
    book.write(root / "pages", {})
    return {name: (root / "pages" / name).read_text() for name in names}


@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        ("# P\n\n<!-- include -->\n[x](../a.md#thre)\n", "a.md#thre, which has no such heading; did you mean 'three'"),
        ("# P\n\n<!-- include -->\n[x](../b.md#two)\n", "cannot read b.md"),
        ("# P\n\n[x](../a.md#two)\n", r"links ../a.md#two, which is on no page of the site; include it"),
    ],
)
def test_a_page_of_what_is_not_there_is_refused(page, complaint, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.md").write_text("# A\n\nstart\n\n## Two\n\n[on](#three)\n\n## Three\n\nend\n")
    (tmp_path / "docs/p.md").write_text(page)
    with pytest.raises(InputError, match=complaint):
        made_of(tmp_path, "p.md")


def test_a_section_is_on_one_page_and_links_to_it_lead_there(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.md").write_text(
        "# A\n\nstart [three](#three)\n\n## Two\n\n- x\n  - y\n\n## Three\n\n[a](a.md#two)\n"
    )
    (tmp_path / "docs/p.md").write_text("# P\n\n<!-- include text -->\n[three](../a.md#three)\n")
    (tmp_path / "docs/q.md").write_text("# Q\n\n<!-- include -->\n[rest](../a.md)\n")
    made = made_of(tmp_path, "p.md", "q.md")
    assert made["p.md"].split() == ["#", "P", "{", "#p", "}", "[a](q.md#two)"]
    assert "start [three](p.md)" in made["q.md"]
    assert "## Two { #two }\n\n- x\n    - y" in made["q.md"]
    (tmp_path / "docs/r.md").write_text("# R\n\n<!-- include -->\n[three](../a.md#three)\n")
    with pytest.raises(InputError, match=r"r\.md and p\.md both include a\.md#three"):
        made_of(tmp_path, "p.md", "r.md")


def test_an_included_section_ends_at_the_next_of_its_level_and_its_own_sections_keep_their_headings(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "a.md").write_text("# A\n\nstart\n\n## Two\n\ntwo\n\n### Sub\n\nsub\n\n## Three\n\nend [sub](#sub)\n")
    (tmp_path / "docs/p.md").write_text("# P\n\n<!-- include text -->\n[two](../a.md#two)\n\nafter\n")
    (tmp_path / "docs/q.md").write_text("# Q\n\n<!-- include -->\n[rest](../a.md)\n\nafter\n")
    made = made_of(tmp_path, "p.md", "q.md")
    assert " ".join(made["p.md"].split()) == "# P { #p } two ### Sub { #sub } sub after"
    assert " ".join(made["q.md"].split()) == "# Q { #q } start ## Three { #three } end [sub](p.md#sub) after"


def test_blocks_of_code_stay_as_they_are_and_lists_become_those_of_mkdocs():
    text = "a\n\n```sh\na\n```\n\na\n\n```sh\na\n```\n"
    assert sections.outside_code(text, re.compile("^a", re.MULTILINE), "b") == re.sub("(?<!sh\n)a", "b", text)
    listed = "text\n- a\n\n  ```sh\n  x\n- y\n  ```\n  more\n- b\n  - c"
    expected = "text\n\n- a\n\n    ```sh\n    x\n  - y\n    ```\n    more\n\n- b\n    - c"
    assert sections._nested(listed) == expected


def test_a_program_stands_below_the_words_of_its_link_and_no_line_ends_within_a_number(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "loop.py").write_text("print('1 ± 2')\n")
    (tmp_path / "docs/p.md").write_text("# P\n\n<!-- include -->\n[A loop](../loop.py)\n\n3.1 ± 0.2, 5 %\n")
    made = made_of(tmp_path, "p.md")["p.md"]
    assert "## A loop { #a-loop }\n\n`loop.py`:\n\n```python\nprint('1 ± 2')\n```" in made
    assert "3.1\xa0±\xa00.2, 5\xa0%" in made

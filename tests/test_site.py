"""The documentation site: built as `make docs` builds it, notebooks run, every link of every page followed."""

import json
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote

import pytest
from by_path import ROOT
from stated import stated_params
from test_presets import set_by

from annulus.errors import InputError
from annulus_lab.config.file import checked
from annulus_lab.config.tree import read_tree
from annulus_lab.pipeline.projects import metrics_path

# Without MkDocs and its like these tests are skipped, with the sentence that names what is missing.
site_pages = pytest.importorskip("annulus_lab.site.pages", exc_type=ModuleNotFoundError)

from mkdocs.commands.build import build  # noqa: E402
from mkdocs.config import load_config  # noqa: E402
from mkdocs.exceptions import PluginError  # noqa: E402

from annulus_lab.site import papers  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # beside other work the whole site takes minutes

NOTEBOOKS = sorted(path.stem for path in ROOT.glob("docs/notebooks/*.ipynb"))


class Page(HTMLParser):
    """Links, loaded files, anchors and text of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links, self.loads, self.anchors, self.text, self.inside = [], [], set(), [], None
        self.texts = []  # of pictures
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag: str, attributes: list) -> None:
        attributes, self.inside = dict(attributes), tag
        self.anchors.add(attributes.get("id"))
        self.texts += [attributes["alt"]] if attributes.get("alt") else []
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
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT / "src"))  # of the notebooks' kernels
        patch.setenv("OMP_NUM_THREADS", "1")
        config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder / "site"), strict=True)
        config.extra["report"] = str(report)
        config.plugins.on_startup(command="build", dirty=False)
        build(config)
        config.plugins.on_shutdown()
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
            if path.startswith("data:"):  # inside the page
                continue
            if re.match(r"https?://|mailto:", path):
                assert link in page.links, f"{name} loads {link}"
                continue
            target = ((site / name).parent / path).resolve() if path else site / name
            assert target.is_file() or target == site, f"{name}: {link}"
            there = pages.get(target.relative_to(site.resolve()).as_posix()) if target.suffix == ".html" else None
            assert not (there and anchor) or anchor in there.anchors, f"{name}: {link}"


def test_the_report_leads_back_to_the_site(pages):
    assert "index.html" in pages["report.html"].links


def test_a_report_that_was_not_made_is_asked_for(tmp_path):
    with pytest.raises(PluginError, match=r"there is no report .*; run `make report` first"):
        site_pages.report(tmp_path / "index.html")


def test_no_list_and_no_block_of_code_is_left_as_text(site):
    """GitHub renders some that MkDocs does not, such as a list directly below a block of code."""
    for path in sorted(site.rglob("*.html")):
        text = re.sub(r"<(pre|script|style)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert not re.findall(r"^ *- .*$|^.*```.*$", text, re.MULTILINE), path


@pytest.mark.parametrize(
    ("entry", "page", "words"),
    [
        (
            "Add a sampler, bound, view, study",
            "docs/add.html",
            "A sampler ¶ A sampler chooses negatives by their scores",
        ),
        ("Compare runs; what ± means", "docs/comparing.html", "± is half the width of a 95 % interval"),
        ("Your own images", "docs/own_images.html", "dataset=folder"),
        ("Sweeps, Slurm, machines", "docs/clusters.html", "--executor slurm"),
        ("GPU and speed", "docs/gpu.html", "ANNULUS_COMPILE"),
    ],
)
def test_a_newcomer_finds_it_in_one_guess(site, pages, entry, page, words):
    assert page in pages["index.html"].links
    assert entry in pages["index.html"].text
    assert words in pages[page].text
    entries = json.loads((site / "search/search_index.json").read_text())["docs"]
    assert any(one["location"].startswith(page) for one in entries)


def test_each_paper_has_its_settings_claims_and_tables(pages):
    for paper in ("eqco", "infomin", "mlcpc", "mutualinfo", "ring"):
        page = pages[f"papers/{paper}.html"]
        assert {"settings", "claims", "what-ran-here", "what-did-not-run-here"} <= page.anchors
        counts = r"\d+ [a-z ]+(?:, \d+ [a-z ]+)*"
        sizes = rf"(?:; sizes [\w', ]+: {counts})+(?:; checks of our own: {counts})?"
        kinds = rf"directions: {counts}; of these on images: {counts}{sizes}"
        assert re.search(rf"Its claims here: {kinds}\.", re.sub("\N{RIGHT SINGLE QUOTATION MARK}", "'", page.text))
    command = "# ring.table1a/MoCoRing dvc exp run -S 'seeds = [0,1,2,3,4]' -S dataset = cifar10 -S method = moco"
    assert command in re.sub(r"\s*=\s*", " = ", pages["papers/ring.html"].text)


def test_the_options_of_each_figure_s_series_fit_params_yaml(tmp_path):
    """A section that is null there, such as a view set's blur, is set as a whole: DVC sets no key of null."""
    stated_params(tmp_path / "params.yaml")
    tree = read_tree(tmp_path / "params.yaml")
    text = "\n".join(papers.pages(ROOT).values())
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
        return papers.parts(tmp_path, "infomin")

    assert parts() == parts(figure="none") == parts(figure="ring.fig2b") == []
    assert "cd stages/own && dvc repro part@p" in parts(figure="infomin.fig11")[1]
    with pytest.raises(InputError, match=r"parts\.p\.figure: 'infomin\.fig1l' is no figure .*; did you mean 'infomin"):
        parts(figure="infomin.fig1l")


def test_the_reference_has_every_public_name(pages):
    anchors = set().union(*(page.anchors for name, page in pages.items() if name.startswith("reference/")))
    assert {"annulus.methods.moco.MoCo", "annulus.negatives.by_rank.ring", "annulus.bounds.infonce.infonce"} <= anchors
    assert ">>>" in pages["reference/bounds.html"].text


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_kept_without_outputs_and_shown_with_them(name, site, pages):
    cells = json.loads((ROOT / f"docs/notebooks/{name}.ipynb").read_text())["cells"]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")
    page = pages[f"docs/notebooks/{name}.html"]
    pictures = [link for link in page.loads if link.startswith("data:image/png;base64,")]
    assert pictures
    assert all(len(picture) > 5000 for picture in pictures)
    assert "Drawn by the lines above" in page.texts
    assert "No description has been provided for this image" not in page.texts


def test_the_comparing_notebook_has_the_number_of_the_table(pages):
    rows = (ROOT / metrics_path("cifar10_algorithms/table.csv")).read_text().splitlines()
    head = rows[0].split(",")
    (row,) = (row for row in (line.split(",") for line in rows) if row[:2] == ["mutualinfo.table1", "RING"])
    gain, half = (float(row[head.index(f"here_knn_gain{kind}_percent")]) for kind in ("", "_interval"))
    assert f"{gain:+.2f} ± {half:.2f} points: better (paired)" in pages["docs/notebooks/comparing.html"].text


def test_a_program_stands_below_the_words_of_its_link(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "loop.py").write_text("print('1 ± 2')\n")
    page = SimpleNamespace(file=SimpleNamespace(abs_src_path=str(tmp_path / "docs/p.md")))
    made = site_pages.on_page_markdown("# P\n\n<!-- include -->\n[A loop](../loop.py)\n", page, None, None)
    assert made == "# P\n\n## A loop\n\n`loop.py`:\n\n```python\nprint('1 ± 2')\n```\n"
    with pytest.raises(PluginError, match=r"a page includes \.\./lop\.py in .*docs, which does not exist"):
        site_pages.on_page_markdown("<!-- include -->\n[A loop](../lop.py)\n", page, None, None)


def test_no_line_ends_within_a_number_and_code_stays_as_it_is():
    html = "<p>3.1 ± 0.2, 5 % <code>1 ± 2</code></p><pre><code>a ± b</code> 5 %</pre> what ± means"
    content = site_pages.on_page_content(html, None, None, None)
    fixed = html.replace("3.1 ± 0.2, 5 %", "3.1\xa0±\xa00.2, 5\xa0%").replace("what ± means", "what\xa0±\xa0means")
    assert content == fixed


def test_a_pattern_of_nav_stands_for_the_pages_that_it_matches():
    nav = ["a.md", {"B": ["b/i.md", "b/*.md"]}, {"C": "c.md"}]
    assert site_pages.listed(nav, ["a.md", "b/x.md", "b/y.md", "c.md"]) == [
        "a.md",
        {"B": ["b/i.md", "b/x.md", "b/y.md"]},
        {"C": "c.md"},
    ]

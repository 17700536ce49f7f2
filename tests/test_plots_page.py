"""The page of `dvc plots show`: drawn without internet, the main line's plots first."""

import json
import re

import pytest
from browser import Browser
from by_path import ROOT, read_yaml
from dvc_render.html import HTML

TEMPLATE = (ROOT / ".dvc/plots_page.html").read_text()
DRAWN = ["metrics_strength_jitter_csv", "pretraining__in_nats", "metrics_main_knn_json", "metrics_summary_csv"]
# Stand-in for the module of the package that .dvc/plots_page.txt names: it draws into the element of a selector.
DRAW = 'vegaEmbed: (at) => document.querySelector(at).append(at + " drawn")'
VEGA = f'define(["@jupyter-widgets/base"], (base) => ({{{DRAW}}}))'


def page() -> str:
    document = HTML(TEMPLATE).with_scripts('<script src="https://cdn.example/vega"></script>')
    for name in DRAWN:
        document.with_element(f'<div id="{name}"><script>vegaEmbed("#{name}", 0);</script></div>')
    return document.embed()


@pytest.mark.slow
def test_the_page_draws_by_the_vega_of_make_install_and_folds_the_studies(tmp_path):
    module = tmp_path / ".venv/vega/vega/static/index.js"
    module.parent.mkdir(parents=True)
    module.write_text(VEGA)
    (tmp_path / "dvc_plots").mkdir()
    loaded = Browser(tmp_path / "dvc_plots").load(page())
    assert not [url for url in loaded.requests if url.startswith("http")]
    assert re.findall(r"#(\w+) drawn", loaded.dom) == ["pretraining__in_nats", "metrics_summary_csv", DRAWN[0]]
    assert "<details><summary>Plots of the studies</summary><div" in loaded.dom
    module.unlink()
    assert "https://cdn.example/vega" in Browser(tmp_path / "dvc_plots").load(page()).requests, "as without .venv"


@pytest.mark.parametrize("path", sorted([*ROOT.glob("metrics/*/dvc.yaml"), *ROOT.glob("stages/*/dvc.yaml")]), ids=str)
def test_a_plot_has_a_name_that_dvc_can_write_into_its_page_and_that_of_the_main_line_stands_first(path):
    """DVC writes the name as an element's id, between apostrophes."""
    content = read_yaml(path)
    names = [name for entry in content.get("plots", []) for name in (entry if isinstance(entry, dict) else [entry])]
    first = re.compile(re.search(r"const own = /(.*)/;", TEMPLATE)[1])
    for name in names:
        assert "'" not in name
        assert bool(first.match(re.sub(r"[^\w]", "_", name))) == (path.parent.name == "main"), name


@pytest.mark.slow
def test_the_legend_of_curves_over_seeds_shows_their_dashes_at_full_strength(tmp_path):
    vega = ROOT / ".venv/vega/vega/static/index.js"
    if not vega.is_file():
        pytest.skip(f"{vega} is not there: `make install` brings it")
    rows = [{"seed": seed, "epoch": epoch, "nats": seed + epoch, "field": field, "rev": "workspace"}
            for seed in (0, 1) for epoch in (1, 2) for field in ("loss", "bound")]  # fmt: skip
    spec = (ROOT / ".dvc/plots/seeds.json").read_text().replace('"<DVC_METRIC_DATA>"', json.dumps(rows))
    dash = {"field": "field", "scale": {"domain": ["loss", "bound"], "range": [[1, 0], [8, 8]]}}
    spec = spec.replace('"<DVC_METRIC_STROKE_DASH>"', json.dumps(dash))
    for anchor, name in (("X", "epoch"), ("Y", "nats"), ("X_LABEL", "epoch"), ("Y_LABEL", "nats"), ("TITLE", "curves")):
        spec = spec.replace(f"<DVC_METRIC_{anchor}>", name)
    module = "const define = (_, make) => window.made = make({DOMWidgetModel: class {}, DOMWidgetView: class {}})"
    page = (
        f"<meta charset=utf-8><div id=plot></div><script>{module}</script><script src={vega.as_uri()}></script>"
        f"<script>made.vegaEmbed('#plot', {spec}, {{renderer: 'svg'}})</script>"
    )
    symbols = re.findall(r'<path [^>]*d="M-20,0L20,0"[^>]*>', Browser(tmp_path).load(page).dom)
    assert len(symbols) == 3, "of the revision and both fields"
    assert all('opacity="1"' in symbol and 'stroke-width="3"' in symbol for symbol in symbols)
    assert sum('stroke-dasharray="8,8"' in symbol for symbol in symbols) == 1

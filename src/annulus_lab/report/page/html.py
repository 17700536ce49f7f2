"""The report as one HTML file without external resources: styles, script, figures and pictures are inside."""

import base64
import hashlib
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.verdicts import RULE, VERDICTS
from annulus_lab.report.figures.compact import with_classes
from annulus_lab.report.page.claim_numbers import rule_in_words
from annulus_lab.report.page.content import PageContent
from annulus_lab.report.page.sections import Empty
from annulus_lab.report.papers.tables import number

HERE = Path(__file__).parent

# A sign beside the word: colour alone does not distinguish verdicts.
SIGNS = dict(zip(VERDICTS, "✓✗∅◐≉∎○!", strict=True))


def html(report: PageContent) -> str:
    """Returns the page. It escapes all text except the SVG of figures, whose text matplotlib escapes."""
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.tests["empty_part"] = lambda part: isinstance(part, Empty)
    environment.filters |= {
        "number": number, "svg": Markup, "ticks": _ticks, "slug": lambda text: text.replace(" ", "-"),
        "rule": rule_in_words, "metrics_path": metrics_path, "unbroken": _unbroken,
    }  # fmt: skip
    script = (HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    rendered = environment.get_template("page.html").render(
        report=report,
        signs=SIGNS,
        counts=report.verdict_counts,
        claims_rule=RULE,
        table_counts=report.table_counts,
        state_counts=report.state_counts,
        anchors=_anchors(report),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        # Only this script may run, so a script inside a name cannot.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )
    return with_classes(rendered.strip()) + "\n"


def _ticks(text: str) -> Markup:
    """Returns an escaped sentence whose text between backticks is code."""
    parts = text.split("`")
    paired = len(parts) % 2 == 1
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 and paired else part for place, part in enumerate(parts)
    )


def _unbroken(text: str) -> str:
    """Replaces the spaces around ± in a heading, so that no line ends there."""
    return text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def _anchors(report: PageContent) -> dict[str, str]:
    """Returns the HTML id of each table and figure of the papers, by its id in published.yaml."""
    tables = {
        table.comparison.table.id: f"table-{table.comparison.table.id}" for p in report.papers for table in p.tables
    }
    figures = [(figure.plot.paper_id or figure.plot.name, f"figure-{figure.plot.name}") for figure in report.figures]
    return dict(reversed(figures)) | tables

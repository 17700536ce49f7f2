"""The report as one HTML file that asks for nothing else: styles, script, figures and pictures are inside."""

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

# A sign beside the word, so that no verdict is told only by colour.
SIGNS = dict(zip(VERDICTS, "✓✗∅◐≉∎○!", strict=True))


def html(report: PageContent) -> str:
    """The page. All text is escaped but the SVG of figures, whose text matplotlib escapes."""
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
        counts=report.counted,
        claims_rule=RULE,
        tables_run=report.tables_run,
        counted_states=report.counted_states,
        anchors=_anchors(report),
        style=Markup((HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        # Only this very script may run: one that came with a name from somewhere would not.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
    )
    return with_classes(rendered.strip()) + "\n"


def _ticks(text: str) -> Markup:
    """A sentence with what stands between backticks as code; all of it escaped."""
    parts = text.split("`")
    paired = len(parts) % 2 == 1
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 and paired else part for place, part in enumerate(parts)
    )


def _unbroken(text: str) -> str:
    """A heading in which no line ends within a number and its interval."""
    return text.replace(" ± ", "\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}")


def _anchors(report: PageContent) -> dict[str, str]:
    """The id of the element that shows a table or figure of the papers, by its id in published.yaml."""
    tables = {
        table.comparison.table.id: f"table-{table.comparison.table.id}" for p in report.papers for table in p.tables
    }
    figures = [(figure.plot.of or figure.plot.name, f"figure-{figure.plot.name}") for figure in report.figures]
    return dict(reversed(figures)) | tables

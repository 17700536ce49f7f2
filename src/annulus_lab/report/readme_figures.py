"""`python -m annulus_lab.report.readme_figures`: a figure of README from metrics files, as an SVG of its own.

`known-information`: every bound where the information is known; what counts is on which side of the diagonal an
estimate lies. `law`: the report's figure of when harder negatives help, on real images.
`later`: gains of what came after the five papers.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus.errors import InputError
from annulus.files.results import write_text
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.figures.drawing import INK, SERIES, Row, group_by, numbers, svg
from annulus_lab.report.figures.later import ROWS, later
from annulus_lab.report.figures.law import REAL, law
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing

HERE = Path(__file__).parent
GAUSSIANS, STAIRCASE = "estimators/gaussians.csv", "estimators/staircase-separable_levels.csv"

# Series, its colour and dash, and its name at the end of its line.
PAIRS = {
    "EqCo, 64": (2, "-", "EqCo, 64 pairs"),
    "InfoNCE, 512": (0, (0, (6, 1.5)), "InfoNCE, 512 pairs"),
    "InfoNCE, 256": (0, (0, (4, 2)), "InfoNCE, 256 pairs"),
    "InfoNCE, 128": (0, (0, (2, 2)), "InfoNCE, 128 pairs"),
    "InfoNCE, 64": (0, "-", "InfoNCE, 64 pairs"),
}
WEIGHTS = {
    "CPC, alpha 0.01": (1, (0, (4, 2)), "CPC, alpha 0.01"),
    "CPC, alpha 0.0001": (1, "-", "CPC, alpha 0.0001"),
    "ML-CPC, alpha 0.01": (3, "-", "ML-CPC, alpha 0.01"),
    "ML-CPC, alpha 1": (3, (0, (4, 2)), "ML-CPC, alpha 1"),
    "CPC, alpha 1": (0, "-", "CPC, alpha 1 (InfoNCE)"),
}


def known_information(gaussians: Sequence[Row], staircase: Sequence[Row]) -> Figure:
    """Draws estimates over the true information, in nats: InfoNCE and EqCo by pairs, CPC and ML-CPC by alpha."""
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    _lines(left, group_by(gaussians, "method", "pairs"), PAIRS)
    _lines(right, group_by(staircase, "series"), WEIGHTS)
    left.set_title("EqCo with 64 pairs is within 0.3 nats of InfoNCE with 512", loc="left")
    right.set_title("A small alpha takes CPC above the truth, ML-CPC not", loc="left")
    return figure


def _lines(axes: Axes, series: dict[str, list[Row]], styles: dict[str, tuple]) -> None:
    """Draws one line per series with its name at its end, the truth as the diagonal, and shades the area above it."""
    missing = [name for name in styles if name not in series]
    if missing:
        raise ValueError(f"has no series {missing[0]}")
    truth = sorted(set(numbers([row for rows in series.values() for row in rows], "information_nats")))
    top = 13.8
    axes.fill_between([truth[0], truth[-1]], [truth[0], truth[-1]], [top, top], color=INK, alpha=0.06, linewidth=0)
    axes.plot(truth, truth, color=INK, linewidth=1, linestyle=(0, (1, 2)))
    axes.text(truth[0] + 0.2, top - 1.1, "above the truth: no lower bound")
    ends = []
    for name, (colour, dash, label) in styles.items():
        across, heights = numbers(series[name], "information_nats"), numbers(series[name], "estimate_nats")
        axes.plot(across, heights, color=SERIES[colour], linestyle=dash, marker="o", markersize=3)
        ends.append((heights[-1], label, SERIES[colour]))
    ends.append((truth[-1], "the information", INK))
    height = -1.0
    for at, label, colour in sorted(ends):  # from below, each label at least a line above the one before
        height = max(at - 0.3, height + 0.85)
        axes.text(truth[-1] + 0.25, height, label, color=colour)
    axes.set(xlim=(truth[0], truth[-1]), ylim=(0, top), xlabel="true information, nats", ylabel="estimate, nats")
    axes.set_xticks(truth)


def standalone_svg(content: str) -> str:
    """Returns an SVG of the page as a file of its own: with the page's light and dark colours, and a background."""
    css = (HERE / "page" / "page.css").read_text(encoding="utf-8")
    light, dark, *_ = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    style = (
        f"svg{{{light}color:var(--ink)}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
        "text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',sans-serif!important}"
    )
    head, rest = content.split(">", 1)
    ground = '<rect width="100%" height="100%" rx="8" fill="var(--ground)"/>'
    return f"{head}><style>{' '.join(style.split())}</style>{ground}{rest}"


class Front(NamedTuple):
    """A figure of README: its metrics files, drawing function, and description for screen readers."""

    files: Sequence[str]
    draw: Callable[..., Figure]
    description: str


FIGURES = {
    "known-information": Front(
        (GAUSSIANS, STAIRCASE),
        known_information,
        "Estimates of known information: which bounds stay below it, and how closely",
    ),
    "law": Front(
        tuple(REAL),
        partial(law, REAL),
        "What harder negatives gain over uniform ones, by the weight of the closest tenth",
    ),
    "later": Front((ROWS,), later, "What losses, samplers and positives after the five papers gain over IR"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the SVG. A user's mistake gives one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m annulus_lab.report.readme_figures", description=__doc__)
    parser.add_argument("figure", choices=FIGURES, help="which figure")
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    parser.add_argument("--svg", type=Path, required=True, help="the file to write")
    arguments = parser.parse_args(argv)
    metrics, front = Metrics(arguments.root), FIGURES[arguments.figure]
    try:
        rows = [metrics.rows(name) for name in front.files]
        content = standalone_svg(svg(lambda: front.draw(*rows), arguments.figure, front.description))
        write_text(arguments.svg, content)
    except (InputError, Missing, Broken) as error:
        raise SystemExit(f"ERROR: {error}") from None
    except ValueError as error:
        files = ", ".join(map(metrics_path, front.files))
        raise SystemExit(f"ERROR: a file of the figure ({files}) {error}") from None


if __name__ == "__main__":
    main()

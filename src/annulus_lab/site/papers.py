"""Page for each paper: its settings as commands, its claims, and its tables with and without a run here."""

import re
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from annulus.errors import InputError, abridge, nearest
from annulus_lab.compare.escaped import code, safe
from annulus_lab.pipeline.projects import repro
from annulus_lab.report.claims.verdicts import CLAIMS, verdict_counts, verdicts
from annulus_lab.report.page.claim_numbers import Numbers, format_numbers
from annulus_lab.report.page.content import Paper, group_by_paper
from annulus_lab.report.page.markdown import claims, measured_tables, unmeasured_tables
from annulus_lab.report.papers.comparison import compare, load_figures, load_tables
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.presets.overview import table_commands
from annulus_lab.report.presets.preset import Preset, Presets, overrides
from annulus_lab.studies.shared.study import OwnStudy


def pages(root: Path) -> dict[str, str]:
    """Pages by path.

    Raises:
        InputError: when params.yaml or a study's cannot be read.
    """
    metrics = Metrics(root)
    claim_verdicts, tables = verdicts(metrics), {comparison.table.id: comparison for comparison in compare(metrics)}
    rules = {claim.id: claim for claim in CLAIMS}
    numbers = {verdict.id: format_numbers(rules[verdict.id], verdict, metrics, tables) for verdict in claim_verdicts}
    presets = Presets(root, scale="paper")
    return {
        f"papers/{paper.key}.md": _page(root, paper, numbers, presets)
        for paper in group_by_paper(tables.values(), claim_verdicts, table_commands(root))
    }


def _page(root: Path, paper: Paper, numbers: Mapping[str, Numbers], presets: Presets) -> str:
    reference = re.search(rf"^- \*\*{paper.key}\*\*: (.*)$", (root / "README.md").read_text(encoding="utf-8"), re.M)
    blocks = [
        "---\nhide: [toc]\n---",
        f"# {safe(paper.title)}",
        f"{paper.key}: {reference[1]}" if reference else paper.key,
        f"Its claims here: {verdict_counts(paper.verdicts)}.",
        "## Settings",
        *_rows(paper.key, presets),
        *parts(root, paper.key),
        *_studies(root, paper.key),
        "## Claims",
        *claims(paper, numbers),
        "## What ran here",
        *(measured_tables(paper) or ["None of its tables."]),
        "## What did not run here",
        unmeasured_tables(paper) or "Every table ran.",
    ]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _rows(key: str, presets: Presets) -> list[str]:
    """Commands for the rows of a paper's tables, at the paper's scale."""
    tables: dict[str, list[Preset]] = {}
    for preset in presets.all.values():
        if preset.name.startswith(f"{key}."):
            tables.setdefault(preset.name.partition("/")[0], []).append(preset)
    if not tables:
        return []
    titles = _titles()
    first = next(iter(tables.values()))[0].name
    blocks = [
        "At the paper's scale, on a GPU. For another scale or study, and the hours that it takes:",
        f"```sh\nannulus preset {shlex.quote(first)} --study cifar10_algorithms --scale demo\n```",
    ]
    for name, table_presets in tables.items():
        lines = "\n\n".join(f"# {preset.name}\n{presets.line(preset)}" for preset in table_presets)
        blocks += [f"### {safe(titles.get(name, name))}", f"```sh\n{lines}\n```"]
    return blocks


def _titles() -> dict[str, str]:
    """Titles of the papers' tables and figures, by id."""
    tables = {table.id: f"{table.where}: {table.task}" for table in load_tables()}
    return tables | {figure.id: f"{figure.where}: {figure.what}" for figure in load_figures().values()}


def parts(root: Path, key: str) -> list[str]:
    """Paper's figures and tables that are parts of a study: their series, and the values of the swept setting.

    Raises:
        InputError: when a study's file cannot be read, or a part names an unknown figure.
    """
    blocks, titles = [], _titles()
    for path in sorted(root.glob("stages/*/params.yaml")):
        for name, part in (OwnStudy(path).content.get("parts") or {}).items():
            figure = part.get("figure", "none")
            if figure not in ("none", *titles):
                raise InputError(
                    f"{path}: parts.{name}.figure: {abridge(figure)} is no figure or table of the papers"
                    f"{nearest(figure, titles)}; a part that repeats none of them has no such key"
                )
            if figure.startswith(f"{key}."):
                command = code(repro(path.parent.name, f"part@{name}"))
                sweep = part.get("sweep")
                values = f", at {' and '.join(map(code, sweep['keys']))} {_join(sweep['values'])}" if sweep else ""
                blocks.append(f"**{safe(titles[figure])}**: {command}{values}")
                blocks.append(
                    "\n".join(f"- **{safe(series)}**: {_options(own)}" for series, own in part["series"].items())
                )
    return ["### Figures", *blocks] if blocks else []


def _options(settings: Mapping[str, Any]) -> str:
    return code(" ".join(overrides(settings)) or "as the study")


def _join(values: Iterable[Any]) -> str:
    return ", ".join(safe(value) for value in values)


def _studies(root: Path, key: str) -> list[str]:
    """Links to the studies whose README names the paper."""
    lines = []
    for path in sorted(root.glob("stages/*/README.md")):
        text = path.read_text(encoding="utf-8")
        if re.search(rf"\b{key}\b", text):
            title = re.search(r"^# (.*)$", text, re.M)
            lines.append(f"- [{title[1] if title else path.parent.name}](../{path.relative_to(root).as_posix()})")
    return ["### Studies", "\n".join(lines)] if lines else []

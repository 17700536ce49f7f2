"""The report as Markdown, for a pull request.

It has all verdicts and every table that ran. Other tables, figures and pictures are named with their place.
"""

from collections.abc import Iterable, Mapping, Sequence

from annulus_lab.compare.escaped import code, safe, ticks
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.verdicts import RULE, Verdict
from annulus_lab.report.figures.pictures import Pictures
from annulus_lab.report.page.claim_numbers import Numbers, rule_in_words
from annulus_lab.report.page.content import PageContent, Paper, TableSection
from annulus_lab.report.page.first_screen import HeadlineGain
from annulus_lab.report.page.further_studies import FurtherStudy
from annulus_lab.report.page.own_images import OwnImages
from annulus_lab.report.page.sections import Empty, Gains, PageFigure
from annulus_lab.report.page.sheets import Sheet
from annulus_lab.report.papers.tables import Cell, Column, Table, number

PAGE = "data/report/index.html"


def markdown(report: PageContent) -> str:
    """Returns the whole report."""
    blocks = [
        *(f"**{ticks(sentence)}.**" for sentence in report.context.outdated),
        *_own(report.own),
        *_first(report),
        "## Every table, figure and theorem",
        f"{report.state_counts}.",
        table(report.states),
        *_study("On real images", report.real),
        f"## {safe(report.law.finding)}",
        *map(_figure, report.law.figures),
        *([] if isinstance(report.law.correlations, Empty) else [table(report.law.correlations)]),
        "## Claims",
        RULE,
        f"{report.verdict_counts}.",
        *(
            block
            for paper in report.papers
            if paper.verdicts
            for block in [_title(paper), *claims(paper, report.numbers)]
        ),
        "## Papers' tables",
        *(
            block
            for paper in report.papers
            for block in [_title(paper), *measured_tables(paper), unmeasured_tables(paper)]
        ),
        *_study("Generated images", report.generated),
        *_study("All of CIFAR-10", report.long),
        *_further(report.further),
        "## Main line",
        *([f"Here: {safe(report.main_setting)}."] if report.main_setting else []),
        part(report.headline),
        *([part(report.runs)] if report.runs else []),
        *map(part, report.main),
        *map(part, report.speed),
        "## Learning curves",
        *map(_figure, report.curves),
        "## Diagnostics",
        part(report.diagnostics),
        *map(_figure, report.diagnostics_figures),
        "## Pictures",
        _pictures(report.pictures),
        *map(_sheet, report.sheets),
        "## Figures",
        f"They are drawn in {code(PAGE)}.",
        *map(_figure, report.figures),
        part(report.theorems),
        "## What was run",
        *_stages(report),
    ]
    if report.broken:
        blocks += ["## Broken files", *(f"- {code(metrics_path(b.name))}: {safe(b.reason)}" for b in report.broken)]
    return "\n\n".join(block for block in blocks if block) + "\n"


def table(content: Table) -> str:
    """Returns a table with its caption above. A heading shared by columns is repeated in each."""
    heads = [_heading(column) for column in content.columns]
    rule = ["---:" if column.numeric else "---" for column in content.columns]
    rows = [[safe(cell.text) for cell in row] for row in content.rows]
    return f"{safe(content.caption)}\n\n{_rows(heads, rule, rows)}"


def part(content: Table | Empty) -> str:
    return _empty(content) if isinstance(content, Empty) else table(content)


def _heading(column: Column) -> str:
    words = " ".join(filter(None, [column.group, column.title]))
    return safe(f"{words}, {column.unit}" if column.unit else words)


def _rows(heads: Iterable[str], rule: Iterable[str], rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [list(heads), list(rule), *rows])


def _empty(content: Empty) -> str:
    sentence = f"{'Broken' if content.broken else 'Not run'}: {ticks(content.reason)}."
    verb = "Make it again" if content.broken else "Fill it"
    return (
        f"{sentence} {verb} with {code(content.command)}."
        if content.command and content.command not in content.reason
        else sentence
    )


def _provenance(report: PageContent) -> str:
    about = report.context
    sentences = []
    if about.commit:
        changed = f", with {about.changed_files} changed or new files since" if about.changed_files else ""
        sentences.append(f"Commit {code(about.commit[:10])}{changed}.")
    if about.experiment:
        sentences.append(f"DVC experiment {code(about.experiment)}.")
    return " ".join([*sentences, f"Made {about.time}. The page with figures and pictures: {code(PAGE)}."])


def _stages(report: PageContent) -> list[str]:
    about = report.context
    blocks = [f"Broken: {safe(fault)}" for fault in about.faults]
    if about.choices:
        blocks.append(_plain("The main line's variant", ["key", "choice"], about.choices.items()))
    if about.studies:
        rows = [[s.name, *([f"broken: {s.fault}", "", ""] if s.fault else [s.dataset, s.scale, s.seeds])]
                for s in about.studies]  # fmt: skip
        blocks.append(_plain("Studies", ["study", "images", "scale", "seeds"], rows))
    if about.stages:
        heads = ["stage", "runs", "ended", "time, s", "machine", "torch", "commit", "experiment", "numbers here"]
        rows = [[s.stage, s.runs, s.end, number(s.seconds, 1), s.machine, s.torch, s.commit, s.experiment, s.numbers]
                for s in about.stages]  # fmt: skip
        blocks.append(_plain("Stages that ran on this machine, last run of each", heads, rows))
    else:
        blocks.append("No stage has run on this machine: the numbers are from git.")
    if about.parameters:
        blocks.append(_plain("All parameters of that variant", ["parameter", "value"], about.parameters.items()))
    return blocks


def _plain(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    return table(Table(caption, [Column(h, numeric=False) for h in heads], [[Cell(str(c)) for c in r] for r in rows]))


def _own(own: OwnImages | None) -> list[str]:
    """Returns the first screen of own images, with the places of the pictures."""
    if own is None:
        return []
    pictures = f"Pictures: {code('metrics/main/neighbours.png')}, {code('metrics/main/map.svg')}; all in {code(PAGE)}."
    return [f"# {safe(own.sentence)}", "\n".join(f"- {ticks(sentence)}" for sentence in own.sentences), pictures]


def _first(report: PageContent) -> list[str]:
    """Returns the finding as title, its numbers, and their commit and experiment."""
    gain, level = report.gain, "#" if report.own is None else "##"
    if isinstance(gain, HeadlineGain):
        return [f"{level} {safe(gain.sentence)}", safe(gain.details), _provenance(report), table(gain.table)]
    why = [] if report.context.outdated else [_empty(gain)]
    return [f"{level} What was measured here, beside what five papers claim", *why, _provenance(report)]


def _study(title: str, content: Gains | Empty) -> list[str]:
    """Returns each algorithm's gain over the base of its table, in pairs of a seed and a test image."""
    if isinstance(content, Empty):
        return [f"## {title}", _empty(content)]
    return [f"## {safe(content.finding)}", *_gains(content)]


def _gains(content: Gains) -> list[str]:
    return [safe(content.verdict_summary), *map(table, content.tables)]


def _further(studies: Sequence[FurtherStudy]) -> list[str]:
    """Returns the studies, or parts of them, without a place elsewhere."""
    blocks = ["## Further studies"] if studies else []
    for study in studies:
        blocks.append(f"### {safe(study.name)}")
        if isinstance(study.rows, Empty):
            blocks.append(_empty(study.rows))
        elif study.rows:
            blocks += [f"**{safe(study.rows.finding)}.**", *_gains(study.rows)]
        for name, content in study.parts.items():
            if isinstance(content, Empty):
                blocks.append(f"**{safe(name)}.** {_empty(content)}")
            else:
                figures = [_figure(content.figure)] if content.figure else []
                blocks += [
                    f"**{safe(name)}.** {safe(content.verdict_summary)}".rstrip(),
                    table(content.gains),
                    *figures,
                ]
                blocks.append(table(content.measurements))
    return blocks


def _title(paper: Paper) -> str:
    return f"### {safe(paper.title)} ({safe(paper.key)})"


def claims(paper: Paper, numbers: Mapping[str, Numbers]) -> list[str]:
    """Returns a paper's decided claims as a table with rules and numbers, and the others as a list."""
    verdicts = paper.verdicts
    decided = [verdict for verdict in verdicts if verdict.numbers and verdict.verdict not in ("not run", "broken")]
    rows = []
    for verdict in decided:
        words = f"**{safe(verdict.verdict)}**" + (f"; {safe(verdict.size_text)}" if verdict.size_text else "")
        rule = "; ".join(code(rule_in_words(one)) for one in (verdict.rule, verdict.size_rule) if one)
        rows.append([safe(verdict.claim), words, _source(verdict), _numbers(numbers[verdict.id]), rule, _why(verdict)])
    heads = ["claim", "verdict", "from", "numbers here", "rule", "reason"]
    undecided: dict[str, list[str]] = {}  # many claims share a reason
    for verdict in verdicts:
        if verdict not in decided:
            why = f"**{safe(verdict.verdict)}**: {_why(verdict)}".removesuffix(": ")
            undecided.setdefault(why, []).append(f"  - {safe(verdict.claim)} ({_source(verdict)})")
    table = [_rows(heads, ["---"] * len(heads), rows)] if rows else []
    return [*table, _nested_list(undecided)]


def _numbers(numbers: Numbers) -> str:
    """Returns a claim's numbers as one cell; a list with the label of each number."""
    texts = [f"{name} {text}" for name, text in numbers.single]
    for content in numbers.tables:
        head, *columns = content.columns
        for place, column in enumerate(columns, 1):
            values = ", ".join(f"{row[0].text}: {row[place].text}" for row in content.rows)
            texts.append(f"{column.title}{f', {column.unit},' if column.unit else ''} by {head.title}: {values}")
    return safe("; ".join(texts))


def _nested_list(items: Mapping[str, Sequence[str]]) -> str:
    """Returns a nested list: a shared reason, and its items below."""
    return "\n".join("\n".join([f"- {shared}", *its]) for shared, its in items.items())


def _source(verdict: Verdict) -> str:
    ours = "a check of our own beside " if verdict.ours else ""
    return safe(ours + (", ".join(verdict.where) or verdict.paper))  # a place begins with its paper


def _why(verdict: Verdict) -> str:
    reason = verdict.reason or ""
    complete = verdict.verdict == "held" or (verdict.command or "") in reason
    sentences = [reason, f"Here: {verdict.setting}" if verdict.setting and verdict.setting not in reason else ""]
    texts = [f"{ticks(sentence).removesuffix('.')}." for sentence in sentences if sentence]
    return " ".join([*texts, *([] if complete else [code(verdict.command)])])


def measured_tables(paper: Paper) -> list[str]:
    """Returns a paper's tables with the numbers measured here beside the printed ones."""
    blocks = []
    for entry in paper.tables:
        if entry.comparison.status != "not run":
            setting = f" ({entry.setting})" if entry.setting else ""
            blocks.append(f"**{safe(f'{_place(entry)}: {entry.comparison.coverage}{setting}')}**")
            note = f"Note: {safe(entry.comparison.table.note)}" if entry.comparison.table.note else ""
            blocks += filter(None, [_reason(entry), table(entry.table), note, _claims(entry), _commands(entry)])
    return blocks


def unmeasured_tables(paper: Paper) -> str:
    """Returns the names of the tables without a number measured here; the page has their printed values."""
    places: dict[str, list[str]] = {}
    for entry in paper.tables:
        if entry.comparison.status == "not run":
            line = ". ".join(filter(None, [safe(_place(entry)), _claims(entry).removesuffix("."), _commands(entry)]))
            places.setdefault(_reason(entry), []).append(f"  - {line}")
    return _nested_list(places)


def _claims(entry: TableSection) -> str:
    """Returns the count of a table's claims by verdict."""
    text = "; ".join(entry.claims)
    return safe(f"{text[:1].upper()}{text[1:]}.") if text else ""


def _commands(entry: TableSection) -> str:
    """Returns a table's commands at the paper's scale, with the command that prints the first."""
    if entry.commands is None:
        return ""
    first = f" ({code(entry.commands.line)})" if entry.commands.line else ""
    return f"At the paper's scale: {safe(str(entry.commands))}{first}."


def _place(entry: TableSection) -> str:
    return f"{entry.comparison.table.where}: {entry.comparison.table.task}"


def _reason(entry: TableSection) -> str:
    return _empty(entry.empty) if entry.empty else ""


def _figure(figure: PageFigure) -> str:
    where = f" {safe(figure.where)}." if figure.where else ""
    text = f"**{safe(figure.plot.title)}.**{where} {safe(figure.caption)}".rstrip()
    if figure.setting:
        text += f" Here: {safe(figure.setting)}."
    if isinstance(figure.svg, Empty):
        return f"{text}\n\n{_empty(figure.svg)}"
    text += f" {figure.plot.bars}" if figure.plot.bars else ""
    return f"{text} Drawn from {', '.join(code(metrics_path(file)) for file in figure.plot.files)}."


def _sheet(content: Sheet | Empty) -> str:
    if isinstance(content, Empty):
        return _empty(content)
    return f"**{safe(content.title)}.** {safe(content.finding)} Drawn in {code(metrics_path(content.name))}."


def _pictures(content: Pictures | Empty) -> str:
    if isinstance(content, Empty):
        return _empty(content)
    return (
        f"{len(content.neighbours)} test images with their nearest training images, and the negatives of every sampler "
        f"for {len(content.negatives)} training images: in {code(PAGE)}."
    )

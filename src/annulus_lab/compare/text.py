"""Comparison as a table for a terminal, and as Markdown for a pull request."""

from annulus_lab.compare.comparison import ComparedNumber, SideComparison, digits
from annulus_lab.compare.escaped import code, safe, ticks
from annulus_lab.compare.sides import Side

HEADS = ("number", "base", "head", "difference", "verdict", "survives")
NO_TABLE = "No numbers are compared, since metrics/ belongs to other parameters or code."


def as_text(comparison: SideComparison) -> str:
    """Text of a comparison, at most 100 columns wide: changed parameters, table, and notes on reading it."""
    lines = [*comparison.stale, "", *_sides(comparison), ""] if comparison.stale else [*_sides(comparison), ""]
    lines += [*(f"{key}: {base} -> {head}" for key, base, head in comparison.changed), *_others(comparison)]
    if comparison.stale:
        return "\n".join([*lines, "", NO_TABLE])
    cells = [HEADS, *(_cells(row) for row in comparison.rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(HEADS))]
    lines.append("")
    for row in cells:
        aligned = (
            f"{text:<{width}}" if place in (0, 4, 5) else f"{text:>{width}}"
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(aligned).rstrip())
    return "\n".join([*lines, "", *_notes(comparison)])


def as_markdown(comparison: SideComparison) -> str:
    """Markdown of a comparison, for a pull request."""
    lines = [line for sentence in comparison.stale for line in (f"**{ticks(sentence)}**", "")]
    lines += [f"{safe(line)}  " for line in _sides(comparison)]
    changed = [f"- {code(key)}: {safe(base)} → {safe(head)}" for key, base, head in comparison.changed]
    others = [f"- {line}" if changed else f"{line.capitalize()}." for line in _others(comparison)]
    lines += ["", *changed, *others]
    if comparison.stale:
        return "\n".join([*lines, "", NO_TABLE])
    lines += ["", f"| {' | '.join(HEADS)} |", "|---|---:|---:|---:|---|---|"]
    for row in comparison.rows:
        number, base, head, difference, verdict, survives = _cells(row)
        strong = "**" if verdict in ("better", "worse", "higher", "lower") else ""
        lines.append(f"| {number} | {base} | {head} | {difference} | {strong}{verdict}{strong} | {survives} |")
    return "\n".join([*lines, "", *_notes(comparison)])


def _others(comparison: SideComparison) -> list[str]:
    """Line after the changed parameters: the number of other differing parameters, or that none differs."""
    changed, others = comparison.changed, comparison.unchosen
    if not others:
        return [] if changed else ["no parameter differs"]
    count = f"{others} more" if changed else f"no chosen parameter differs, {others}"
    return [f"{count} in sections that neither side chooses"]


def _sides(comparison: SideComparison) -> list[str]:
    return [
        f"{name}: {side.name}, {_seeds(side)}, on {' and '.join(side.processors)}"
        for name, side in (("base", comparison.base), ("head", comparison.head))
    ]


def _seeds(side: Side) -> str:
    return f"seed{'s' if len(side.seeds) > 1 else ''} {', '.join(map(str, side.seeds))}"


def _cells(row: ComparedNumber) -> tuple[str, ...]:
    short, half = digits(row.number), row.difference.half
    bounds = "" if half is None else f" ± {half:.{short}f}"
    return (
        row.number,
        f"{row.base:.{short}f}",
        f"{row.head:.{short}f}",
        f"{row.difference.mean:+.{short}f}{bounds}",
        row.verdict,
        "yes" if row.survives and row.verdict in ("better", "worse", "higher", "lower") else "",
    )


def _pairs(comparison: SideComparison) -> str:
    seeds = comparison.common
    if not seeds:
        return "NOT in pairs, since the seeds differ"
    if comparison.base.seeds == comparison.head.seeds:
        return "in pairs of one seed"
    if len(seeds) == 1:
        return f"in pairs of the seed {seeds[0]}, which both have"
    listed = f"{', '.join(map(str, seeds[:-1]))} and {seeds[-1]}"
    return f"in pairs of one seed, of the seeds {listed}, which both have"


def _notes(comparison: SideComparison) -> list[str]:
    if any(row.difference.half is not None for row in comparison.rows):
        notes = [f"±: 95 % interval of the difference, {_pairs(comparison)}; of accuracies over test images too."]
    else:
        notes = [f"The differences are {_pairs(comparison)}."]
    if comparison.other_task:
        notes.append("The images are of another data set or number of classes: the tasks differ, so no side is better.")
    elif comparison.base.test_digest != comparison.head.test_digest:
        notes.append("The test images differ, so accuracies are not compared image by image.")
    chance = comparison.by_chance
    if chance.mean and not comparison.other_task:
        notes += [
            f"Of {len(comparison.rows)} numbers, {chance.mean:.1f} would differ by chance alone on average; "
            f"one at least in {chance.any_percent:.0f} % of comparisons.",
            "survives: stands if all numbers are read together (Holm's correction).",
        ]
    if comparison.base.processors != comparison.head.processors:
        notes.append(
            "The processors differ: training amplifies rounding, so runs of one seed differ as those of two seeds may."
        )
    return notes

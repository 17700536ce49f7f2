"""The report's table of the papers: every table, figure and theorem, its rows that ran here, and its state."""

from collections.abc import Iterable, Mapping, Sequence

from annulus_lab.report.claims.verdicts import VERDICTS, Verdict
from annulus_lab.report.papers.comparison import Comparison, load_figures
from annulus_lab.report.papers.tables import Cell, Column, Table
from annulus_lab.report.presets.overview import Commands, claim_lines, claims_about, counts_in_words

# State of an item: the first word whose set contains all verdicts of its claims; else it works in part.
STATES = {
    "works": {"held", "asserted by a test"},
    "only at scale": {"not run"},
    "no effect": {"no effect", "not run"},
    "undecided": {"undecided", "no effect", "not run"},
    "fails": {"did not hold", "refuted in size", "undecided", "no effect", "not run"},
}
IN_PART = "works in part"
CAPTION = (
    "What the papers have. Works: all of its claims held or are asserted by a test. Works in part: some did. Fails: "
    "none did, and one did not hold. Only at scale: it waits for the command"
)
COLUMNS = [Column(title, numeric=False) for title in ("item", "what", "state", "claims here", "at the paper's scale")]


def state_table(
    comparisons: Iterable[Comparison], verdicts: Sequence[Verdict], commands: Mapping[str, Commands]
) -> Table:
    """Returns a row for each table, each figure with claims, and each claim about neither, paper by paper."""
    rows: dict[str, list[list[Cell]]] = {}
    for comparison in comparisons:
        name = comparison.table.id
        coverage = [] if comparison.status == "not run" else [comparison.coverage]
        own, counts = commands.get(name), "; ".join(coverage + claim_lines(comparison, verdicts))
        _add(
            rows, name, f"{comparison.table.where}: {comparison.table.task}", claims_about(name, verdicts), counts, own
        )
    for name, figure in load_figures().items():
        if claims := claims_about(name, verdicts):
            _add(
                rows,
                name,
                f"{figure.where}: {figure.what}",
                claims,
                counts_in_words([each.verdict for each in claims], VERDICTS),
            )
    for claim in verdicts:
        if not claim.where and not claim.ours:
            _add(rows, claim.id, claim.claim, [claim], claim.verdict)
    papers = list(dict.fromkeys(claim.paper for claim in verdicts))
    return Table(CAPTION, COLUMNS, [row for paper in papers for row in rows.get(paper, [])])


def state(claims: Sequence[Verdict]) -> str:
    """Returns the state of an item in words, by its claims."""
    verdicts = {claim.verdict for claim in claims}
    return next((word for word, holds in STATES.items() if verdicts <= holds), IN_PART)


def in_words(table: Table) -> str:
    """Returns the number of items in each state, as text."""
    return counts_in_words([row[2].text for row in table.rows], (*STATES, IN_PART))


def _add(
    rows: dict[str, list[list[Cell]]],
    name: str,
    what: str,
    claims: Sequence[Verdict],
    counts: str,
    own: Commands | None = None,
) -> None:
    scale = f"{own}: {own.line}" if own is not None and own.line else str(own or "")
    rows.setdefault(name.partition(".")[0], []).append([*map(Cell, (name, what, state(claims), counts, scale))])

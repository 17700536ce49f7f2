"""What the papers claim, and whether it held here: each claim's rule, applied to the numbers that it names.

claims.yaml is the list; nothing about a claim is decided in this file but how its verdict is called:

    held, did not hold          the rule, on numbers that can decide it
    not run at this scale       there are numbers, but the claim is of another scale or data set
    not run                     a number is missing; `command` says what makes it, if anything does yet
    broken                      a number cannot be right, or the rule does not fit it
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from annulus.config.params import Params, nearest
from annulus.errors import InputError
from annulus.report.metrics import Broken, Metrics, Missing
from annulus.report.papers import Comparison, compare, load_figures, load_measured, load_tables
from annulus.report.published import HERE, label, read, said
from annulus.report.rules import Rule, RuleFault, Value, parse
from annulus.report.setting import Setting, read_setting

Name = str | float
DIGITS = 6  # of the numbers shown; rules see all


class Selector(Params):
    """Where a number is: a column of a metrics file, a field of a JSON file, or a column of a compared table."""

    file: str | None = None
    table: str | None = None
    column: str
    where: dict[str, Name | list[Name]] = Field(default_factory=dict)
    by: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if (self.file is None) == (self.table is None):
            raise ValueError("needs either file or table")
        if self.table is not None and self.column not in ("paper", "paper_std", "here", "here_std", "difference"):
            raise ValueError(f"column {self.column!r} is none of a table")
        return self


class Claim(Params):
    """One sentence of a paper, what it is about, and the rule that decides it."""

    id: str
    claim: str
    paper: Literal["mutualinfo", "mlcpc", "eqco", "infomin", "ring"]
    where: list[str]
    scale: Literal["any", "paper", "gpu"]
    dataset: list[str] | None = None
    values: dict[str, Selector | None] = Field(min_length=1)
    rule: str
    run: str | None
    tested: list[str] = Field(default_factory=list)

    def decided_by(self, setting: Setting) -> bool:
        """Whether numbers of this setting can decide the claim."""
        reached = {"any": True, "paper": setting.scale in ("paper", "gpu"), "gpu": setting.scale == "gpu"}[self.scale]
        known = {plain(name) for name in self.dataset or []}
        return reached and (not known or plain(setting.dataset) in known)

    def about(self) -> str:
        """Scale and data set of a claim, in words."""
        scale = "the papers' scale" + (" (`scale: gpu` of its study)" if self.scale == "gpu" else "")
        return f"{' or '.join(self.dataset)} at {scale}" if self.dataset else scale


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it; `holds` is what the rule says of the numbers here, deciding or not."""

    id: str
    claim: str
    paper: str
    where: list[str]
    verdict: Literal["held", "did not hold", "not run at this scale", "not run", "broken"]
    rule: str
    numbers: dict[str, float | list[float]]
    reason: str | None
    command: str | None
    setting: str | None = None
    holds: bool | None = None


def plain(name: str | None) -> str:
    """A data set's name without what papers and settings write differently: CIFAR-10, CIFAR10 and cifar10."""
    return (name or "").lower().replace("-", "")


def read_claims(tree: Any, source: str) -> list[tuple[Claim, Rule]]:
    """The claims of claims.yaml with their rules.

    Raises:
        InputError: for an unknown or missing key, an id that comes twice, a table or figure that the papers do not
            have, a rule that does not parse or does not use exactly its values.
    """
    known = {table.id for table in load_tables()} | set(load_figures())
    found: list[tuple[Claim, Rule]] = []
    for i, entry in enumerate(tree):
        name = entry.get("id", f"claim {i}") if isinstance(entry, dict) else f"claim {i}"
        try:
            claim = Claim.model_validate(entry)
        except ValidationError as error:
            raise InputError(f"{source}: {name}: {said(error)}") from error
        if any(other.id == name for other, _ in found):
            raise InputError(f"{source}: {name} comes twice")
        for where in claim.where:
            if where not in known:
                raise InputError(f"{source}: {name}: the papers have no {where!r}{nearest(where, known)}")
        for selector in claim.values.values():
            if selector is not None and selector.table is not None and selector.table not in load_measured():
                raise InputError(f"{source}: {name}: measured.yaml has no table {selector.table!r}")
        try:
            rule = parse(claim.rule)
        except InputError as error:
            raise InputError(f"{source}: {name}: {error}") from error
        if rule.names != set(claim.values):
            odd = ", ".join(sorted(rule.names ^ set(claim.values)))
            raise InputError(f"{source}: {name}: rule and values do not name the same: {odd}")
        found.append((claim, rule))
    return found


@cache
def load_claims() -> list[tuple[Claim, Rule]]:
    """Every claim of the papers."""
    return read_claims(read(HERE / "claims.yaml"), "claims.yaml")


def verdicts(metrics: Metrics) -> list[Verdict]:
    """Every claim of the papers with its verdict on these metrics."""
    tables = {comparison.table.id: comparison for comparison in compare(metrics)}
    return [verdict(claim, rule, metrics, tables) for claim, rule in load_claims()]


def verdict(claim: Claim, rule: Rule, metrics: Metrics, tables: Mapping[str, Comparison]) -> Verdict:
    """One claim's verdict, with whatever of its numbers there is."""
    numbers: dict[str, Value] = {}
    settings: list[Setting] = []
    faults: list[Broken | RuleFault] = []
    missing: list[str] = []
    for name, selector in claim.values.items():
        if selector is None:
            missing.append("no study here measures it yet")
            continue
        try:
            numbers[name], setting = select(selector, metrics, tables)
        except Broken as error:
            faults.append(error)
        except Missing as error:
            missing.append(str(error))
        else:
            settings.append(setting)
    holds = None
    if not faults and not missing:
        try:
            holds = rule.holds(numbers)
        except RuleFault as error:
            faults.append(error)
    undecided = next((setting for setting in settings if not claim.decided_by(setting)), None)
    if faults:
        kind, reason = "broken", str(faults[0])
    elif missing:
        tested = ", ".join(f"`tests/{name}`" for name in claim.tested)
        kind, reason = "not run", missing[0] + (f"; `make test` asserts it: {tested}" if tested else "")
    elif undecided is not None:
        says = "would hold" if holds else "would not hold"
        kind, reason = "not run at this scale", f"the claim is of {claim.about()}; here ({undecided}) it {says}"
    else:
        kind, reason = "held" if holds else "did not hold", None
    shown = {name: rounded(value) for name, value in numbers.items()}
    made = "; ".join(dict.fromkeys(str(setting) for setting in settings if str(setting))) or None
    return Verdict(
        claim.id, claim.claim, claim.paper, claim.where, kind, rule.text, shown, reason, claim.run, made, holds
    )


def select(selector: Selector, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[Value, Setting]:
    """The number or numbers that a selector names, and how they were made.

    Raises:
        Missing: when nothing has written them.
        Broken: when their file cannot be right.
    """
    if selector.table is not None:
        return _of_table(selector, tables[selector.table], metrics)
    name = str(selector.file)
    if name.endswith(".json"):
        return metrics.number(name, selector.column), read_setting(metrics, name)
    value = metrics.column(name, selector.where, selector.column, selector.by)
    return value, read_setting(metrics, name, metrics.matching(name, selector.where)[0])


def _of_table(selector: Selector, comparison: Comparison, metrics: Metrics) -> tuple[list[float], Setting]:
    file = str(comparison.file)
    if comparison.status == "broken":
        raise metrics.fault(file, (comparison.reason or "").removeprefix(f"metrics/{file}: "))
    if comparison.row is None:
        raise Missing(file, comparison.command)
    wanted = {name: label(value) for name, value in selector.where.items() if not isinstance(value, list)}
    rows = [
        row
        for row in comparison.rows
        if row.paper is not None and wanted.items() <= (row.labels | {"column": row.column or ""}).items()
    ]
    lacking = [row for row in rows if row.here is None]
    if lacking or not rows:
        told = ", ".join(f"{name} {value}" for name, value in (lacking[0].labels if lacking else wanted).items())
        raise Missing(file, comparison.command, told)
    values = [getattr(row, selector.column) for row in rows]
    if None in values:
        raise metrics.fault(file, f"{selector.table} has no {selector.column} in the row with {rows[0].labels}")
    return values, read_setting(metrics, file, comparison.row)


def rounded(value: Value) -> Value:
    """To the digits that the page shows."""
    if isinstance(value, list):
        return [float(f"{one:.{DIGITS}g}") for one in value]
    return float(f"{value:.{DIGITS}g}")

"""What the papers claim, and whether it held here: each claim's rule, applied to the numbers that it names.

claims.yaml is the list; nothing about a claim is decided in this file but how its verdict is called:

    held, did not hold          the rule, where the numbers' intervals exclude the other verdict
    undecided                   they exclude neither; the reason says how wide the interval is
    not run at this scale       there are numbers, but the claim is of another scale or data set
    not run                     a number is missing; `command` says what makes it, if anything does yet
    broken                      a number cannot be right, or the rule does not fit it
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from pydantic import Field, ValidationError

from annulus.config.params import Params, nearest
from annulus.errors import InputError
from annulus.report.metrics import Broken, Metrics, Missing
from annulus.report.papers import Comparison, compare, load_figures, load_measured, load_tables
from annulus.report.published import HERE, read, said
from annulus.report.rules import Rule, parse
from annulus.report.selectors import Selector, select
from annulus.report.setting import Setting, plain
from annulus.report.truth import Estimate, RuleFault, Truth, Value

DIGITS = 6  # of the numbers shown; rules see all
Kind = Literal["held", "did not hold", "undecided", "not run at this scale", "not run", "broken"]
VERDICTS: tuple[Kind, ...] = get_args(Kind)


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
    """A claim and what became of it; `holds` is what the rule says of the numbers here, deciding or not; None: nothing.

    In `numbers`, `gain_interval` is half of the interval of `gain`.
    """

    id: str
    claim: str
    paper: str
    where: list[str]
    verdict: Kind
    rule: str
    numbers: dict[str, float | list[float]]
    reason: str | None
    command: str | None
    setting: str | None = None
    holds: bool | None = None


def read_claims(tree: Any) -> list[tuple[Claim, Rule]]:
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
            raise InputError(f"claims.yaml: {name}: {said(error)}") from error
        if any(other.id == name for other, _ in found):
            raise InputError(f"claims.yaml: {name} comes twice")
        for where in claim.where:
            if where not in known:
                raise InputError(f"claims.yaml: {name}: the papers have no {where!r}{nearest(where, known)}")
        for selector in claim.values.values():
            if selector is not None and selector.table is not None and selector.table not in load_measured():
                raise InputError(f"claims.yaml: {name}: measured.yaml has no table {selector.table!r}")
        try:
            rule = parse(claim.rule)
        except InputError as error:
            raise InputError(f"claims.yaml: {name}: {error}") from error
        if rule.names != set(claim.values):
            odd = ", ".join(sorted(rule.names ^ set(claim.values)))
            raise InputError(f"claims.yaml: {name}: rule and values do not name the same: {odd}")
        found.append((claim, rule))
    return found


@cache
def load_claims() -> list[tuple[Claim, Rule]]:
    """Every claim of the papers."""
    return read_claims(read(HERE / "claims.yaml"))


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
    truth = None
    if not faults and not missing:
        try:
            truth = rule.truth(numbers)
        except RuleFault as error:
            faults.append(error)
    elsewhere = next((setting for setting in settings if not claim.decided_by(setting)), None)
    if faults:
        kind, reason = "broken", str(faults[0])
    elif missing:
        tested = ", ".join(f"`tests/{name}`" for name in claim.tested)
        kind, reason = "not run", missing[0] + (f"; `make test` asserts it: {tested}" if tested else "")
    elif elsewhere is not None:
        says = {True: "would hold", False: "would not hold", None: f"is undecided: {seen(claim, truth)}"}[truth.holds]
        kind, reason = "not run at this scale", f"the claim is of {claim.about()}; here ({elsewhere}) it {says}"
    elif truth.holds is None:
        kind, reason = "undecided", seen(claim, truth)
    else:
        kind, reason = "held" if truth.holds else "did not hold", None
    made = "; ".join(dict.fromkeys(str(setting) for setting in settings if str(setting))) or None
    holds = truth.holds if truth is not None else None
    return Verdict(
        claim.id, claim.claim, claim.paper, claim.where, kind, rule.text, shown(numbers), reason, claim.run, made, holds
    )


def seen(claim: Claim, truth: Truth) -> str:
    """How wide the interval of an undecided rule is, in the unit of the claim's intervals where they have one."""
    if truth.share:
        return f"a share of {2 * truth.seen:.2g} is undecided"
    if math.isinf(truth.seen):
        return "one seed shows no interval"
    columns = [selector.interval for selector in claim.values.values() if selector and selector.interval]
    units = {column.rpartition("_")[2] for column in columns}
    unit = {"percent": " points", "nats": " nats"}.get(units.pop(), "") if len(units) == 1 else ""
    return f"its interval is ± {truth.seen:.2g}{unit}"


def shown(numbers: Mapping[str, Value]) -> dict[str, float | list[float]]:
    """The numbers, and half of the interval of those that have one, to the digits that the page shows."""
    found: dict[str, float | list[float]] = {}
    for name, value in numbers.items():
        listed = value if isinstance(value, list) else [value]
        columns = {name: [one.value if isinstance(one, Estimate) else one for one in listed]}
        halves = [one.half for one in listed if isinstance(one, Estimate)]
        if halves and all(map(math.isfinite, halves)):
            columns[f"{name}_interval"] = halves
        for column, plain_numbers in columns.items():
            short = [float(f"{one:.{DIGITS}g}") for one in plain_numbers]
            found[column] = short if isinstance(value, list) else short[0]
    return found

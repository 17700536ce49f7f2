"""Verdicts on the papers' claims: each rule applied to the numbers that it names.

held, did not hold          the rule, where the numbers' intervals exclude the other verdict
undecided                   they exclude neither; the reason says how wide the interval is
not run at this scale       there are numbers, but the claim is of another scale or data set
asserted by a test          a theorem without a number in metrics/; the reason names the tests
not run                     a number is missing; `command` says what makes it, if anything does yet
broken                      a number cannot be right, or the rule does not fit it
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from annulus.report.claims import eqco, infomin, mlcpc, mutualinfo, ring
from annulus.report.claims.claim import Claim
from annulus.report.claims.truth import Estimate, RuleFault, Truth, Value
from annulus.report.papers.comparison import Comparison, compare
from annulus.report.papers.metrics import Broken, Metrics, Missing
from annulus.report.papers.setting import Setting

CLAIMS = (*mutualinfo.CLAIMS, *mlcpc.CLAIMS, *eqco.CLAIMS, *infomin.CLAIMS, *ring.CLAIMS)
DIGITS = 6  # of the numbers shown; rules see all
Kind = Literal["held", "did not hold", "undecided", "not run at this scale", "asserted by a test", "not run", "broken"]
VERDICTS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it; `holds` is what the rule says of the numbers here, deciding or not; None: nothing.

    In `numbers`, `gain_interval` is half of the interval of `gain`.
    """

    id: str
    claim: str
    paper: str
    where: Sequence[str]
    verdict: Kind
    rule: str
    numbers: dict[str, float | list[float]]
    reason: str | None
    command: str | None
    setting: str | None = None
    holds: bool | None = None


def verdicts(metrics: Metrics) -> list[Verdict]:
    """Every claim of the papers with its verdict on these metrics."""
    tables = {comparison.table.id: comparison for comparison in compare(metrics)}
    return [verdict(claim, metrics, tables) for claim in CLAIMS]


def verdict(claim: Claim, metrics: Metrics, tables: Mapping[str, Comparison]) -> Verdict:
    """One claim's verdict, with whatever of its numbers there is."""
    numbers: dict[str, Value] = {}
    settings: list[Setting] = []
    faults: list[Broken | RuleFault] = []
    missing = [] if claim.values or claim.tested else ["no study here measures it yet"]
    for name, selector in claim.values.items():
        try:
            numbers[name], setting = selector.read(metrics, tables)
        except Broken as error:
            faults.append(error)
        except Missing as error:
            missing.append(str(error))
        else:
            settings.append(setting)
    truth = None
    if claim.values and not faults and not missing:
        try:
            truth = claim.truth(numbers)
        except RuleFault as error:
            faults.append(error)
    elsewhere = next((setting for setting in settings if not claim.decided_by(setting)), None)
    if faults:
        kind, reason = "broken", str(faults[0])
    elif missing:
        kind, reason = "not run", missing[0]
    elif not claim.values:
        tests = ", ".join(f"`tests/{name}`" for name in claim.tested)
        kind, reason = "asserted by a test", f"`make test-all` asserts it: {tests}"
    elif elsewhere is not None:
        says = {True: "would hold", False: "would not hold", None: f"is undecided: {seen(claim, truth)}"}[truth.holds]
        kind, reason = "not run at this scale", f"the claim is of {claim.about()}; here ({elsewhere}) it {says}"
    elif truth.holds is None:
        kind, reason = "undecided", seen(claim, truth)
    else:
        kind, reason = "held" if truth.holds else "did not hold", None
    made = "; ".join(dict.fromkeys(str(setting) for setting in settings if str(setting))) or None
    command = next((metrics.command(selector.file) for selector in claim.values.values()), None)
    holds = truth.holds if truth is not None else None
    return Verdict(
        claim.id, claim.claim, claim.paper, claim.where, kind, claim.text, shown(numbers), reason, command, made, holds
    )


def counted(found: Sequence[Verdict]) -> list[str]:
    """Claims by verdict, in words: counts, and of the claims of another scale also what their rules say here."""
    says = {True: "would hold", False: "would not hold", None: "would be undecided"}
    told = []
    for kind in VERDICTS:
        of_kind = [verdict for verdict in found if verdict.verdict == kind]
        if kind == "not run at this scale":
            here = Counter(verdict.holds for verdict in of_kind)
            split = ", ".join(f"{here[holds]} {words}" for holds, words in says.items() if here[holds])
            told += [f"{len(of_kind)} {kind} (here {split})"] if of_kind else []
        elif of_kind:
            told.append(f"{len(of_kind)} {kind}")
    return told


def seen(claim: Claim, truth: Truth) -> str:
    """Width of the interval of an undecided rule, in the unit of the claim's intervals where they have one."""
    if truth.share:
        return f"a share of {2 * truth.seen:.2g} is undecided"
    if math.isinf(truth.seen):
        return "one seed shows no interval"
    columns = [selector.interval for selector in claim.values.values() if selector.interval]
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

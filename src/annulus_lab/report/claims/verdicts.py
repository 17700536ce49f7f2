"""Verdicts on the papers' claims: each rule applied to the numbers that it names.

One rule for all claims. The direction of a claim is decided on any data set, which stands beside the verdict. Its size
is decided on the paper's own data and scale; elsewhere it is information.

held, did not hold          the direction, where the numbers' intervals exclude the other verdict
no effect                   the interval holds 0 and lies within the smallest effect of interest
undecided                   none of these; the reason says how wide the interval is
refuted in size             of a claim about printed numbers alone: they lie outside of the intervals
asserted by a test          a theorem without a number in metrics/; the reason names the tests
not run                     a number is missing; `command` says what makes it, if anything does yet
broken                      a number cannot be right, or the rule does not fit it
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from annulus_lab.report.claims import eqco, infomin, mlcpc, mutualinfo, ring
from annulus_lab.report.claims.claim import Claim, text
from annulus_lab.report.claims.truth import SMALLEST_EFFECT, SMALLEST_PRECISION, ClaimNumber, RuleFault, Truth, Value
from annulus_lab.report.papers.comparison import Comparison, compare
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.setting import PaperSetting

CLAIMS = (*mutualinfo.CLAIMS, *mlcpc.CLAIMS, *eqco.CLAIMS, *infomin.CLAIMS, *ring.CLAIMS)
RULE = (
    "The direction of a claim is decided on any data set, which stands beside the verdict. Its size, the paper's "
    "printed number, is decided on the paper's own data and scale; elsewhere it is information. Claims read CIFAR-10 "
    "where it has the rows, else generated images. Runs of one seed are compared by their gain, else seed by seed "
    "where the file has the numbers of each seed. Where one of several comparisons would decide a rule, it does so "
    "with Bonferroni's correction for their number. No effect: the 95 % interval of a difference holds 0 and lies "
    f"within the smallest effect of interest, ± {SMALLEST_EFFECT} points (± {SMALLEST_PRECISION} of average precision; "
    "the printed effect where it is smaller). A claim that a result holds on a further data set too waits for that "
    "data set."
)
DIGITS = 6  # of the numbers shown; rules see all
Kind = Literal[
    "held", "did not hold", "no effect", "undecided", "refuted in size", "asserted by a test", "not run", "broken"
]
VERDICTS: tuple[Kind, ...] = get_args(Kind)
Size = Literal["held", "refuted", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """A claim and what became of it.

    `size`: whether the intervals hold the printed numbers; `own`: on the paper's own data and scale, where it decides.
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
    size: Size | None = None
    size_rule: str | None = None
    own: bool = False
    ours: bool = False
    directed: bool = True  # not a claim about printed numbers alone
    of_images: bool = True  # not of numbers that are computed or drawn

    @property
    def sized(self) -> str | None:
        """The verdict on the size, in words."""
        if self.size is None:
            return None
        where = "" if self.own else ", as information: not the paper's own data and scale"
        return f"size {self.size}{where}"


def verdicts(metrics: Metrics) -> list[Verdict]:
    """Every claim of the papers with its verdict on these metrics."""
    tables = {comparison.table.id: comparison for comparison in compare(metrics)}
    return [verdict(claim, metrics, tables) for claim in CLAIMS]


def verdict(claim: Claim, metrics: Metrics, tables: Mapping[str, Comparison]) -> Verdict:
    """One claim's verdict, with whatever of its numbers there is."""
    numbers: dict[str, Value] = {}
    settings: list[PaperSetting] = []
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
    truths: list[Truth] = []
    if claim.values and not faults and not missing:
        try:
            truths = [claim.truth(rule, numbers) for rule in claim.rules]
        except RuleFault as error:
            faults.append(error)
    if faults:
        kind, reason = "broken", str(faults[0])
    elif missing:
        kind, reason = "not run", missing[0]
    elif not claim.values:
        tests = ", ".join(f"`tests/{name}`" for name in claim.tested)
        kind, reason = "asserted by a test", f"`make test-all` asserts it: {tests}"
    else:
        kind, reason = _decided(claim, truths[0])
    made = "; ".join(dict.fromkeys(str(setting) for setting in settings if str(setting))) or None
    sized = claim.size is not None and bool(truths)
    return Verdict(
        id=claim.id,
        claim=claim.claim,
        paper=claim.paper,
        where=claim.where,
        verdict=kind,
        rule=text(claim.rules[0]),
        numbers=page_numbers(numbers),
        reason=reason,
        command=next((metrics.command(selector.file) for selector in claim.values.values()), None),
        setting=made,
        size={True: "held", False: "refuted", None: "undecided"}[truths[-1].holds] if sized else None,
        size_rule=text(claim.size) if claim.size is not None and claim.direction is not None else None,
        own=sized and all(map(claim.is_own, settings)),
        ours=claim.ours,
        directed=claim.direction is not None,
        of_images=claim.of_images,
    )


def _decided(claim: Claim, truth: Truth) -> tuple[Kind, str | None]:
    """The verdict on a claim's first rule, and why it is no more."""
    if truth.holds is None:
        return "undecided", seen(claim, truth)
    if truth.no_effect == "all":
        return "no effect", "the interval holds 0 and lies within the smallest effect of interest"
    part = "of a part of it the interval holds 0 and lies within the smallest effect of interest"
    kind = "held" if truth.holds else "did not hold" if claim.direction else "refuted in size"
    return kind, part if truth.no_effect else None


def counted(results: Sequence[Verdict]) -> str:
    """Claims by verdict, in words: directions, sizes, and the checks that are no paper's claims."""
    parts = [("directions", _kinds(results)), ("of these on images", _kinds(_of_images(results)))]
    for own, where in ((True, "sizes on the papers' own data and scale"), (False, "sizes elsewhere, as information")):
        sizes = [verdict.size for verdict in results if verdict.own == own and verdict.size and not verdict.ours]
        parts.append((where, Counter(sizes)))
    parts.append(("checks of our own", Counter(verdict.verdict for verdict in results if verdict.ours)))
    order = [*VERDICTS, *get_args(Size)]
    tallies = {where: sorted(tally.items(), key=lambda item: order.index(item[0])) for where, tally in parts}
    return "; ".join(
        f"{where}: {', '.join(f'{n} {kind}' for kind, n in counts)}" for where, counts in tallies.items() if counts
    )


def table(results: Sequence[Verdict]) -> list[list[str]]:
    """Both counts by paper, for all, and for those on images, with a heading; checks of our own are left out."""
    kinds = [kind for kind in VERDICTS if kind not in ("refuted in size", "broken")]
    sizes = {f"size {size}{where}": (own, size) for own, where in ((True, ""), (False, ", elsewhere"))
             for size in ("held", "refuted")}  # fmt: skip
    rows = [["paper", *kinds, *sizes]]
    by_paper = {name: [one for one in results if one.paper == name] for name in dict.fromkeys(v.paper for v in results)}
    for name, of in (by_paper | {"all": results, "all on images": _of_images(results)}).items():
        tally = _kinds(of) + Counter((verdict.own, verdict.size) for verdict in of if not verdict.ours)
        rows.append([name, *(str(tally[kind]) for kind in [*kinds, *sizes.values()])])
    return rows


def _of_images(results: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in results if verdict.of_images]


def _kinds(results: Sequence[Verdict]) -> Counter:
    """The papers' claims of a direction by verdict."""
    return Counter(verdict.verdict for verdict in results if verdict.directed and not verdict.ours)


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


def page_numbers(numbers: Mapping[str, Value]) -> dict[str, float | list[float]]:
    """The numbers, and half of the interval of those that have one, to the digits that the page shows."""
    by_name: dict[str, float | list[float]] = {}
    for name, value in numbers.items():
        listed = value if isinstance(value, list) else [value]
        columns = {name: [one.value if isinstance(one, ClaimNumber) else one for one in listed]}
        halves = [one.half for one in listed if isinstance(one, ClaimNumber)]
        if halves and all(map(math.isfinite, halves)):
            columns[f"{name}_interval"] = halves
        for column, plain_numbers in columns.items():
            short = [float(f"{one:.{DIGITS}g}") for one in plain_numbers]
            by_name[column] = short if isinstance(value, list) else short[0]
    return by_name

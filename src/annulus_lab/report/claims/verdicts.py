"""Verdicts on the papers' claims: each rule applied to the numbers that it names.

One rule holds for all claims. The direction of a claim is decided on any data set; the page prints the data set beside
the verdict. The size is decided on the paper's own data and scale; elsewhere it is information.

held, did not hold          the direction; the numbers' intervals exclude the other verdict
no effect                   the interval holds 0 and lies within the smallest effect of interest
undecided                   none of these; the reason gives the width of the interval
refuted in size             a claim about printed numbers alone; they lie outside of the intervals
asserted by a test          a theorem without a number in metrics/; the reason names the tests
not run                     a number is missing; `command` makes it, if a study does
broken                      a file is damaged, or the rule cannot be computed of its numbers
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
    "where the file has the numbers of each seed, with an interval over the seeds alone. Where one of several "
    "comparisons would decide a rule, it does so with Bonferroni's correction for their number. No effect: the 95 % "
    f"interval of a difference holds 0 and lies within the smallest effect of interest, ± {SMALLEST_EFFECT} points "
    f"(± {SMALLEST_PRECISION} of average precision; the printed effect where it is smaller)."
)
DIGITS = 6  # of the numbers on the page; rules compute with all digits
Kind = Literal[
    "held", "did not hold", "no effect", "undecided", "refuted in size", "asserted by a test", "not run", "broken"
]
VERDICTS: tuple[Kind, ...] = get_args(Kind)
Size = Literal["held", "refuted", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """A claim, its verdict and its numbers.

    `size`: verdict on the printed numbers. `own`: the numbers are of the paper's own data and scale, which decide the
    size. In `numbers`, `gain_interval` is half of the interval of `gain`.
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
    has_direction: bool = True  # False for a claim about printed numbers alone
    uses_images: bool = True  # False for numbers that are computed or drawn

    @property
    def size_text(self) -> str | None:
        """Verdict on the size, in words."""
        if self.size is None:
            return None
        where = "" if self.own else ", as information: not the paper's own data and scale"
        return f"size {self.size}{where}"


def verdicts(metrics: Metrics) -> list[Verdict]:
    """Returns the verdict on every claim of the papers."""
    tables = {comparison.table.id: comparison for comparison in compare(metrics)}
    return [verdict(claim, metrics, tables) for claim in CLAIMS]


def verdict(claim: Claim, metrics: Metrics, tables: Mapping[str, Comparison]) -> Verdict:
    """Returns the verdict on one claim, with the numbers that exist."""
    numbers: dict[str, Value] = {}
    settings: list[PaperSetting] = []
    faults: list[Broken | RuleFault] = []
    missing = [] if claim.values or claim.tests else ["no study here measures it yet"]
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
        tests = ", ".join(f"`tests/{name}`" for name in claim.tests)
        kind, reason = "asserted by a test", f"`make test-all` asserts it: {tests}"
    else:
        kind, reason = _decide(claim, truths[0])
    setting_text = "; ".join(dict.fromkeys(str(setting) for setting in settings if str(setting))) or None
    has_size = claim.size is not None and bool(truths)
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
        setting=setting_text,
        size={True: "held", False: "refuted", None: "undecided"}[truths[-1].holds] if has_size else None,
        size_rule=text(claim.size) if claim.size is not None and claim.direction is not None else None,
        own=has_size and all(map(claim.is_own, settings)),
        ours=claim.ours,
        has_direction=claim.direction is not None,
        uses_images=claim.uses_images,
    )


def _decide(claim: Claim, truth: Truth) -> tuple[Kind, str | None]:
    """Returns the verdict on a claim's first rule, and the reason if it is undecided or has no effect."""
    if truth.holds is None:
        return "undecided", interval_width(claim, truth)
    if truth.no_effect == "all":
        return "no effect", "the interval holds 0 and lies within the smallest effect of interest"
    part = "of a part of it the interval holds 0 and lies within the smallest effect of interest"
    kind = "held" if truth.holds else "did not hold" if claim.direction else "refuted in size"
    return kind, part if truth.no_effect else None


def verdict_counts(results: Sequence[Verdict]) -> str:
    """Returns the count of each verdict as text: directions, sizes, and checks of our own."""
    parts = [("directions", _kinds(results)), ("of these on images", _kinds(_image_claims(results)))]
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
    """Returns rows with a heading: counts of directions and sizes by paper, for all, and on images; no own checks."""
    kinds = [kind for kind in VERDICTS if kind not in ("refuted in size", "broken")]
    sizes = {f"size {size}{where}": (own, size) for own, where in ((True, ""), (False, ", elsewhere"))
             for size in ("held", "refuted")}  # fmt: skip
    rows = [["paper", *kinds, *sizes]]
    by_paper = {name: [one for one in results if one.paper == name] for name in dict.fromkeys(v.paper for v in results)}
    for name, group in (by_paper | {"all": results, "all on images": _image_claims(results)}).items():
        tally = _kinds(group) + Counter((verdict.own, verdict.size) for verdict in group if not verdict.ours)
        rows.append([name, *(str(tally[kind]) for kind in [*kinds, *sizes.values()])])
    return rows


def _image_claims(results: Sequence[Verdict]) -> list[Verdict]:
    return [verdict for verdict in results if verdict.uses_images]


def _kinds(results: Sequence[Verdict]) -> Counter:
    """Returns the count of the papers' directions by verdict."""
    return Counter(verdict.verdict for verdict in results if verdict.has_direction and not verdict.ours)


def interval_width(claim: Claim, truth: Truth) -> str:
    """Returns the width of an undecided rule's interval as text, in the unit that the claim's intervals share."""
    if truth.share:
        return f"a share of {2 * truth.undecided_half:.2g} is undecided"
    if math.isinf(truth.undecided_half):
        return "one seed shows no interval"
    columns = [selector.interval for selector in claim.values.values() if selector.interval]
    units = {column.rpartition("_")[2] for column in columns}
    unit = {"percent": " points", "nats": " nats"}.get(units.pop(), "") if len(units) == 1 else ""
    return f"its interval is ± {truth.undecided_half:.2g}{unit}"


def page_numbers(numbers: Mapping[str, Value]) -> dict[str, float | list[float]]:
    """Returns the numbers and half of their intervals, rounded to the page's digits."""
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

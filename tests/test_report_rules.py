"""Terms of a rule: values with intervals, and the text that the page prints."""

import math
from dataclasses import replace

import pytest
from report_root import written

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.claim import text as rule_text
from annulus_lab.report.claims.rules import Term, constant, largest, log, smallest
from annulus_lab.report.claims.selectors import Differences, estimate, exact
from annulus_lab.report.claims.truth import ClaimNumber, RuleFault, Truth
from annulus_lab.report.claims.verdicts import Verdict
from annulus_lab.report.page.claim_numbers import format_numbers, label, rule_in_words
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.papers.tables import MINUS

VALUES = {
    "peak": [1.0, 3.0, 2.0],
    "a": 1.0,
    "b": 2.0,
    "up": [1.0, 2.0, 4.0],
    "down": [3.0, 2.0, -1.0],
    "flat": [2.0] * 3,
    "short": [1.0, 2.0],
}

# Intervals: gain 2 ± 1, loss -2 ± 1, even 0.5 ± 1, border 1 ± 1; of the list 5 ± 3, 6 ± 4, 20 ± 0.
UNSURE = {
    "gain": ClaimNumber(2.0, 1.0),
    "loss": ClaimNumber(-2.0, 1.0),
    "even": ClaimNumber(0.5, 1.0),
    "border": ClaimNumber(1.0, 1.0),
    "wide": [ClaimNumber(5.0, 3.0), ClaimNumber(6.0, 4.0), ClaimNumber(20.0)],
    "one_seed": ClaimNumber(50.0, math.inf),
    "thirteen": [
        *map(ClaimNumber, (-3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8)),
        ClaimNumber(0.5, 1.0),
        ClaimNumber(20.0, 3.0),
    ],
}


def truth(rule):
    """Returns the truth of a rule for its numbers."""
    claim = Claim("eqco.made-up", "One is less than two.", rule)
    values = VALUES | UNSURE
    return claim.truth(rule, {name: values[name] for name in claim.names})


# Each rule is true; its key is its text.
TRUE = {
    "a < b": lambda a, b: a < b,
    "a <= 1 and a >= 1": lambda a: (a <= 1) & (a >= 1),
    "a > b or b > 1": lambda a, b: (a > b) | (b > 1),
    "0 < a < b": lambda a, b: a.between(0, below=b),
    "1 < b <= 2": lambda b: b.between(1, at_most=2),
    "not a > b": lambda a, b: ~(a > b),
    "not 1 < a < b": lambda a, b: ~a.between(1, below=b),
    "b > 1 and (a > b or a <= 1)": lambda a, b: (b > 1) & ((a > b) | (a <= 1)),
    "a / b <= 0.5 and a / b >= 0.5": lambda a, b: (a / b <= 0.5) & (a / b >= 0.5),
    "a + b * 3 > 6.9": lambda a, b: a + b * 3 > 6.9,
    "(a + b) * 3 < 9.1": lambda a, b: (a + b) * 3 < 9.1,
    "2 * a >= b": lambda a, b: 2 * a >= b,
    "a - (b - 3) > 1.9": lambda a, b: a - (b - 3) > 1.9,
    "a - b - 3 < -3.9": lambda a, b: a - b - 3 < -3.9,
    "a > 0.000001": lambda a: a > 0.000001,
    "b / 20 < 10 / 13": lambda b: b / 20 < constant(10) / 13,
    "all(up - down > -2.5)": lambda up, down: (up - down > -2.5).all(),
    "not all(up > 1) and not any(up > 4)": lambda up: ~(up > 1).all() & ~(up > 4).any(),
    "share(up >= 2) > 0.66 and share(up >= 2) < 0.67": lambda up: (
        ((up >= 2).share() > 0.66) & ((up >= 2).share() < 0.67)
    ),
    "min(up) >= 1 and max(up) <= 4 and max(up) > 3": lambda up: (up.min() >= 1) & (up.max() <= 4) & (up.max() > 3),
    "mean(down) > 1.3 and mean(down) < 1.4": lambda down: (down.mean() > 1.3) & (down.mean() < 1.4),
    "range(down) >= 4 and range(down) <= 4": lambda down: (down.range() >= 4) & (down.range() <= 4),
    "all(max(up, down, b) >= 2)": lambda up, down, b: (largest(up, down, b) >= 2).all(),
    "all(min(up, down, 2) <= 2)": lambda up, down: (smallest(up, down, 2) <= 2).all(),
    "max(a, b) > min(a, b)": lambda a, b: largest(a, b) > smallest(a, b),
    "first(down) > last(down)": lambda down: down.first() > down.last(),
    "all(inner(up) > 1) and all(inner(up) < 4)": lambda up: (up.inner() > 1).all() & (up.inner() < 4).all(),
    "any(inner(peak) > first(peak) and inner(peak) > last(peak))": lambda peak: peak.reverse_u(),
    "gain ~ 2.9 and gain ~ 1": lambda gain: gain.near(2.9) & gain.near(1),
    "wide ~ (8, 2.5, 20)": lambda wide: wide.near(8, 2.5, 20),
    "a ~ 1 and b - a ~ 1": lambda a, b: a.near(1) & (b - a).near(1),
    "rising(up)": lambda up: up.rising(),
    "not rising(down) and not rising(flat)": lambda down, flat: ~down.rising() & ~flat.rising(),
    "falling(down)": lambda down: down.falling(),
    "not falling(up) and not falling(flat)": lambda up, flat: ~up.falling() & ~flat.falling(),
    "max(abs(down)) <= 3 and abs(a - b) >= 1": lambda down, a, b: (abs(down).max() <= 3) & (abs(a - b) >= 1),
    "log(b) > 0.69 and log(b) < 0.7": lambda b: (log(b) > 0.69) & (log(b) < 0.7),
    "all(log(up) <= log(4) + 0.001)": lambda up: (log(up) <= log(4) + 0.001).all(),
    "gain > 0": lambda gain: gain > 0,
    "border >= 0": lambda border: border >= 0,
    "abs(even) <= 2 and abs(gain) <= 3": lambda even, gain: (abs(even) <= 2) & (abs(gain) <= 3),
    "gain > even - 0.5": lambda gain, even: gain > even - 0.5,
    "gain / 2 > 0.4": lambda gain: gain / 2 > 0.4,
    "gain / -2 ~ -1.4": lambda gain: (gain / -2).near(-1.4),
    "gain > 0 or even > 0": lambda gain, even: (gain > 0) | (even > 0),
    "-1 < even < 3": lambda even: even.between(-1, below=3),
    "all(wide > 0) and any(wide > 10)": lambda wide: (wide > 0).all() & (wide > 10).any(),
    "share(wide > 3) >= 0.3": lambda wide: (wide > 3).share() >= 0.3,
    "last(wide) > first(wide)": lambda wide: wide.last() > wide.first(),
    "mean(wide) > 7.9 and range(wide) > 11": lambda wide: (wide.mean() > 7.9) & (wide.range() > 11),
    "max(wide) >= 20 and min(wide) < 8.1": lambda wide: (wide.max() >= 20) & (wide.min() < 8.1),
    "log(gain) > 0": lambda gain: log(gain) > 0,
    "min(wide) <= first(wide)": lambda wide: wide.min() <= wide.first(),
    "gain >= gain": lambda gain: gain >= gain,
}
# A number compared with itself, such as the smallest of a list that is its first, has an exact difference of 0.
FALSE = {
    "loss > 0": lambda loss: loss > 0,
    "any(inner(up) > first(up) and inner(up) > last(up))": lambda up: up.reverse_u(),
    "gain ~ 3.1": lambda gain: gain.near(3.1),
    "wide ~ (8.7, 6, 20)": lambda wide: wide.near(8.7, 6, 20),
    "loss > 0 and even > 0": lambda loss, even: (loss > 0) & (even > 0),
    "all(wide > 9)": lambda wide: (wide > 9).all(),
    "any(wide < 1)": lambda wide: (wide < 1).any(),
    "falling(wide)": lambda wide: wide.falling(),
    "not gain > 0": lambda gain: ~(gain > 0),
    "min(wide) < first(wide)": lambda wide: wide.min() < wide.first(),
    "max(thirteen) > last(thirteen)": lambda thirteen: thirteen.max() > thirteen.last(),
}
# With half of the interval. The half-widths of a mean are averaged and those of a sum added, since the errors are
# correlated. The interval of border ends at 0, where `border > 0` does not hold. One of `wide > 3` is true and two are
# undecided. abs(loss) is 2 ± 1. Nine of the thirteen are above 0 and one is undecided.
UNDECIDED = {
    "even > 0": (lambda even: even > 0, 1),
    "border > 0": (lambda border: border > 0, 1),
    "border * -1 < 0": (lambda border: border * -1 < 0, 1),
    "not even > 0": (lambda even: ~(even > 0), 1),
    "abs(loss) <= 1": (lambda loss: abs(loss) <= 1, 1),
    "gain > 0 and even > 0": (lambda gain, even: (gain > 0) & (even > 0), 1),
    "loss > 0 or even > 0": (lambda loss, even: (loss > 0) | (even > 0), 1),
    "gain - even > 0.5": (lambda gain, even: gain - even > 0.5, 2**0.5),
    "gain + even > 1.5": (lambda gain, even: gain + even > 1.5, 2),
    "2 * gain > 2": (lambda gain: 2 * gain > 2, 2),
    "all(wide > 3)": (lambda wide: (wide > 3).all(), 4),
    "share(wide > 3) >= 0.5": (lambda wide: (wide > 3).share() >= 0.5, 1 / 3),
    "share(thirteen > 0) >= 10 / 13": (lambda thirteen: (thirteen > 0).share() >= constant(10) / 13, 1 / 26),
    "rising(wide)": (lambda wide: wide.rising(), 5),
    "mean(wide) > 9": (lambda wide: wide.mean() > 9, 7 / 3),
    "log(gain) > 0.5": (lambda gain: log(gain) > 0.5, 0.5),
    "one_seed ~ 50": (lambda one_seed: one_seed.near(50), math.inf),
    "one_seed > 0": (lambda one_seed: one_seed > 0, math.inf),
}


def test_a_rule_is_what_its_text_says_and_decided_where_the_intervals_exclude_the_other_verdict():
    for holds, rules in ((True, TRUE), (False, FALSE)):
        for text, rule in rules.items():
            assert rule_text(rule) == text
            assert truth(rule) == Truth(holds), text
    for text, (rule, half) in UNDECIDED.items():
        decision = truth(rule)
        assert rule_text(rule) == text
        assert (decision.holds, decision.undecided_half) == (None, pytest.approx(half)), text
        assert decision.share == ("share" in text), text
    both = truth(lambda even, wide: (even > 0) & ((wide > 3).share() >= 0.5))
    assert both == Truth(None, 1.0), "the widest interval with a unit"


def test_numbers_of_the_same_seeds_have_the_interval_of_their_value_for_each_seed():
    """The reference is plain loops with Student's t for three seeds, 4.3027."""
    seeds, values = (70, 71, 73), {"a": [40.0, 44.0, 45.0], "b": [41.0, 46.0, 45.5], "c": [30.0, 31.0, 36.0]}

    def number(name, of=seeds):
        return ClaimNumber(sum(values[name]) / 3, 5.0, 0.5, tuple(zip(of, values[name], strict=True)))

    def half(numbers):
        mean = sum(numbers) / 3
        return 4.3027 * (sum((one - mean) ** 2 for one in numbers) / 2 / 3) ** 0.5

    a, b, c = (Term(name, number(name)) for name in values)
    for term, plain in (
        (a - b, lambda a, b, c: a - b),
        (b - 2 * c, lambda a, b, c: b - 2 * c),
        (a + b, lambda a, b, c: a + b),
        (abs(-1 * a) - b, lambda a, b, c: a - b),
        (Term("all", [number(name) for name in values]).mean() - c, lambda a, b, c: (a + b + c) / 3 - c),
        (Term("all", [number(name) for name in values]).range(), lambda a, b, c: b - c),
    ):
        expected = [plain(*row) for row in zip(*values.values(), strict=True)]
        assert term.value.value == pytest.approx(sum(expected) / 3), term.text
        assert term.value.half == pytest.approx(half(expected), rel=1e-4), term.text
    mixed = ClaimNumber(-1.0, 5.0, 0.5, tuple(zip(seeds, (1.0, -1.0, -3.0), strict=True)))
    assert [value for _, value in abs(Term("x", mixed)).value.seeds] == [-1.0, 1.0, 3.0], "one sign for all seeds"
    narrow, wide = 4.3027 * (7 / 12 / 3) ** 0.5, 50**0.5  # of -1, -2, -0.5, and of independent numbers
    assert (a < b).value == Truth(None, pytest.approx(narrow, rel=1e-4))
    other = Term("b", number("b", of=(70, 71, 72)))
    assert (a < other).value == Truth(None, pytest.approx(wide)), "other seeds"
    without = Term("b", number("b")._replace(seeds=()))
    assert (a < without).value == Truth(None, pytest.approx(wide)), "none"
    assert (a - without).value.seeds == (a + other).value.seeds == ()
    assert (a > 39).value == Truth(None, 5.0), "an accuracy alone has the interval of its file"
    alone = ClaimNumber(2.0, math.inf, 0.5, ((70, 2.0),))
    assert (Term("x", alone) < Term("y", alone._replace(value=3.0))).value == Truth(None, math.inf), "one seed"


def test_one_of_several_comparisons_decides_with_bonferronis_correction_for_their_number():
    """The 95 % interval of a normal number is ± 1.960 deviations; corrected for three numbers it is ± 2.394."""
    wider = 2.3940 / 1.9600

    def apply(rule, *values, seeds=0):
        one = tuple((seed, 0.0) for seed in range(seeds))
        return rule(Term("x", [ClaimNumber(value, 1.0, 0.0, one) for value in values])).value

    for sure in (0.999, 1.001):
        far, holds = wider * sure, None if sure < 1 else True
        assert apply(lambda x: (x > 0).any(), far, -0.5, 0.5).holds is holds
        assert apply(lambda x: (x < 0).all(), far, -0.5, 0.5).holds is (holds if holds is None else False)
        nested = apply(lambda x: (x.first() < 0) & (x < 0).all(), far, -0.5)
        assert nested.holds is (holds if holds is None else False), "three in all"
    assert apply(lambda x: (x > 0).all(), 1.01, 1.01, 1.01).holds is True, "all of them: each for itself"
    assert apply(lambda x: (x < 0).any(), 1.01, 1.01, 1.01).holds is False
    assert apply(lambda x: (x > 0).any(), 1.1, -0.5, 0.5) == Truth(None, pytest.approx(wider, rel=1e-4))
    ratio = 3.4954 / 2.7764  # Student's t of five seeds, for two comparisons and for one
    assert apply(lambda x: (x > 0).any(), ratio * 1.001, 0.5, seeds=5).holds is True
    assert apply(lambda x: (x > 0).any(), ratio * 0.999, 0.5, seeds=5).holds is None
    assert apply(lambda x: (x > 0).any(), ratio * 0.999, 0.5).holds is True, "without seeds"
    one = ClaimNumber(1.01, 1.0)
    assert (Term("x", one) > 0).value.holds is True
    assert (~(~(Term("x", one) > 0))).value == Truth(True)


def numbers(*values, seeds=0):
    """Returns a list of numbers ± 1, with the values of some seeds or of none."""
    by_seed = tuple((seed, 0.0) for seed in range(seeds))
    return Term("x", [ClaimNumber(value, 1.0, 0.0, by_seed) for value in values])


def test_a_part_of_a_rule_counts_its_comparisons_that_can_decide_the_whole():
    """Corrected for two numbers the interval is ± 1.1436 of itself; for three 1.2214, for four 1.2744."""
    unsure = numbers(0.5).first() > 0
    for value, holds in ((1.27, None), (1.28, True)):  # three that can affirm the part, and the last
        part = (numbers(value, -0.5, -0.5) > 0).any() & (numbers(9) > 0).all()
        assert (part | unsure).value.holds is holds
    for value, holds in ((1.14, None), (1.15, True)):  # one of the part, the one closest to its border
        assert ((numbers(9, value) > 0).all() | unsure).value.holds is holds
    for value, holds in ((-1.14, None), (-1.15, False)):
        assert ((numbers(-9, value) > 0).any() & unsure).value.holds is holds
    assert ((numbers(-1.2, -9) > 0).all() & unsure).value.holds is False, "the clearest of the part"


def test_printed_numbers_of_a_list_lie_outside_of_an_interval_with_bonferronis_correction():
    for value, seeds, holds in ((1.14, 0, None), (1.15, 0, False), (1.25, 5, None), (1.26, 5, False)):
        assert numbers(value, 0.5, seeds=seeds).near(0, 0).value.holds is holds


def test_no_effect_is_an_interval_with_0_inside_half_a_point_and_of_no_other_unit_or_threshold():
    points, nats = ClaimNumber(0.1, 0.4, 0.5), ClaimNumber(0.1, 0.4)
    above, below = ClaimNumber(3.0, 1.0, 0.5), ClaimNumber(-3.0, 1.0, 0.5)
    wide = ClaimNumber(0.1, 0.41, 0.5)

    def apply(rule, *numbers):
        truth = rule(*(Term("x", number) for number in numbers)).value
        return truth.holds, truth.no_effect

    for rule, numbers, expected in (
        (lambda x: x > 0, [points], (False, "all")),
        (lambda x: x < 0, [points], (False, "all")),
        (lambda x: x > 0, [wide], (None, "")),
        (lambda x: x > 0, [nats], (None, "")),
        (lambda x: x >= 0, [points], (None, "")),  # >= claims no effect
        (lambda x: x > 0.2, [points], (None, "")),
        (lambda x: x > 0, [above], (True, "")),
        (lambda x: x > 0, [below], (False, "")),
        (lambda x, y: x > y, [ClaimNumber(50.0, 0.3, 0.5), ClaimNumber(50.0, 0.3, 0.5)], (False, "all")),
        (lambda x, y: x - y > 0, [ClaimNumber(50.0, 0.3, 0.5), ClaimNumber(50.0, 0.3, 0.5)], (False, "all")),
        (lambda x: 2 * x > 0, [ClaimNumber(0.0, 0.1, 0.5)], (None, "")),
        (lambda x: x.mean() > 0, [[points, points]], (False, "all")),
        (lambda x: (x > 0).all(), [[points, above]], (False, "part")),
        (lambda x: (x > 0).all(), [[points, wide]], (False, "part")),
        (lambda x: (x > 0).all(), [[points, points]], (False, "all")),
        (lambda x: (x > 0).all(), [[points, below]], (False, "")),
        (lambda x: (x > 0).any(), [[points, below]], (False, "part")),
        (lambda x: (x > 0).any(), [[points, wide]], (None, "")),
        (lambda x: (x > 0).any(), [[points, above]], (True, "")),
        (lambda x: ~(x > 0), [points], (True, "")),
    ):
        assert apply(rule, *numbers) == expected


def test_numbers_that_a_rule_does_not_fit_are_named():
    for rule, fault in (
        (lambda gain, even: gain * even > 0, "a product of two numbers with"),
        (lambda a, gain: a / gain > 0, "a division by a number with"),
        (lambda a, b: a / (b - 2) > 1, r"a / \(b - 2\) divides by zero"),
        (lambda up, short: (up > short).all(), "up > short: up has 3 values and short has 2 values"),
        (lambda loss: log(loss) > 0, r"log\(loss\): math domain error|log\(loss\): expected a positive input"),
        (lambda short: short.reverse_u(), r"inner\(...\) of 2 values; three have one between"),
        (lambda up: up.near(1, 2), "has 3 values and printed has 2 values"),
        (lambda a: a * 9e299 * 9e299 > 0, "is not finite"),
    ):
        with pytest.raises(RuleFault, match=fault):
            truth(rule)
    # Also if the rule does not need the value.
    claim = Claim("eqco.made-up", "", lambda a, b: (b < 1) | (a > 0).any())
    for value, fault in (([math.nan], "a is nan"), (math.inf, "a is inf"), ([], "a is an empty list")):
        with pytest.raises(RuleFault, match=fault):
            claim.truth(claim.direction, {"a": value, "b": 0.0})


def test_a_rule_that_is_written_wrongly_says_how_to_write_it():
    for rule, fault in (
        (lambda a, b: a < 1 and b < 3, r"a < 1 may be undecided; write & \| ~ for and, or, not"),
        (lambda a: 0 < a < 2, "`between` for a < b < c"),
        (lambda a: a.mean() > 0, r"mean\(a\): a is no list"),
        (lambda up: up > 0, r"eqco\.made-up: up > 0 is a list or a number; a rule ends with one comparison, \.all\(\)"),
        (lambda a, b: a + b, r"a \+ b is a list or a number"),
    ):
        with pytest.raises(TypeError, match=fault):
            truth(rule)


def test_names_and_rules_are_told_as_a_person_says_them():
    names = ("iring_gain", "at_0_4", "x_0_05", "k4096", "p10_nce", "alpha_05", "nn1_top1")
    words = ["IRing gain", "at 0.4", "x 0.05", "K = 4096", "10 % NCE", "alpha 0.5", "1-NN top-1"]
    assert [label(name) for name in names] == words
    rule = f"IRing gain ≥ 0 and at 0.4 {MINUS} 2 \N{MULTIPLICATION SIGN} K = 8 ≤ {MINUS}0.5"
    assert rule_in_words("iring_gain >= 0 and at_0_4 - 2 * k8 <= -0.5") == rule


def test_a_number_is_told_in_words_a_long_list_by_its_ends_and_short_ones_of_the_same_rows_as_one_table(tmp_path):
    rows = [
        {
            "value": value,
            "row": f"row_{value}",
            "x_gain_percent": value,
            "x_percent": value,
            "half": 0.25,
            "y_nats": value,
        }
        for value in (1, 2, 3)
    ]
    written(tmp_path, "s/a.csv", rows)
    gain, nats = ("s/a.csv", "x_gain_percent", "half"), ("s/a.csv", "y_nats")
    values = {"up": estimate(*gain, by=["row"]), "down": exact(*nats, by=["row"]), "one": estimate(*gain, value=2)}
    values |= {"long": exact(*nats), "other": exact(*nats, by=["value"]), "lost": exact(*nats)}
    values |= {"over": Differences("ring.table1a"), "nn1_top1": exact("s/a.csv", "x_percent")}
    numbers = {"up": [1.5, 3.0, 4.5], "up_interval": [0.25] * 3, "down": [3.0, 2.0, -1.0], "other": [0.5, 0.25]}
    numbers |= {"one": 2.0, "one_interval": 0.5, "long": [9.0, *map(float, range(1, 9))], "over": [1.0]}
    numbers["nn1_top1"] = 50.0
    claim = Claim("ring.made-up", "All is well.", lambda **_: None, values=values)
    verdict = Verdict(claim.id, claim.claim, "ring", (), "held", "", numbers, None, None)
    output = format_numbers(claim, verdict, Metrics(tmp_path), {})
    alone = [("one", "2.0 ± 0.5 points"), ("long", "9 values, 1 to 9 nats"), ("1-NN top-1", "50 %")]
    assert output.single == alone
    both, places = (
        [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
        for table in output.tables
    )
    assert both == [
        ["row", "up", "down"],
        ["row 1", "1.50 ± 0.25", "3"],
        ["row 2", "3.00 ± 0.25", "2"],
        ["row 3", "4.50 ± 0.25", f"{MINUS}1"],
    ]
    assert places == [["place", "other"], ["1", "0.50"], ["2", "0.25"]], "its file has other rows by now"
    decided = replace(verdict, own=True)
    assert ("over", "1") in format_numbers(claim, decided, Metrics(tmp_path), {}).single

"""The language of rules: what it computes, and that it refuses everything else by name."""

import math

import pytest

from annulus.errors import InputError
from annulus.report.rules import FUNCTIONS, parse
from annulus.report.truth import Estimate, RuleFault, Truth

VALUES = {"a": 1.0, "b": 2.0, "up": [1.0, 2.0, 4.0], "down": [3.0, 2.0, -1.0], "flat": [2.0] * 3, "short": [1.0, 2.0]}


RULES = """a < b; a <= 1 and a >= 1; a > b or b > 1; a < b < 3 and not a < b < 2 and a / b <= 0.5
    0 - a < -0.5 and -a > -1.5; a + b * 3 > 6.9 and (a + b) * 3 < 9.1; share(up >= 2) > 0.66 and share(up >= 2) < 0.67
    all(up - down > -2.5); min(up) >= 1 and max(up) <= 4 and max(up) > 3; mean(down) > 1.3 and mean(down) < 1.4
    all(max(up, down, b) >= 2) and all(min(up, down, b) <= 2); not all(up > 1); not any(up > 4); not all(1 <= up < 4)
    max(a, b) <= 2 and min(a, b) >= 1 and max(a, b) > min(a, b); range(down) >= 4 and range(down) <= 4
    first(down) > last(down) and at(down, 1) <= 2 and at(down, 1) >= 2; len(short) >= 2 and len(short) <= 2
    rising(up) and not rising(down) and not rising(flat); falling(down) and not falling(up) and not falling(flat)
    max(abs(down)) <= 3 and abs(-a) >= 1; log(b) > 0.69 and log(b) < 0.7 and all(log(up) >= 0)"""


def test_a_rule_is_what_it_says_and_every_function_is_among_these():
    for rule in RULES.replace("\n", ";").split(";"):
        assert parse(rule.strip()).truth(VALUES) == Truth(True), rule
    assert [name for name in FUNCTIONS if f"{name}(" not in RULES] == []
    rule = parse("all(up - a > 0)\n  and b < 3")
    assert rule.names == {"up", "a", "b"}
    assert rule.text == "all(up - a > 0) and b < 3"


# Intervals: gain 2 ± 1, loss -2 ± 1, even 0.5 ± 1, border 1 ± 1; of the list 5 ± 3, 6 ± 4, 20 ± 0.
UNSURE = {
    "gain": Estimate(2.0, 1.0),
    "loss": Estimate(-2.0, 1.0),
    "even": Estimate(0.5, 1.0),
    "border": Estimate(1.0, 1.0),
    "list": [Estimate(5.0, 3.0), Estimate(6.0, 4.0), Estimate(20.0)],
    "one_seed": Estimate(50.0, math.inf),
    "thirteen": [*map(Estimate, (-3, -2, -1, 1, 2, 3, 4, 5, 6, 7, 8)), Estimate(0.5, 1.0), Estimate(20.0, 3.0)],
}


TRUE = """gain > 0; border >= 0; abs(even) <= 2 and abs(gain) <= 3; gain > even - 0.5; gain / 2 > 0.4
    gain > 0 or even > 0; -1 < even < 3; all(list > 0); any(list > 10); share(list > 3) >= 0.3
    last(list) > first(list); mean(list) > 7.9; range(list) > 11; max(list) >= 20 and min(list) < 8.1; log(gain) > 0
    min(list) <= first(list); gain >= gain"""
# A number that meets itself, such as the smallest of a list that is its first, differs from itself by nothing.
FALSE = """loss > 0; loss > 0 and even > 0; all(list > 9); any(list < 1); falling(list); not gain > 0
    min(list) < first(list); max(thirteen) > last(thirteen)"""
# With half of the interval. Those of a mean or a sum add up, as of numbers that err together. The interval of border
# ends at 0, where `border > 0` does not hold; of `list > 3` one
# is true and two may be; abs(loss) is 2 ± 1.
UNDECIDED = {
    **dict.fromkeys(["even > 0", "border > 0", "-border < 0", "not even > 0", "abs(loss) <= 1"], 1),
    **dict.fromkeys(["gain > 0 and even > 0", "loss > 0 or even > 0"], 1),
    **{
        "gain - even > 0.5": 2**0.5,
        "gain + even > 1.5": 2,
        "2 * gain > 2": 2,
        "all(list > 3)": 4,
        "share(list > 3) >= 0.5": 1 / 3,
    },
    **{"share(thirteen > 0) >= 10 / 13": 1 / 26},  # nine are true, the tenth may be
    **{"rising(list)": 5, "mean(list) > 9": 7 / 3, "log(gain) > 0.5": 0.5, "one_seed > 0": math.inf},
}


def test_a_rule_is_decided_where_its_intervals_exclude_the_other_verdict():
    for rules, holds in ((TRUE, True), (FALSE, False)):
        for rule in rules.replace("\n", ";").split(";"):
            assert parse(rule.strip()).truth(UNSURE) == Truth(holds), rule
    for rule, seen in UNDECIDED.items():
        truth = parse(rule).truth(UNSURE)
        assert (truth.holds, truth.seen) == (None, pytest.approx(seen)), rule


def test_numbers_that_a_rule_does_not_fit_are_named():
    for rule, fault in {
        "gain * even > 0": "a product of two numbers with",
        "1 / gain > 0": "a division by a number with",
        "a / (b - 2) > 1": r"a / \(b - 2\) divides by zero",
        "all(up > short)": "up > short: up has 3 values and short has 2 values",
        "up > 0": r"up > 0 is a list; put all\(...\) or any\(...\) around it",
        "a + b": r"a \+ b is a number, where true or false is meant",
        "(a > b) + 1 > 0": "a > b is true or false where a number is meant",
        "all(up)": r"all\(up\): all is of comparisons of lists",
        "mean(a) > 0": r"mean\(a\): a is one number, mean is of a list",
        "at(up, 3) > 0": r"at\(..., 3\) of 3 values; places count from 0",
        "a * 9e299 * 9e299 > 0": "is not finite",
    }.items():
        with pytest.raises(RuleFault, match=fault):
            parse(rule).truth(VALUES | UNSURE)
    # Even where the rule would not need the value.
    for values, fault in (({"a": math.nan}, "a is nan"), ({"a": []}, "a is an empty list"), ({}, "a has no value")):
        with pytest.raises(RuleFault, match=fault):
            parse("b < 1 or any(a > 0)").truth({"b": 0.0} | values)


def test_everything_else_is_refused_by_name():
    for rule, fault in {
        "__import__('os').system('true')": "is not understood",
        "open('x') > 1": r"no function 'open' \(known: abs, all, any",
        "meen(a) > 1": "no function 'meen'; did you mean 'mean'",
        "a.real > 1": r"a\.real is not understood",
        "a == b": "a == b is not understood",
        "a < 1e999": "is not understood",
        "range < 1": r"range is a function; write range\(...\)",
        "mean(a, b) > 1": "mean takes one list",
        "at(a) > 1": "at takes a list and a place",
        "a <": "is no expression",
    }.items():
        with pytest.raises(InputError, match=fault):
            parse(rule)

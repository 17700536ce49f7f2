"""The language of rules: what it computes, and that it refuses everything else by name."""

import math

import pytest

from annulus.errors import InputError
from annulus.report.rules import FUNCTIONS, RuleFault, parse

VALUES = {"a": 1.0, "b": 2.0, "up": [1.0, 2.0, 4.0], "down": [3.0, 2.0, -1.0], "flat": [2.0] * 3, "short": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("rule", "holds"),
    [
        ("a < b", True),
        ("a <= 1 and a >= 1", True),
        ("a > b or b > 1", True),
        ("a < b < 3 and not a < b < 2 and a / b <= 0.5", True),
        ("0 - a < -0.5 and -a > -1.5", True),
        ("a + b * 3 > 6.9 and (a + b) * 3 < 9.1", True),
        ("all(up > 1)", False),
        ("any(up > 4)", False),
        ("share(up >= 2) > 0.66 and share(up >= 2) < 0.67", True),
        ("all(up - down > -2.5)", True),
        ("all(1 <= up < 4)", False),
        ("min(up) >= 1 and max(up) <= 4 and max(up) > 3", True),
        ("all(max(up, down, b) >= 2) and all(min(up, down, b) <= 2)", True),
        ("max(a, b) <= 2 and min(a, b) >= 1 and max(a, b) > min(a, b)", True),
        ("mean(down) > 1.3 and mean(down) < 1.4", True),
        ("first(down) > last(down) and at(down, 1) <= 2 and at(down, 1) >= 2", True),
        ("range(down) >= 4 and range(down) <= 4", True),
        ("rising(up) and not rising(down) and not rising(flat)", True),
        ("falling(down) and not falling(up) and not falling(flat)", True),
        ("len(short) >= 2 and len(short) <= 2", True),
        ("max(abs(down)) <= 3 and abs(-a) >= 1", True),
        ("log(b) > 0.69 and log(b) < 0.7 and all(log(up) >= 0)", True),
    ],
)
def test_a_rule_is_what_it_says(rule, holds):
    assert parse(rule).holds(VALUES) is holds


def test_a_rule_knows_its_names_and_may_stand_on_several_lines():
    rule = parse("all(up - a > 0)\n  and b < 3")
    assert rule.names == {"up", "a", "b"}
    assert rule.text == "all(up - a > 0) and b < 3"


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("a / (b - 2) > 1", r"a / \(b - 2\) divides by zero"),
        ("all(up > short)", "up > short: up has 3 values and short has 2 values"),
        ("up > 0", r"up > 0 is a list; put all\(...\) or any\(...\) around it"),
        ("a + b", r"a \+ b is a number, where true or false is meant"),
        ("(a > b) + 1 > 0", "a > b is true or false where a number is meant"),
        ("all(up)", r"all\(up\): all is of comparisons of lists"),
        ("mean(a) > 0", r"mean\(a\): a is one number, mean is of a list"),
        ("at(up, 3) > 0", r"at\(..., 3\) of 3 values; places count from 0"),
        ("a * 9e299 * 9e299 > 0", "is not finite"),
    ],
)
def test_numbers_that_a_rule_does_not_fit_are_named(rule, fault):
    with pytest.raises(RuleFault, match=fault):
        parse(rule).holds(VALUES)


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"a": math.nan}, "a is nan"),
        ({"a": []}, "a is an empty list"),
        ({}, "a has no value"),
    ],
)
def test_a_value_that_is_no_number_is_named_even_where_the_rule_would_not_need_it(values, fault):
    with pytest.raises(RuleFault, match=fault):
        parse("b < 1 or any(a > 0)").holds({"b": 0.0} | values)


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        ("__import__('os').system('true')", "is not understood"),
        ("open('x') > 1", r"no function 'open' \(known: abs, all, any"),
        ("meen(a) > 1", "no function 'meen'; did you mean 'mean'"),
        ("a.real > 1", r"a\.real is not understood"),
        ("a == b", "a == b is not understood"),
        ("a < 1e999", "is not understood"),
        ("range < 1", r"range is a function; write range\(...\)"),
        ("mean(a, b) > 1", "mean takes one list"),
        ("at(a) > 1", "at takes a list and a place"),
        ("a <", "is no expression"),
    ],
)
def test_everything_else_is_refused_by_name(rule, fault):
    with pytest.raises(InputError, match=fault):
        parse(rule)


def test_every_function_is_in_the_tests_of_what_rules_say():
    marks = test_a_rule_is_what_it_says.pytestmark[0].args[1]
    assert {name for name in FUNCTIONS if not any(f"{name}(" in rule for rule, _ in marks)} == set()

"""A claim's rule: one expression over named numbers that is true, false or undecided.

    estimates <= ceilings and last(estimates) > 1.2 * first(estimates)

Numbers, names, + - * /, comparisons, and/or/not and the functions below; lists of one length go element by element, a
single number goes with every element. Nothing else is understood, and nothing is run by Python's own eval.

A number may have a 95 % interval; a comparison is undecided where that of the difference excludes neither verdict.
"""

import ast
import itertools
import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from annulus.config.params import nearest
from annulus.errors import InputError
from annulus.report.truth import (
    Estimate,
    RuleFault,
    Truth,
    Value,
    compared,
    difference,
    every,
    mean,
    product,
    quotient,
    share,
    some,
    steps,
    summed,
)


def _at(values: list[Estimate], place: Estimate) -> Estimate:
    if place.value != int(place.value) or not 0 <= place.value < len(values):
        raise RuleFault(f"at(..., {place.value:g}) of {len(values)} values; places count from 0")
    return values[int(place.value)]


# Of one list. `range` is largest minus smallest; rising and falling are strict.
OF_A_LIST: dict[str, Callable[..., Any]] = {
    "mean": mean,
    "first": operator.itemgetter(0),
    "last": operator.itemgetter(-1),
    "range": lambda values: difference(max(values), min(values)),
    "len": lambda values: Estimate(float(len(values))),
    "rising": steps(operator.gt),
    "falling": steps(operator.lt),
}
OF_COMPARISONS: dict[str, Callable[..., Any]] = {"all": every, "any": some, "share": share}
OF_EACH: dict[str, Callable[..., Estimate]] = {
    "abs": lambda one: Estimate(abs(one.value), one.half),
    "log": lambda one: Estimate(math.log(one.value), one.half / one.value),
}
# One list, or element by element: the number with the largest or smallest value, and its interval.
OF_ONE_OR_SEVERAL: dict[str, Callable[..., Estimate]] = {
    "min": lambda *several: min(*several) if len(several) > 1 else min(several[0]),
    "max": lambda *several: max(*several) if len(several) > 1 else max(several[0]),
}
FUNCTIONS = {*OF_A_LIST, *OF_COMPARISONS, *OF_EACH, *OF_ONE_OR_SEVERAL, "at"}

ARITHMETIC = {
    ast.Add: summed,
    ast.Sub: difference,
    ast.Mult: product,
    ast.Div: quotient,
}
COMPARISONS = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}


@dataclass(frozen=True)
class Rule:
    """A rule that parses; `names` are the numbers it needs."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def truth(self, values: Mapping[str, Value]) -> Truth:
        """Whether the rule is true of these numbers.

        Raises:
            RuleFault: for a number that is not finite, a division by zero, lists of unlike length, or a rule that
                gives a number or a list where true or false is meant.
        """
        for name in sorted(self.names):
            if name not in values:
                raise RuleFault(f"{name} has no value")
            listed = _measured(values[name])
            if not listed:
                raise RuleFault(f"{name} is an empty list")
            for one in listed if isinstance(listed, list) else [listed]:
                if not math.isfinite(one.value):
                    raise RuleFault(f"{name} is {one.value}")
        return _truth(self.tree, _value(self.tree, values))


def parse(text: str) -> Rule:
    """A rule from its text.

    Raises:
        InputError: when it is no expression, or uses what the language does not have.
    """
    try:
        tree = ast.parse(" ".join(text.split()), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise InputError(f"rule {text!r} is no expression: {error}") from error
    names: set[str] = set()
    _check(tree, names, text)
    return Rule(" ".join(text.split()), tree, frozenset(names))


def _check(node: ast.expr, names: set[str], text: str) -> None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool) and abs(value) < 1e300:
            return
        case ast.Name(id=name):
            if name in FUNCTIONS:
                raise InputError(f"rule {text!r}: {name} is a function; write {name}(...)")
            names.add(name)
            return
        case ast.BinOp(op=op) if type(op) in ARITHMETIC:
            children = [node.left, node.right]
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            children = [node.operand]
        case ast.BoolOp():
            children = node.values
        case ast.Compare() if all(type(op) in COMPARISONS for op in node.ops):
            children = [node.left, *node.comparators]
        case ast.Call(func=ast.Name(id=name), keywords=[]):
            if name not in FUNCTIONS:
                known = ", ".join(sorted(FUNCTIONS))
                raise InputError(f"rule {text!r}: no function {name!r}{nearest(name, FUNCTIONS)} (known: {known})")
            most = 2 if name == "at" else math.inf if name in OF_ONE_OR_SEVERAL else 1
            if not (2 if name == "at" else 1) <= len(node.args) <= most:
                raise InputError(f"rule {text!r}: {name} takes {'a list and a place' if name == 'at' else 'one list'}")
            children = node.args
        case _:
            raise InputError(
                f"rule {text!r}: {ast.unparse(node)} is not understood; a rule has numbers, names, + - * /, "
                "< <= > >=, and, or, not, and functions"
            )
    for child in children:
        _check(child, names, text)


def _value(node: ast.expr, values: Mapping[str, Value]) -> Any:
    match node:
        case ast.Constant(value=value):
            return Estimate(float(value))
        case ast.Name(id=name):
            return _measured(values[name])
        case ast.BoolOp(op=op, values=parts):
            truths = [_truth(part, _value(part, values)) for part in parts]
            return every(truths) if isinstance(op, ast.And) else some(truths)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return _truth(part, _value(part, values)).negated()
        case ast.UnaryOp(operand=part):
            return _each(lambda one: Estimate(-one.value, one.half), [(part, _numbers(part, values))], node)
        case ast.BinOp(left=left, op=op, right=right):
            sides = [(side, _numbers(side, values)) for side in (left, right)]
            return _each(ARITHMETIC[type(op)], sides, node)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [(side, _numbers(side, values)) for side in (left, *comparators)]
            return _each(partial(_chain, [COMPARISONS[type(op)] for op in ops]), sides, node)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, arguments, values, node)
    raise AssertionError(ast.dump(node))  # _check lets nothing else through


def _measured(value: Value) -> Estimate | list[Estimate]:
    if isinstance(value, list):
        return [one if isinstance(one, Estimate) else Estimate(float(one)) for one in value]
    return value if isinstance(value, Estimate) else Estimate(float(value))


def _chain(comparisons: list[Callable[[float, float], bool]], *row: Estimate) -> Truth:
    """a < b <= c: each comparison between its neighbours."""
    return every(compared(holds, *pair) for holds, pair in zip(comparisons, itertools.pairwise(row), strict=True))


def _call(name: str, arguments: list[ast.expr], values: Mapping[str, Value], node: ast.expr) -> Any:
    if name in OF_COMPARISONS:
        truths = _value(arguments[0], values)
        if not (isinstance(truths, list) and all(isinstance(truth, Truth) for truth in truths)):
            raise RuleFault(f"{ast.unparse(node)}: {name} is of comparisons of lists")
        return OF_COMPARISONS[name](truths)
    found = [_numbers(argument, values) for argument in arguments]
    if name in OF_EACH or (len(found) > 1 and name in OF_ONE_OR_SEVERAL):
        function = OF_EACH.get(name) or OF_ONE_OR_SEVERAL[name]
        return _each(function, list(zip(arguments, found, strict=True)), node)
    if not isinstance(found[0], list):
        raise RuleFault(f"{ast.unparse(node)}: {ast.unparse(arguments[0])} is one number, {name} is of a list")
    if name == "at":
        if isinstance(found[1], list):
            raise RuleFault(f"{ast.unparse(node)}: the place is a list")
        return _at(*found)
    return (OF_A_LIST.get(name) or OF_ONE_OR_SEVERAL[name])(found[0])


def _numbers(node: ast.expr, values: Mapping[str, Value]) -> Estimate | list[Estimate]:
    value = _value(node, values)
    if any(isinstance(one, Truth) for one in (value if isinstance(value, list) else [value])):
        raise RuleFault(f"{ast.unparse(node)} is true or false where a number is meant")
    return value


def _each(function: Callable[..., Any], sides: list[tuple[ast.expr, Estimate | list[Estimate]]], node: ast.expr) -> Any:
    """The function element by element; a single number goes with every element."""
    lengths = {ast.unparse(side): len(value) for side, value in sides if isinstance(value, list)}
    if len(set(lengths.values())) > 1:
        told = " and ".join(f"{side} has {length} values" for side, length in lengths.items())
        raise RuleFault(f"{ast.unparse(node)}: {told}")
    length = max(lengths.values(), default=1)
    columns = [value if isinstance(value, list) else [value] * length for _, value in sides]
    try:
        found = [function(*row) for row in zip(*columns, strict=True)]
    except ZeroDivisionError as error:
        raise RuleFault(f"{ast.unparse(node)} divides by zero") from error
    except ValueError as error:  # the logarithm of what is not positive
        raise RuleFault(f"{ast.unparse(node)}: {error}") from error
    if not all(isinstance(one, Truth) or math.isfinite(one.value) for one in found):
        raise RuleFault(f"{ast.unparse(node)} is not finite")
    return found if lengths else found[0]


def _truth(node: ast.expr, value: Any) -> Truth:
    if isinstance(value, Truth):
        return value
    kind = "a list; put all(...) or any(...) around it" if isinstance(value, list) else "a number"
    raise RuleFault(f"{ast.unparse(node)} is {kind}, where true or false is meant")

"""A claim's rule: one expression over named numbers that is true or false.

    estimates <= ceilings and last(estimates) > 1.2 * first(estimates)

Numbers, names, + - * /, comparisons, and/or/not and the functions below; lists of one length go element by element, a
single number goes with every element. Nothing else is understood, and nothing is run by Python's own eval.
"""

import ast
import itertools
import math
import operator
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from annulus.config.params import nearest
from annulus.errors import InputError

Value = float | list[float]


class RuleFault(Exception):
    """A rule that these numbers do not fit: a NaN, a division by zero, lists of unlike length."""


def _steps(compare: Callable[[float, float], bool]) -> Callable[[list[float]], bool]:
    return lambda values: all(compare(after, before) for before, after in itertools.pairwise(values))


def _at(values: list[float], place: float) -> float:
    if place != int(place) or not 0 <= place < len(values):
        raise RuleFault(f"at(..., {place:g}) of {len(values)} values; places count from 0")
    return values[int(place)]


# Of one list. `range` is largest minus smallest; rising and falling are strict.
OF_A_LIST: dict[str, Callable[..., Any]] = {
    "mean": statistics.fmean,
    "first": operator.itemgetter(0),
    "last": operator.itemgetter(-1),
    "range": lambda values: max(values) - min(values),
    "len": lambda values: float(len(values)),
    "rising": _steps(operator.gt),
    "falling": _steps(operator.lt),
}
OF_COMPARISONS: dict[str, Callable[..., Any]] = {
    "all": all,
    "any": any,
    "share": lambda truths: sum(truths) / len(truths),  # of the comparisons that are true
}
OF_EACH: dict[str, Callable[..., float]] = {"abs": abs, "log": math.log}
OF_ONE_OR_SEVERAL: dict[str, Callable[..., float]] = {"min": min, "max": max}  # one list, or element by element
FUNCTIONS = {*OF_A_LIST, *OF_COMPARISONS, *OF_EACH, *OF_ONE_OR_SEVERAL, "at"}

ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}
COMPARISONS = {ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge}


@dataclass(frozen=True)
class Rule:
    """A rule that parses; `names` are the numbers it needs."""

    text: str
    tree: ast.expr
    names: frozenset[str]

    def holds(self, values: Mapping[str, Value]) -> bool:
        """Whether the rule is true of these numbers.

        Raises:
            RuleFault: for a number that is not finite, a division by zero, lists of unlike length, or a rule that
                gives a number or a list where true or false is meant.
        """
        for name in sorted(self.names):
            if name not in values:
                raise RuleFault(f"{name} has no value")
            listed = values[name] if isinstance(values[name], list) else [values[name]]
            if not listed:
                raise RuleFault(f"{name} is an empty list")
            for value in listed:
                if not math.isfinite(value):
                    raise RuleFault(f"{name} is {value}")
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
            return float(value)
        case ast.Name(id=name):
            value = values[name]
            return [float(one) for one in value] if isinstance(value, list) else float(value)
        case ast.BoolOp(op=op, values=parts):
            truths = [_truth(part, _value(part, values)) for part in parts]
            return all(truths) if isinstance(op, ast.And) else any(truths)
        case ast.UnaryOp(op=ast.Not(), operand=part):
            return not _truth(part, _value(part, values))
        case ast.UnaryOp(operand=part):
            return _each(operator.neg, [(part, _numbers(part, values))], node)
        case ast.BinOp(left=left, op=op, right=right):
            sides = [(side, _numbers(side, values)) for side in (left, right)]
            return _each(ARITHMETIC[type(op)], sides, node)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            sides = [(side, _numbers(side, values)) for side in (left, *comparators)]
            return _each(partial(_chain, [COMPARISONS[type(op)] for op in ops]), sides, node)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _call(name, arguments, values, node)
    raise AssertionError(ast.dump(node))  # _check lets nothing else through


def _chain(comparisons: list[Callable[[float, float], bool]], *row: float) -> bool:
    """a < b <= c: each comparison between its neighbours."""
    return all(holds(*pair) for holds, pair in zip(comparisons, itertools.pairwise(row), strict=True))


def _call(name: str, arguments: list[ast.expr], values: Mapping[str, Value], node: ast.expr) -> Any:
    if name in OF_COMPARISONS:
        truths = _value(arguments[0], values)
        if not (isinstance(truths, list) and all(isinstance(truth, bool) for truth in truths)):
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


def _numbers(node: ast.expr, values: Mapping[str, Value]) -> Value:
    value = _value(node, values)
    if any(isinstance(one, bool) for one in (value if isinstance(value, list) else [value])):
        raise RuleFault(f"{ast.unparse(node)} is true or false where a number is meant")
    return value


def _each(function: Callable[..., Any], sides: list[tuple[ast.expr, Value]], node: ast.expr) -> Any:
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
    if not all(isinstance(value, bool) or math.isfinite(value) for value in found):
        raise RuleFault(f"{ast.unparse(node)} is not finite")
    return found if lengths else found[0]


def _truth(node: ast.expr, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    kind = "a list; put all(...) or any(...) around it" if isinstance(value, list) else "a number"
    raise RuleFault(f"{ast.unparse(node)} is {kind}, where true or false is meant")

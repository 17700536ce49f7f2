"""Terms of a claim's rule: arithmetic and comparisons of numbers with intervals, and the text that the page prints.

    rule=lambda estimates, ceilings: (estimates <= ceilings).all() & (estimates.last() > 1.2 * estimates.first())

has the text `all(estimates <= ceilings) and last(estimates) > 1.2 * first(estimates)`. Lists of one length combine
element by element; a single number combines with every element. And, or, not are & | ~, with comparisons in
parentheses, as in numpy. Terms without values have their text alone: the page prints rules before any run.

Numbers may have 95 % intervals (`truth`). A comparison is undecided if the interval of the difference
excludes neither verdict. `gain.near(2.7)`, with the text `gain ~ 2.7`, is true if the interval holds the number.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Union

from annulus_lab.report.claims.truth import (
    ClaimNumber,
    RuleFault,
    Truth,
    comparison,
    difference,
    every,
    magnitude,
    mean,
    near,
    product,
    quotient,
    share,
    some,
    steps,
    total,
)

# Precedence of a text: an operand of lower precedence stands in parentheses.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, WHOLE = range(7)

Operand = Union["Term", int, float]


@dataclass(frozen=True, eq=False)
class Term:
    """A number, a truth, or a list of either, with its text."""

    text: str
    value: ClaimNumber | list[ClaimNumber] | Truth | list[Truth] | None = None
    precedence: int = WHOLE

    def __add__(self, other: Operand) -> "Term":
        return _join(self, " + ", other, SUM, total)

    def __sub__(self, other: Operand) -> "Term":
        return _join(self, " - ", other, SUM, difference)

    def __mul__(self, other: Operand) -> "Term":
        return _join(self, " * ", other, PRODUCT, product)

    def __rmul__(self, other: Operand) -> "Term":
        return constant(other) * self

    def __truediv__(self, other: Operand) -> "Term":
        return _join(self, " / ", other, PRODUCT, quotient)

    def __lt__(self, other: Operand) -> "Term":
        return _join(self, " < ", other, COMPARISON, lambda *sides: comparison(operator.lt, *sides))

    def __le__(self, other: Operand) -> "Term":
        return _join(self, " <= ", other, COMPARISON, lambda *sides: comparison(operator.le, *sides))

    def __gt__(self, other: Operand) -> "Term":
        return _join(self, " > ", other, COMPARISON, lambda *sides: comparison(operator.gt, *sides))

    def __ge__(self, other: Operand) -> "Term":
        return _join(self, " >= ", other, COMPARISON, lambda *sides: comparison(operator.ge, *sides))

    def __and__(self, other: "Term") -> "Term":
        return _join(self, " and ", other, AND, lambda *sides: every(sides))

    def __or__(self, other: "Term") -> "Term":
        return _join(self, " or ", other, OR, lambda *sides: some(sides))

    def __invert__(self) -> "Term":
        text = f"not {self.operand_text(NOT)}"
        return Term(text, _elementwise(Truth.negate, text, self), NOT)

    def __bool__(self) -> bool:
        raise TypeError(f"{self.text} may be undecided; write & | ~ for and, or, not, `between` for a < b < c")

    def __abs__(self) -> "Term":
        text = f"abs({self.text})"
        return Term(text, _elementwise(magnitude, text, self))

    def between(self, above: Operand, *, below: Operand | None = None, at_most: Operand | None = None) -> "Term":
        """Returns above < self < below, or above < self <= at_most."""
        upper = self <= at_most if below is None else self < below
        return replace(
            (constant(above) < self) & upper, text=f"{constant(above).text} < {upper.text}", precedence=COMPARISON
        )

    def near(self, *printed: float) -> "Term":
        """True if each interval holds the paper's printed number; a list needs a number for each element."""
        listed = isinstance(self.value, list)
        sides = Term("printed", [ClaimNumber(one) for one in printed] if listed else ClaimNumber(printed[0]))
        truths = _elementwise(near, f"{self.text} ~ printed", self, sides)
        constants = ", ".join(constant(one).text for one in printed)
        return Term(
            f"{self.operand_text(SUM)} ~ {f'({constants})' if len(printed) > 1 else constants}",
            every(truths) if listed and truths is not None else truths,
            COMPARISON,
        )

    def inner(self) -> "Term":
        """Returns the list without its first and last number."""
        return self._list_term("inner", _inner)

    def reverse_u(self) -> "Term":
        """True if a number between the two ends is above both ends."""
        return ((self.inner() > self.first()) & (self.inner() > self.last())).any()

    def first(self) -> "Term":
        return self._list_term("first", operator.itemgetter(0))

    def last(self) -> "Term":
        return self._list_term("last", operator.itemgetter(-1))

    def mean(self) -> "Term":
        return self._list_term("mean", mean)

    def min(self) -> "Term":
        """Returns the number with the smallest value, and its interval."""
        return self._list_term("min", min)

    def max(self) -> "Term":
        """Returns the number with the largest value, and its interval."""
        return self._list_term("max", max)

    def range(self) -> "Term":
        """Returns the largest number minus the smallest."""
        return self._list_term("range", lambda values: difference(max(values), min(values)))

    def rising(self) -> "Term":
        """True if each number is above the one before it."""
        return self._list_term("rising", steps(operator.gt))

    def falling(self) -> "Term":
        """True if each number is below the one before it."""
        return self._list_term("falling", steps(operator.lt))

    def all(self) -> "Term":
        return self._list_term("all", every)

    def any(self) -> "Term":
        return self._list_term("any", some)

    def share(self) -> "Term":
        """Returns the share of comparisons that are true. Its interval covers the undecided ones."""
        return self._list_term("share", share)

    def operand_text(self, precedence: int) -> str:
        """Returns the text, in parentheses if its precedence is lower."""
        return f"({self.text})" if self.precedence < precedence else self.text

    def _list_term(self, name: str, function: Callable[..., Any]) -> "Term":
        text = f"{name}({self.text})"
        if self.value is None:
            return Term(text)
        if not isinstance(self.value, list):
            raise TypeError(f"{text}: {self.text} is no list; its number needs `by`")
        return Term(text, function(self.value))


def constant(number: Operand) -> Term:
    """Returns a number as a term with its digits as text: the page prints `constant(10) / 13` as a fraction."""
    if isinstance(number, Term):
        return number
    return Term(f"{Decimal(repr(number)):f}", ClaimNumber(float(number)))


def log(number: Operand) -> Term:
    """Returns the natural logarithm."""
    number = constant(number)
    text = f"log({number.text})"
    return Term(text, _elementwise(lambda one: ClaimNumber(math.log(one.value), one.half / one.value), text, number))


def largest(*numbers: Operand) -> Term:
    """Returns the largest of several numbers; lists element by element."""
    return _function_term("max", max, numbers)


def smallest(*numbers: Operand) -> Term:
    """Returns the smallest of several numbers; lists element by element."""
    return _function_term("min", min, numbers)


def _function_term(name: str, function: Callable[..., ClaimNumber], numbers: tuple[Operand, ...]) -> Term:
    terms = [constant(number) for number in numbers]
    text = f"{name}({', '.join(term.text for term in terms)})"
    return Term(text, _elementwise(function, text, *terms))


def _inner(values: list[ClaimNumber]) -> list[ClaimNumber]:
    if len(values) < 3:
        raise RuleFault(f"inner(...) of {len(values)} values; three have one between")
    return values[1:-1]


def _join(left: Term, sign: str, other: Operand, precedence: int, function: Callable[..., Any]) -> Term:
    right = constant(other)
    text = left.operand_text(precedence) + sign + right.operand_text(precedence + 1)
    return Term(text, _elementwise(function, text, left, right), precedence)


def _elementwise(function: Callable[..., Any], text: str, *sides: Term) -> Any:
    """Applies the function element by element; a single number combines with every element. None if a value is missing.

    Raises:
        RuleFault: for lists of different lengths, and a result that is undefined or not finite.
    """
    if any(side.value is None for side in sides):
        return None
    lengths = {side.text: len(side.value) for side in sides if isinstance(side.value, list)}
    if len(set(lengths.values())) > 1:
        lists = " and ".join(f"{side} has {length} values" for side, length in lengths.items())
        raise RuleFault(f"{text}: {lists}")
    length = max(lengths.values(), default=1)
    columns = [side.value if isinstance(side.value, list) else [side.value] * length for side in sides]
    try:
        values = [function(*row) for row in zip(*columns, strict=True)]
    except ZeroDivisionError as error:
        raise RuleFault(f"{text} divides by zero") from error
    except ValueError as error:  # the logarithm of a number <= 0
        raise RuleFault(f"{text}: {error}") from error
    if not all(isinstance(one, Truth) or math.isfinite(one.value) for one in values):
        raise RuleFault(f"{text} is not finite")
    return values if lengths else values[0]

"""The numbers of a claim inside its rule: they compute as estimates do, and know their own text, which the page prints.

    rule=lambda estimates, ceilings: (estimates <= ceilings).all() & (estimates.last() > 1.2 * estimates.first())

has the text `all(estimates <= ceilings) and last(estimates) > 1.2 * first(estimates)`. Lists of one length go element
by element, a single number goes with every element. And, or, not are & | ~, with comparisons in parentheses, as in
numpy. Numbers without values give the text alone: a claim has a rule before anything was run.

Numbers may have 95 % intervals (`truth`): a comparison is undecided where that of the difference
excludes neither verdict. `gain.near(2.7)`, with the text `gain ~ 2.7`, is true where the interval holds the number.
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
    compared,
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
    summed,
)

# How tightly a text binds: what binds less than its surroundings stands in parentheses.
OR, AND, NOT, COMPARISON, SUM, PRODUCT, WHOLE = range(7)

Operand = Union["Term", int, float]


@dataclass(frozen=True, eq=False)
class Term:
    """A number, a list of numbers, or what a comparison of them says, with its text."""

    text: str
    value: ClaimNumber | list[ClaimNumber] | Truth | list[Truth] | None = None
    binds: int = WHOLE

    def __add__(self, other: Operand) -> "Term":
        return _joined(self, " + ", other, SUM, summed)

    def __sub__(self, other: Operand) -> "Term":
        return _joined(self, " - ", other, SUM, difference)

    def __mul__(self, other: Operand) -> "Term":
        return _joined(self, " * ", other, PRODUCT, product)

    def __rmul__(self, other: Operand) -> "Term":
        return constant(other) * self

    def __truediv__(self, other: Operand) -> "Term":
        return _joined(self, " / ", other, PRODUCT, quotient)

    def __lt__(self, other: Operand) -> "Term":
        return _joined(self, " < ", other, COMPARISON, lambda *sides: compared(operator.lt, *sides))

    def __le__(self, other: Operand) -> "Term":
        return _joined(self, " <= ", other, COMPARISON, lambda *sides: compared(operator.le, *sides))

    def __gt__(self, other: Operand) -> "Term":
        return _joined(self, " > ", other, COMPARISON, lambda *sides: compared(operator.gt, *sides))

    def __ge__(self, other: Operand) -> "Term":
        return _joined(self, " >= ", other, COMPARISON, lambda *sides: compared(operator.ge, *sides))

    def __and__(self, other: "Term") -> "Term":
        return _joined(self, " and ", other, AND, lambda *sides: every(sides))

    def __or__(self, other: "Term") -> "Term":
        return _joined(self, " or ", other, OR, lambda *sides: some(sides))

    def __invert__(self) -> "Term":
        text = f"not {self.within(NOT)}"
        return Term(text, _elementwise(Truth.negated, text, self), NOT)

    def __bool__(self) -> bool:
        raise TypeError(f"{self.text} may be undecided; write & | ~ for and, or, not, `between` for a < b < c")

    def __abs__(self) -> "Term":
        text = f"abs({self.text})"
        return Term(text, _elementwise(magnitude, text, self))

    def between(self, above: Operand, *, below: Operand | None = None, at_most: Operand | None = None) -> "Term":
        """above < self < below, or above < self <= at_most."""
        upper = self <= at_most if below is None else self < below
        return replace(
            (constant(above) < self) & upper, text=f"{constant(above).text} < {upper.text}", binds=COMPARISON
        )

    def near(self, *printed: float) -> "Term":
        """True if each interval holds the paper's printed number, one for each place of a list."""
        listed = isinstance(self.value, list)
        sides = Term("printed", [ClaimNumber(one) for one in printed] if listed else ClaimNumber(printed[0]))
        truths = _elementwise(near, f"{self.text} ~ printed", self, sides)
        constants = ", ".join(constant(one).text for one in printed)
        return Term(
            f"{self.within(SUM)} ~ {f'({constants})' if len(printed) > 1 else constants}",
            every(truths) if listed and truths is not None else truths,
            COMPARISON,
        )

    def inner(self) -> "Term":
        """A list without its first and last number."""
        return self._of_list("inner", _inner)

    def reverse_u(self) -> "Term":
        """True if a number between the ends is above both."""
        return ((self.inner() > self.first()) & (self.inner() > self.last())).any()

    def first(self) -> "Term":
        return self._of_list("first", operator.itemgetter(0))

    def last(self) -> "Term":
        return self._of_list("last", operator.itemgetter(-1))

    def mean(self) -> "Term":
        return self._of_list("mean", mean)

    def min(self) -> "Term":
        """The number with the smallest value, and its interval."""
        return self._of_list("min", min)

    def max(self) -> "Term":
        """The number with the largest value, and its interval."""
        return self._of_list("max", max)

    def range(self) -> "Term":
        """Largest minus smallest."""
        return self._of_list("range", lambda values: difference(max(values), min(values)))

    def rising(self) -> "Term":
        """Whether each is above the one before it."""
        return self._of_list("rising", steps(operator.gt))

    def falling(self) -> "Term":
        """Whether each is below the one before it."""
        return self._of_list("falling", steps(operator.lt))

    def all(self) -> "Term":
        return self._of_list("all", every)

    def any(self) -> "Term":
        return self._of_list("any", some)

    def share(self) -> "Term":
        """The share of a list's comparisons that are true: a number, whose interval holds those that are undecided."""
        return self._of_list("share", share)

    def within(self, binds: int) -> str:
        """The text, in parentheses where it binds less."""
        return f"({self.text})" if self.binds < binds else self.text

    def _of_list(self, name: str, function: Callable[..., Any]) -> "Term":
        text = f"{name}({self.text})"
        if self.value is None:
            return Term(text)
        if not isinstance(self.value, list):
            raise TypeError(f"{text}: {self.text} is no list; its number needs `by`")
        return Term(text, function(self.value))


def constant(number: Operand) -> Term:
    """A number as written: 10 of `constant(10) / 13`, which the page prints as a fraction."""
    if isinstance(number, Term):
        return number
    return Term(f"{Decimal(repr(number)):f}", ClaimNumber(float(number)))


def log(number: Operand) -> Term:
    """The natural logarithm."""
    number = constant(number)
    text = f"log({number.text})"
    return Term(text, _elementwise(lambda one: ClaimNumber(math.log(one.value), one.half / one.value), text, number))


def largest(*numbers: Operand) -> Term:
    """The largest of several numbers, of lists place by place."""
    return _of_several("max", max, numbers)


def smallest(*numbers: Operand) -> Term:
    """The smallest of several numbers, of lists place by place."""
    return _of_several("min", min, numbers)


def _of_several(name: str, function: Callable[..., ClaimNumber], numbers: tuple[Operand, ...]) -> Term:
    terms = [constant(number) for number in numbers]
    text = f"{name}({', '.join(term.text for term in terms)})"
    return Term(text, _elementwise(function, text, *terms))


def _inner(values: list[ClaimNumber]) -> list[ClaimNumber]:
    if len(values) < 3:
        raise RuleFault(f"inner(...) of {len(values)} values; three have one between")
    return values[1:-1]


def _joined(left: Term, sign: str, other: Operand, binds: int, function: Callable[..., Any]) -> Term:
    right = constant(other)
    text = left.within(binds) + sign + right.within(binds + 1)
    return Term(text, _elementwise(function, text, left, right), binds)


def _elementwise(function: Callable[..., Any], text: str, *sides: Term) -> Any:
    """The function element by element; a single number goes with every element. None where a side has no value.

    Raises:
        RuleFault: for lists of unlike length, and a number that is not finite.
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
    except ValueError as error:  # the logarithm of what is not positive
        raise RuleFault(f"{text}: {error}") from error
    if not all(isinstance(one, Truth) or math.isfinite(one.value) for one in values):
        raise RuleFault(f"{text} is not finite")
    return values if lengths else values[0]

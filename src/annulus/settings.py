"""Base of all settings: plain frozen dataclasses, each in the room that uses it, with its limits and its checks.

`annulus.config` reads params.yaml into them; nothing here needs it. A limit is part of a field's type, so that whoever
reads a file can refuse a value by its key, and one made by hand is refused where it is made; a rule between fields
stands in the section's `__post_init__`.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from annulus.errors import InputError, shown

# Beyond these limits a number overflows, or no machine holds what it asks for.
Fraction = Annotated[float, Ge(0), Le(1)]
Share = Annotated[float, Ge(0), Lt(1)]
Done = Annotated[float, Ge(0), Le(1.000001)]  # of training: 11 parts of 1/11 add up to more than 1
Positive = Annotated[float, Ge(1e-9), Le(1e9)]  # so that float32 holds it, its inverse and their squares
Temperature = Annotated[float, Ge(0.001), Le(1000)]  # similarities lie in [-1, 1]
Rate = Annotated[float, Ge(1e-9), Le(1000)]  # of learning; probes of the papers take up to 30
Decay = Annotated[float, Ge(0), Le(1000)]  # of weights
Steps = Annotated[int, Ge(1), Le(10**9)]  # also epochs, iterations, images
ClusterCount = Annotated[int, Ge(2), Le(2**24)]
Width = Annotated[int, Ge(1), Le(2**16)]  # numbers of an embedding or a layer
Depth = Annotated[int, Ge(1), Le(100)]  # layers
Rows = Annotated[int, Ge(1), Le(2**24)]  # of a batch, a queue, a table of pairs; negatives of a query
Repeats = Annotated[int, Ge(1), Le(1000)]  # whose results are kept side by side

LIMITS = {Ge: ("from", operator.ge), Gt: ("above", operator.gt), Le: ("to", operator.le), Lt: ("below", operator.lt)}


@dataclass(frozen=True)
class Rule:
    """A limit of a field's type that is a function: it raises InputError for a value that is outside."""

    check: Callable[[Any], None]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """The limit in pydantic's form."""
        function = {"type": "no-info", "function": self._checked}
        return {"type": "function-after", "schema": handler(source), "function": function}

    def _checked(self, value: Any) -> Any:
        self.check(value)
        return value


class Section:
    """A section of params.yaml: a frozen dataclass whose file form refuses unknown keys and other types.

    A file must hold every key, whatever has a default; with `optional` it may lack those that have one.
    """

    optional: ClassVar[bool] = False
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """The file's keys and values make the section.

        Raises:
            InputError: when the class is no dataclass, and so has no fields.
        """
        if not is_dataclass(cls):
            raise InputError(
                f"{cls.__module__}: {cls.__name__} is no dataclass, so that params.yaml has no keys for it; write "
                "@dataclass(frozen=True) above the class"
            )
        schema = handler(source)
        schema["strict"] = False  # of the section, not of its values: pydantic would take no keys and values
        for field in schema["schema"]["fields"]:
            if field["schema"]["type"] == "default" and not cls.optional:
                field["schema"] = field["schema"]["schema"]
        return schema

    def __post_init__(self) -> None:
        """
        Raises:
            InputError: with the first field that is outside the limits of its type, or none of its choices.
        """
        for name, hint in _hints(type(self)).items():
            check_value(name, getattr(self, name), hint)


@cache
def _hints(section: type[Section]) -> dict[str, Any]:
    hints = get_type_hints(section, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def check_value(name: str, value: Any, hint: Any) -> None:
    """Refuse a value that is outside the limits of a type, or none of its choices.

    Raises:
        InputError: with the value and what is expected.
    """
    arguments = get_args(hint)
    if type(None) in arguments and value is not None:  # T | None
        return check_value(name, value, arguments[0])
    if get_origin(hint) is Literal and value not in arguments:
        raise InputError(f"{name} {shown(value)}: give one of {', '.join(map(str, arguments))}")
    if get_origin(hint) is Annotated and arguments[0] in (int, float):
        number, *limits = arguments
        ordered = [limit for limit in limits if type(limit) in LIMITS]
        borders = [(*LIMITS[type(limit)], getattr(limit, type(limit).__slots__[0])) for limit in ordered]
        accepted = isinstance(value, Integral if number is int else Real) and not isinstance(value, bool)  # NumPy's too
        if not (accepted and all(holds(value, border) for _, holds, border in borders)):
            ranges = "".join(f" {word} {border:,}" for word, _, border in borders)
            raise InputError(f"{name} {shown(value)}: give a {'whole ' if number is int else ''}number{ranges}")
        for rule in limits:
            if isinstance(rule, Rule):
                rule.check(value)

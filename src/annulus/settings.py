"""Base of all settings: plain frozen dataclasses with limits and checks. Each stands in the room that uses it.

`annulus_lab.config` reads params.yaml into them. The type of a field holds its limits: the reader of a file names the
key of a refused value, and the constructor checks settings made by hand. `__post_init__` checks rules between fields.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from annulus.errors import InputError, abridge

# Beyond these limits a number overflows, or needs more memory than any machine has.
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
Repeats = Annotated[int, Ge(1), Le(1000)]  # their results are stored side by side

LIMITS = {Ge: ("from", operator.ge), Gt: ("above", operator.gt), Le: ("to", operator.le), Lt: ("below", operator.lt)}


@dataclass(frozen=True)
class Rule:
    """A limit of a field's type as a function: `check` raises InputError for a value outside."""

    check: Callable[[Any], None]

    def __get_pydantic_core_schema__(self, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Returns pydantic's schema of the limit."""
        function = {"type": "no-info", "function": self._checked}
        return {"type": "function-after", "schema": handler(source), "function": function}

    def _checked(self, value: Any) -> Any:
        self.check(value)
        return value


class Section:
    """Base of a section of params.yaml: a frozen dataclass. A file with unknown keys or other types is refused.

    A file must hold every key. With `optional` it may omit keys that have a default.
    """

    optional: ClassVar[bool] = False
    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid", "strict": True, "allow_inf_nan": False}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        """Returns pydantic's schema, which builds the section from the file's keys and values.

        Raises:
            InputError: if the class is not a dataclass.
        """
        if not is_dataclass(cls):
            raise InputError(
                f"{cls.__module__}: {cls.__name__} is not a dataclass, so params.yaml has no keys for it; write "
                "@dataclass(frozen=True) above the class"
            )
        schema = handler(source)
        schema["strict"] = False  # for the section, not for its values: a strict section accepts no mapping
        for field in schema["schema"]["fields"]:
            if field["schema"]["type"] == "default" and not cls.optional:
                field["schema"] = field["schema"]["schema"]
        return schema

    def __post_init__(self) -> None:
        """Checks each field against the limits or the choices of its type.

        Raises:
            InputError: with the first invalid field.
        """
        for name, hint in _hints(type(self)).items():
            check_value(name, getattr(self, name), hint)


@cache
def _hints(section: type[Section]) -> dict[str, Any]:
    hints = get_type_hints(section, include_extras=True)
    return {name: hint for name, hint in hints.items() if get_origin(hint) is not ClassVar}


def check_value(name: str, value: Any, hint: Any) -> None:
    """Raises InputError unless the value is within the limits of a type, or one of its choices.

    Raises:
        InputError: with the value and the expectation.
    """
    arguments = get_args(hint)
    if type(None) in arguments and value is not None:  # T | None
        return check_value(name, value, arguments[0])
    if get_origin(hint) is Literal and value not in arguments:
        raise InputError(f"{name} {abridge(value)}: give one of {', '.join(map(str, arguments))}")
    if get_origin(hint) is Annotated and arguments[0] in (int, float):
        number, *limits = arguments
        ordered = [limit for limit in limits if type(limit) in LIMITS]
        borders = [(*LIMITS[type(limit)], getattr(limit, type(limit).__slots__[0])) for limit in ordered]
        accepted = isinstance(value, Integral if number is int else Real) and not isinstance(value, bool)  # NumPy's too
        if not (accepted and all(holds(value, border) for _, holds, border in borders)):
            ranges = "".join(f" {word} {border:,}" for word, _, border in borders)
            raise InputError(f"{name} {abridge(value)}: give a {'whole ' if number is int else ''}number{ranges}")
        for rule in limits:
            if isinstance(rule, Rule):
                rule.check(value)

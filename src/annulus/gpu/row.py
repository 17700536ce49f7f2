"""One line of the table of `annulus check-gpu`."""

from typing import NamedTuple

FAST, SLOW, RIGHT, WRONG, KNOWN = "fast", "slow", "right", "WRONG", ""


class Row(NamedTuple):
    """`what` was looked at, its `number` with a unit, the verdict, and what will be `used`."""

    what: str
    number: str
    verdict: str = KNOWN
    used: str = ""


def reason(error: Exception) -> str:
    """The kind of an error and its last line: what a compiler or a driver says is long."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[-1:]])


def short(value: float | int) -> str:
    """Three digits of a small number, all before the point of a large one."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def against(
    what: str, value: float | int, limit: float | int, unit: str, *, least: bool = False, used: str = ""
) -> Row:
    """A number beside its goal: at most the limit, or at `least` that."""
    reached = value >= limit if least else value <= limit
    sign = ">=" if least else "<="
    return Row(what, f"{short(value)} {unit} (goal {sign} {short(limit)})", FAST if reached else SLOW, used)

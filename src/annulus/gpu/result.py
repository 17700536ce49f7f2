"""`CheckResult`: one line of the table of `annulus check-gpu`."""

from typing import NamedTuple

FAST, SLOW, RIGHT, WRONG, KNOWN = "fast", "slow", "right", "WRONG", ""


class CheckResult(NamedTuple):
    """Result of one check: its subject, a number with its unit, the verdict, and the path that training will use."""

    what: str
    number: str
    verdict: str = KNOWN
    used: str = ""


def reason(error: Exception) -> str:
    """The kind of an error and its last line, since errors of compilers and drivers are long."""
    return ": ".join([type(error).__name__, *str(error).strip().splitlines()[-1:]])


def short(value: float | int) -> str:
    """Formats a number: three digits below 100, else without decimals."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def against(
    what: str, value: float | int, limit: float | int, unit: str, *, least: bool = False, used: str = ""
) -> CheckResult:
    """Compares a number with its goal: at most the limit, or with `least` at least the limit."""
    reached = value >= limit if least else value <= limit
    sign = ">=" if least else "<="
    return CheckResult(what, f"{short(value)} {unit} (goal {sign} {short(limit)})", FAST if reached else SLOW, used)

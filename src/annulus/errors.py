"""The one exception that a user meets, a sentence without a traceback; and parts of such sentences."""

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any


class InputError(ValueError):
    """Something that the user wrote or supplied cannot work.

    The message names the value received, what was expected, and the way out.

    >>> try:
    ...     annulus.negatives.Ring(inner=0.5, outer=0.1)
    ... except annulus.InputError as error:
    ...     print(error)
    ring needs inner < outer, got inner=0.5, outer=0.1
    """


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python writes no number of more than 4,300 digits.
        return super().repr_int(x, level) if x.bit_length() < 14_000 else "a number of thousands of digits"


def shown(value: Any) -> str:
    """A value as a sentence shows it: whole, or cut where it is long."""
    short = _Short()  # never the whole of a value that anchors make endless
    short.maxlevel, short.maxlist, short.maxdict, short.maxother, short.maxlong, short.maxstring = 2, 8, 8, 80, 80, 80
    text = short.repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?` for the closest known word, or nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

"""What every section of params.yaml is made of."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1)]
Name = Annotated[str, Field(pattern=r"^[\w-]+$")]  # a dot would look like a deeper key


class Params(BaseModel):
    """A section of params.yaml: unknown keys refused, types not coerced, never edited."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def keys_of(section: Params | Mapping[str, Any]) -> list[str]:
    """The keys of a section, as they stand in the file."""
    if isinstance(section, Mapping):
        return list(section)
    return [field.alias or name for name, field in type(section).model_fields.items()]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?` for the closest known word, or nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

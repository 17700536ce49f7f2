"""What every section of params.yaml is made of."""

import difflib
import re
import reprlib
from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

# Beyond these limits a number overflows, or no machine holds what it asks for.
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seeds = Annotated[list[Seed], Field(min_length=1, max_length=1000), AfterValidator(lambda seeds: _different(seeds))]
Fraction = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[float, Field(ge=1e-9, le=1e9)]  # so that float32 holds it, its inverse and their squares
Temperature = Annotated[float, Field(ge=0.001, le=1000)]  # similarities lie in [-1, 1]
Rate = Annotated[float, Field(ge=1e-9, le=1000)]  # of learning; probes of the papers take up to 30
Decay = Annotated[float, Field(ge=0, le=1000)]  # of weights
Count = Annotated[int, Field(ge=1, le=10**9)]
Width = Annotated[int, Field(ge=1, le=2**16)]  # numbers of an embedding or a layer
Depth = Annotated[int, Field(ge=1, le=100)]  # layers
Rows = Annotated[int, Field(ge=1, le=2**24)]  # of a batch, a queue, a table of pairs; negatives of a query
Repeats = Annotated[int, Field(ge=1, le=1000)]  # whose results are kept side by side
# Names become files and words of a shell's command. The first has no dot, which would look like a deeper key.
Name = Annotated[str, AfterValidator(lambda name: _fits(name, r"[\w-]+", "letters, digits, _ and -"))]
RowName = Annotated[
    str,
    AfterValidator(
        lambda name: _fits(name, r"\w([\w +().,-]*[\w+().,-])?", "letters, digits, spaces, _ + - . , ( and )")
    ),
]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(lambda names: _once(names))]


class Params(BaseModel):
    """A section of params.yaml: unknown keys refused, types not coerced, never edited."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{seeds} names a seed twice, which would be one run, not two")
    return seeds


def _once(names: list[str]) -> list[str]:
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} stands twice; delete one of them")
    return names


LONGEST_NAME = 80  # letters, so that a file's name holds it


def _fits(name: str, pattern: str, expected: str) -> str:
    if len(name) > LONGEST_NAME or not re.fullmatch(pattern, name):
        raise ValueError(f"{reprlib.repr(name)} is no name; take {expected}, at most {LONGEST_NAME} in all")
    return name


def keys_of(section: Params | Mapping[str, Any]) -> list[str]:
    """The keys of a section, as they stand in the file."""
    if isinstance(section, Mapping):
        return list(section)
    return [field.alias or name for name, field in type(section).model_fields.items()]


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?` for the closest known word, or nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""

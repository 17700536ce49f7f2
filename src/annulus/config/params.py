"""Base class of the sections of params.yaml, and their checks."""

import re
import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import to_jsonable_python

from annulus.errors import InputError, shown
from annulus.settings import Section
from annulus.views.settings import ByName

# Selectors, and where each one's choices are.
SECTION_OF = {
    "scale": "scales",
    "dataset": "datasets",
    "method": "methods",
    "split": "splits",
    "bound": "bounds",
    "sampler": "samplers",
    "anneal": "anneals",
    "neighbours": "neighbour_sets",
    "views": "view_sets",
    "backbone": "backbones",
    "schedule": "schedules",
}

Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seeds = Annotated[list[Seed], Field(min_length=1, max_length=1000), AfterValidator(lambda seeds: _different(seeds))]
# Names become files and words of a shell's command. The first has no dot, which would look like a deeper key.
Name = Annotated[str, AfterValidator(lambda name: _fits(name, r"[\w-]+", "letters, digits, _ and -"))]
RowName = Annotated[
    str,
    AfterValidator(
        lambda name: _fits(name, r"\w([\w +().,-]*[\w+().,-])?", "letters, digits, spaces, _ + - . , ( and )")
    ),
]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(lambda names: each_once(names) or names)]


class Params(BaseModel):
    """A section of params.yaml: unknown keys refused, types not coerced, never edited."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{seeds} names a seed twice, which would be one run, not two")
    return seeds


def each_once(values: list[Any]) -> None:
    """Refuse a list in which a value stands twice: its results would count twice.

    Raises:
        ValueError: with the value.
    """
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{shown(value)} stands twice; delete one of them")


LONGEST_NAME = 80  # letters, so that a file's name holds it


def _fits(name: str, pattern: str, expected: str) -> str:
    if len(name) > LONGEST_NAME or not re.fullmatch(pattern, name):
        raise ValueError(f"{reprlib.repr(name)} is no name; take {expected}, at most {LONGEST_NAME} in all")
    return name


def kinds(section: type[Params] | type[Section] | ByName) -> dict[str, Any]:
    """Type of each key of a section."""
    if isinstance(section, ByName):
        return dict(section.classes)
    if issubclass(section, Params):
        return {field.alias or name: field.annotation for name, field in section.model_fields.items()}
    hints = get_type_hints(section, include_extras=True)
    return {field.name: hints[field.name] for field in fields(section)}


def one_of(name: str, sections: Mapping[str, type[Section]]) -> type[Params]:
    """A section with a section under each of these keys, of which a selector chooses one."""
    described = {key.replace("-", "_"): (kind, Field(alias=key)) for key, kind in sections.items()}
    return create_model(name, __base__=Params, **described)


def keys_of(section: Params | Mapping[str, Any]) -> list[str]:
    """Keys of a section, as in the file."""
    return list(section if isinstance(section, Mapping) else kinds(type(section)))


def plain(value: Any) -> Any:
    """A section's keys and values as in the file (or a single value), for a file of settings."""
    return to_jsonable_python(value, by_alias=True)


def filled(kind: Any, value: Any) -> Any:
    """The section of this kind (or a single value) from a file of settings.

    Raises:
        InputError: when its model refuses the file's content, which another version of the code has written.
    """
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise misfit(error) from error


def misfit(error: Exception) -> InputError:
    """The sentence for a file of settings that this version of the code cannot read."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return InputError(f"the settings do not fit this version of the code ({reason}); run `dvc repro`")

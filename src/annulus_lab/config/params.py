"""Base class of the sections of params.yaml, and their checks."""

import re
import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Annotated, Any, get_type_hints

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model
from pydantic_core import to_jsonable_python

from annulus.errors import InputError, abridge
from annulus.settings import Section
from annulus.views.settings import ByName

Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]
Seeds = Annotated[
    list[Seed], Field(min_length=1, max_length=1000), AfterValidator(lambda seeds: _check_different(seeds))
]
# Names become files and words of a shell's command. The first has no dot, which would look like a deeper key.
Name = Annotated[str, AfterValidator(lambda name: _check_name(name, r"[\w-]+", "letters, digits, _ and -"))]
RowName = Annotated[
    str,
    AfterValidator(
        lambda name: _check_name(name, r"\w([\w +().,-]*[\w+().,-])?", "letters, digits, spaces, _ + - . , ( and )")
    ),
]
Names = Annotated[list[str], Field(min_length=1), AfterValidator(lambda names: each_once(names) or names)]


class Params(BaseModel):
    """Section of params.yaml: it refuses unknown keys, coerces no types, and is frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def _check_different(seeds: list[int]) -> list[int]:
    if len(set(seeds)) < len(seeds):
        raise ValueError(f"{seeds} names a seed twice, which would be one run, not two")
    return seeds


def each_once(values: list[Any]) -> None:
    """Checks that no value stands twice in a list: its results would count twice.

    Raises:
        ValueError: with the repeated value.
    """
    for value in values:
        if values.count(value) > 1:
            raise ValueError(f"{abridge(value)} stands twice; delete one of them")


LONGEST_NAME = 80  # letters, so that a file's name holds it


def _check_name(name: str, pattern: str, expected: str) -> str:
    if len(name) > LONGEST_NAME or not re.fullmatch(pattern, name):
        raise ValueError(f"{reprlib.repr(name)} is not a name; take {expected}, at most {LONGEST_NAME} in all")
    return name


def kinds(section: type[Params] | type[Section] | ByName) -> dict[str, Any]:
    """Type of each key of a section."""
    if isinstance(section, ByName):
        return dict(section.classes)
    if issubclass(section, Params):
        return {field.alias or name: field.annotation for name, field in section.model_fields.items()}
    hints = get_type_hints(section, include_extras=True)
    return {field.name: hints[field.name] for field in fields(section)}


def choice_section(name: str, sections: Mapping[str, type[Section]]) -> type[Params]:
    """Section class with one section for each key; a selector chooses among them."""
    definitions = {key.replace("-", "_"): (kind, Field(alias=key)) for key, kind in sections.items()}
    return create_model(name, __base__=Params, **definitions)


def section_keys(section: Params | Mapping[str, Any]) -> list[str]:
    """Keys of a section, in the file's spelling."""
    return list(section if isinstance(section, Mapping) else kinds(type(section)))


def plain(value: Any) -> Any:
    """Keys and values of a section (or a single value) in the file's form, for a file of settings."""
    return to_jsonable_python(value, by_alias=True)


def filled(kind: Any, value: Any) -> Any:
    """Section of this kind (or a single value) from a file of settings.

    Raises:
        InputError: when its model refuses the content. Then another version of the code wrote the file.
    """
    try:
        return TypeAdapter(kind).validate_python(value)
    except ValidationError as error:
        raise misfit(error) from error


def misfit(error: Exception) -> InputError:
    """Error for a file of settings that this version of the code cannot read."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    return InputError(f"the settings do not fit this version of the code ({reason}); run `dvc repro`")

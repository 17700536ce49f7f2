"""Reads and checks params.yaml; every fault becomes one sentence with its full key and the way out."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import TypeAdapter, ValidationError

from annulus.errors import InputError, abridge, nearest
from annulus.settings import Section
from annulus.views.settings import ByName
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.params import Params, kinds
from annulus_lab.config.tree import read_tree

_adapter = cache(TypeAdapter)
Checked = TypeVar("Checked", bound=Params | Section)


def load_params(path: Path) -> AllParams:
    """Reads and checks a whole parameter file.

    Raises:
        InputError: one line per fault, each with its full key, the value and the way out.
    """
    return checked(read_tree(path), str(path))


def checked(tree: Mapping[str, Any], source: str, model: type[Checked] = AllParams) -> Checked:
    """Parameters of a tree, checked by `model`; `source` names the tree's origin.

    Raises:
        InputError: one line per fault, each with the source, its full key, the value and the way out.
    """
    try:
        return _adapter(model).validate_python(tree)
    except ValidationError as error:
        lines = [line for fault in error.errors() for line in _sentence(fault, model).split("\n")]
        raise InputError("\n".join(f"{source}: {line}" for line in lines)) from error


def _sentence(fault: Mapping[str, Any], model: type[Params] | type[Section]) -> str:
    """Line for one pydantic fault: full key, fault, way out."""
    # Pydantic's location also holds the branch of a union and the mark of a key; the file has neither.
    branch = re.compile(r"(constrained-)?int|literal\[.*\]")
    location = [part for part in fault["loc"] if not branch.fullmatch(str(part))]
    is_key = location[-1:] == ["[key]"]
    names = [str(part) for part in location if part != "[key]"]
    key = ".".join(name if name.isprintable() and len(name) <= 100 else abridge(name) for name in names)
    match fault["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            siblings = kinds(_section(location[:-1], model))
            return f"{key}: unknown key{nearest(location[-1], siblings)} (known: {', '.join(siblings)})"
        case "missing":
            kind = kinds(_section(location[:-1], model))[location[-1]]
            null = ", or null for none" if type(None) in get_args(kind) else ""
            return f"{key}: missing; it has no default: write a value{null}"
        case "value_error":
            sentence = str(fault["ctx"]["error"]).replace("None", "null")  # as YAML writes it
            return f"{key}: {sentence}" if key else sentence
        case "float_type" if isinstance(fault["input"], str):
            return f"{key}: {abridge(fault['input'])} is text to YAML; write a number, such as 1.0e-4"
        case "dict_type" | "model_type" | "dataclass_type":
            return f"{key}: {abridge(fault['input'])} refused; expected keys and values, or {{}} for none"
        case "list_type":
            return f"{key}: {abridge(fault['input'])} refused; expected a list in brackets, as [A, B]"
        case "string_type" if is_key:
            return f"{key}: {abridge(fault['input'])} is not text to YAML; write a name in quotes"
    message = fault["msg"]
    return f"{key}: {abridge(fault['input'])} refused; {message[0].lower()}{message[1:]}"


def _section(location: Sequence[Any], model: Any) -> Any:
    """Model of the section at a location within another model; walks the types."""
    for part in location:
        if get_origin(model) in (dict, list):
            model = get_args(model)[-1]
        elif isinstance(model, ByName) or (isinstance(model, type) and issubclass(model, (Params, Section))):
            model = kinds(model).get(str(part), model)
        if get_origin(model) is Annotated:
            model = next((mark for mark in model.__metadata__ if isinstance(mark, ByName)), get_args(model)[0])
        if get_origin(model) in (Union, UnionType):  # the only unions of sections are `Section | None`
            model = next(branch for branch in get_args(model) if branch is not type(None))
    return model

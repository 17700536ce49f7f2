"""params.yaml read and checked as a whole; every fault becomes one sentence with its full key and the way out."""

import re
import reprlib
from collections.abc import Mapping
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import ValidationError

from annulus.config import AllParams
from annulus.config.params import Params, nearest
from annulus.errors import InputError
from annulus.files.regular import read_text

Checked = TypeVar("Checked", bound=Params)


class _Loader(yaml.SafeLoader):
    """Plain YAML, in which a key stands once in its section. Anchors and merge keys are read as ever."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # what the file says, before `<<` merges anything into it
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, same = key.start_mark.line + 1, (key.tag, key.value)
            if same in lines:
                way_out = "write `<<: [*one, *other]`" if key.value == "<<" else "delete one of them"
                raise yaml.YAMLError(f"{key.value!r} stands twice, in line {lines[same]} and line {line}; {way_out}")
            lines[same] = line
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):  # what Python says of 2026-99-99
            kind, line = node.tag.rpartition(":")[2], node.start_mark.line + 1
            fault = f"{shown(node.value)} in line {line} looks like {kind} and is none; quote it"
            raise yaml.YAMLError(fault) from None


# A float of YAML 1.2, which DVC reads and writes; to PyYAML, of YAML 1.1, one without a point is text.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
)


def load_params(path: Path) -> AllParams:
    """Read and check a whole parameter file.

    Raises:
        InputError: one line per fault, each with its full key, the value and the way out.
    """
    return checked(read_tree(path), str(path))


def read_tree(path: Path) -> dict[str, Any]:
    """The keys and values of a YAML file, not yet checked.

    Raises:
        InputError: when it cannot be read or holds something else.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}); save it as such") from error
    return parse_tree(text, str(path))


def parse_tree(text: str, source: str) -> dict[str, Any]:
    """The keys and values of YAML, not yet checked; `source` says where the text comes from.

    Raises:
        InputError: when it holds something else.
    """
    try:
        tree = yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise InputError(
            f"{source} nests sections too deeply to be read; four levels are enough for all keys"
        ) from None
    if not isinstance(tree, dict):
        raise InputError(f"{source} holds {type(tree).__name__}, expected keys and values")
    return tree


def checked(tree: Mapping[str, Any], source: str, model: type[Checked] = AllParams) -> Checked:
    """The parameters of a tree; `source` says where it comes from, `model` what it may hold.

    Raises:
        InputError: one line per fault, each with the source, its full key, the value and the way out.
    """
    try:
        return model.model_validate(tree)
    except ValidationError as error:
        faults = [f"{source}: {_sentence(fault, model)}" for fault in error.errors()]
        raise InputError("\n".join(faults)) from error


def _sentence(fault: Mapping[str, Any], model: type[Params]) -> str:
    """One pydantic fault as a line: full key, what is wrong, the way out."""
    # A union's branch is part of pydantic's location, not of the file's.
    branch = re.compile(r"(constrained-)?int|literal\[.*\]")
    key = ".".join(str(part) for part in fault["loc"] if not branch.fullmatch(str(part)))
    match fault["type"]:
        case "extra_forbidden":
            siblings = _siblings(fault["loc"][:-1], model)
            return f"{key}: unknown key{nearest(fault['loc'][-1], siblings)} (known: {', '.join(siblings)})"
        case "missing":
            return f"{key}: missing; every value is written in params.yaml"
        case "value_error":
            return f"{key}: {fault['ctx']['error']}" if key else str(fault["ctx"]["error"])
        case "float_type" if isinstance(fault["input"], str):
            return f"{key}: {shown(fault['input'])} is text to YAML; write a number, such as 1.0e-4"
    message = fault["msg"]
    return f"{key}: {shown(fault['input'])} refused; {message[0].lower()}{message[1:]}"


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


def _siblings(location: tuple[Any, ...], model: Any) -> list[str]:
    """The known keys of the section at a place within a model's, found by walking the types."""
    for part in location:
        if get_origin(model) is dict:
            model = get_args(model)[1]
        elif isinstance(model, type) and issubclass(model, Params):
            names = {field.alias or name: field.annotation for name, field in model.model_fields.items()}
            model = names.get(str(part), model)
        if get_origin(model) in (Union, UnionType):  # the only unions of sections are `Section | None`
            model = next(branch for branch in get_args(model) if branch is not type(None))
    return [field.alias or name for name, field in model.model_fields.items()]

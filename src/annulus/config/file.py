"""params.yaml read and checked as a whole; every fault becomes one sentence with its full key and the way out."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import TypeAdapter, ValidationError
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from annulus.config.all_params import AllParams
from annulus.config.params import Params, kinds
from annulus.errors import InputError, nearest, shown
from annulus.files.regular import read_text
from annulus.settings import Section
from annulus.views.settings import ByName

_adapter = cache(TypeAdapter)
Checked = TypeVar("Checked", bound=Params | Section)


class _Rules:
    """Plain YAML in which a key may occur once per section and 1e-6 is a number. Anchors and merge keys are allowed."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # as in the file, before `<<` merges keys into it
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, same = key.start_mark.line + 1, (key.tag, key.value)
            if same in lines:
                way_out = "write `<<: [*one, *other]`" if key.value == "<<" else "delete one of them"
                raise yaml.YAMLError(f"{key.value!r} stands twice, in line {lines[same]} and line {line}; {way_out}")
            lines[same] = line
        return node

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """A whole number, but one that YAML 1.1 reads by another base than 1.2, and so PyYAML than DVC."""
        if re.fullmatch(r"[-+]?(0[\d_]+|[\d_]+(:[\d_]+)+)", node.value):
            fault = f"{shown(node.value)} in line {node.start_mark.line + 1} is not the same to YAML 1.1 and 1.2"
            raise yaml.YAMLError(f"{fault}; write it in decimal without leading zeros, or quote it")
        return super().construct_yaml_int(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):  # what Python says of 2026-99-99
            kind, line = node.tag.rpartition(":")[2], node.start_mark.line + 1
            fault = f"{shown(node.value)} in line {line} looks like {kind} and is none; quote it"
            raise yaml.YAMLError(fault) from None


class _Loader(_Rules, yaml.SafeLoader):
    """With PyYAML's own parser, whose refusals say most."""


if yaml.__with_libyaml__:

    class _QuickLoader(_Rules, Composer, yaml.cyaml.CParser, SafeConstructor, Resolver):
        """With libyaml's parser, which takes a tenth of the time."""

        def __init__(self, text: str) -> None:
            yaml.cyaml.CParser.__init__(self, text)
            for part in (Composer, SafeConstructor, Resolver):
                part.__init__(self)

else:
    _QuickLoader = _Loader

for loader in (_Loader, _QuickLoader):
    loader.add_constructor("tag:yaml.org,2002:int", _Rules.construct_yaml_int)
    # A float of YAML 1.2, which DVC reads and writes; to PyYAML, of YAML 1.1, one without a point is text.
    loader.add_implicit_resolver(
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
    """The keys and values of YAML, not yet checked; `source` names its origin.

    Raises:
        InputError: when the text is not YAML with keys and values.
    """
    try:
        tree = _loaded(text)
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise InputError(
            f"{source} nests sections too deeply to be read; four levels are enough for all keys"
        ) from None
    if not isinstance(tree, dict):
        raise InputError(f"{source} holds {type(tree).__name__}, expected keys and values")
    return tree


def _loaded(text: str) -> Any:
    if "\t" not in text:  # libyaml takes tabs in places where PyYAML and DVC refuse them
        try:
            return yaml.load(text, _QuickLoader)
        except yaml.YAMLError:
            pass  # the other one says in better words why not
    return yaml.load(text, _Loader)


def checked(tree: Mapping[str, Any], source: str, model: type[Checked] = AllParams) -> Checked:
    """Parameters of a tree, checked by `model`; `source` names the tree's origin.

    Raises:
        InputError: one line per fault, each with the source, its full key, the value and the way out.
    """
    try:
        return _adapter(model).validate_python(tree)
    except ValidationError as error:
        faults = [f"{source}: {_sentence(fault, model)}" for fault in error.errors()]
        raise InputError("\n".join(faults)) from error


def _sentence(fault: Mapping[str, Any], model: type[Params] | type[Section]) -> str:
    """One pydantic fault as a line: full key, fault, way out."""
    # A union's branch is part of pydantic's location, not of the file's; so is the mark of a name in its section.
    branch = re.compile(r"(constrained-)?int|literal\[.*\]")
    location = [part for part in fault["loc"] if not branch.fullmatch(str(part))]
    named = location[-1:] == ["[key]"]
    names = [str(part) for part in location if part != "[key]"]
    key = ".".join(name if name.isprintable() and len(name) <= 100 else shown(name) for name in names)
    match fault["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            siblings = kinds(_section(location[:-1], model))
            return f"{key}: unknown key{nearest(location[-1], siblings)} (known: {', '.join(siblings)})"
        case "missing":
            kind = kinds(_section(location[:-1], model))[location[-1]]
            null = ", or null for none" if type(None) in get_args(kind) else ""
            return f"{key}: missing; it has no default: write a value{null}"
        case "value_error":
            said = str(fault["ctx"]["error"]).replace("None", "null")  # as YAML writes it
            return f"{key}: {said}" if key else said
        case "float_type" if isinstance(fault["input"], str):
            return f"{key}: {shown(fault['input'])} is text to YAML; write a number, such as 1.0e-4"
        case "dict_type" | "model_type" | "dataclass_type":
            return f"{key}: {shown(fault['input'])} refused; expected keys and values, or {{}} for none"
        case "string_type" if named:
            return f"{key}: {shown(fault['input'])} is no text to YAML; write a name in quotes"
    message = fault["msg"]
    return f"{key}: {shown(fault['input'])} refused; {message[0].lower()}{message[1:]}"


def _section(location: Sequence[Any], model: Any) -> Any:
    """The model of the section at a place within a model's, found by walking the types."""
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

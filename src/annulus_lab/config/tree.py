"""Reads YAML as keys and values, by DVC's rules, without importing torch."""

import copy
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.resolver import Resolver

from annulus.errors import InputError, abridge
from annulus.files.regular import read_text


class _Rules:
    """Plain YAML. A key occurs once per section, 1e-6 is a number, and anchors and merge keys are allowed."""

    def compose_mapping_node(self, anchor: str | None) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)  # before `<<` merges keys into it
        lines: dict[tuple[str, str], int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            line, same = key.start_mark.line + 1, (key.tag, key.value)
            if same in lines:
                way_out = "write `<<: [*one, *other]`" if key.value == "<<" else "delete one of them"
                raise yaml.YAMLError(f"{key.value!r} stands twice, in line {lines[same]} and line {line}; {way_out}")
            lines[same] = line
        return node

    def construct_yaml_int(self, node: yaml.Node) -> int:
        """Parses a whole number; refuses one that YAML 1.1 (PyYAML) and 1.2 (DVC) read in different bases."""
        if re.fullmatch(r"[-+]?(0[\d_]+|[\d_]+(:[\d_]+)+)", node.value):
            fault = f"{abridge(node.value)} in line {node.start_mark.line + 1} is not the same to YAML 1.1 and 1.2"
            raise yaml.YAMLError(f"{fault}; write it in decimal without leading zeros, or quote it")
        return super().construct_yaml_int(node)

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError):  # Python's errors for 2026-99-99
            kind, line = node.tag.rpartition(":")[2], node.start_mark.line + 1
            fault = f"{abridge(node.value)} in line {line} looks like {kind} and is none; quote it"
            raise yaml.YAMLError(fault) from None


class _Loader(_Rules, yaml.SafeLoader):
    """Loader with PyYAML's own parser: its errors are the most detailed."""


if yaml.__with_libyaml__:

    class _QuickLoader(_Rules, Composer, yaml.cyaml.CParser, SafeConstructor, Resolver):
        """Loader with libyaml's parser, which takes a tenth of the time."""

        def __init__(self, text: str) -> None:
            yaml.cyaml.CParser.__init__(self, text)
            for part in (Composer, SafeConstructor, Resolver):
                part.__init__(self)

else:
    _QuickLoader = _Loader

for loader in (_Loader, _QuickLoader):
    loader.add_constructor("tag:yaml.org,2002:int", _Rules.construct_yaml_int)
    # A float of YAML 1.2, which DVC reads and writes. PyYAML follows YAML 1.1: without a point it is text.
    loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?(\d+\.?\d*|\.\d+)[eE][-+]?\d+$"), list("-+.0123456789")
    )


def read_tree(path: Path) -> dict[str, Any]:
    """Keys and values of a YAML file, not yet checked.

    Raises:
        InputError: when the file cannot be read or holds something else.
    """
    try:
        text = read_text(path)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not text in UTF-8 ({error}); save it as such") from error
    return parse_tree(text, str(path))


def parse_tree(text: str, source: str) -> dict[str, Any]:
    """Keys and values of YAML text, not yet checked; `source` names its origin.

    Raises:
        InputError: when the text is not YAML with keys and values.
    """
    try:
        tree = copy.deepcopy(_load(text))
    except yaml.YAMLError as error:
        raise InputError(f"{source} is not YAML: {' '.join(str(error).split())}") from error
    except RecursionError:
        raise InputError(
            f"{source} nests sections too deeply to be read; four levels are enough for all keys"
        ) from None
    if not isinstance(tree, dict):
        raise InputError(f"{source} holds {type(tree).__name__}, expected keys and values")
    return tree


@lru_cache(maxsize=64)
def _load(text: str) -> Any:
    """Content of YAML text, kept: a study, its presets and its report read the same files several times."""
    if "\t" not in text:  # libyaml accepts tabs that PyYAML and DVC refuse
        try:
            return yaml.load(text, _QuickLoader)
        except yaml.YAMLError:
            pass  # the slow loader below raises the better error
    return yaml.load(text, _Loader)

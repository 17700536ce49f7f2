"""`annulus completion SHELL`: a script that completes the commands and options of `annulus` in a shell.

    annulus completion bash > ~/.local/share/bash-completion/completions/annulus
    annulus completion zsh > DIR/_annulus    (DIR of $fpath)

The script holds all words, so completing starts no Python.
"""

import argparse
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import NoReturn

from annulus.commands import commands
from annulus.errors import require

require("annulus.completion", "completion", ["shtab"])

import shtab

NAME = "completion"


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the script."""
    print(shtab.complete(whole_parser(), parser().parse_args(argv).shell))


def parser() -> argparse.ArgumentParser:
    """The command's own argument."""
    words = argparse.ArgumentParser(
        prog="annulus completion", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("shell", choices=shtab.SUPPORTED_SHELLS)
    return words


def whole_parser() -> argparse.ArgumentParser:
    """A parser with a subparser for each command that this Python has."""
    whole = argparse.ArgumentParser(prog="annulus")
    whole.add_argument("--version", action="store_true", help="the version")
    names = whole.add_subparsers()
    for name, (module, line) in commands().items():
        own = parser() if name == NAME else _command_parser(module)
        command = names.add_parser(name, help=line, parents=[own], add_help=False)
        for action in command._actions:
            if action.type is Path:
                action.complete = shtab.FILE
    return whole


class _Made(Exception):
    """Carries the parser of a command, in place of its first parsing."""


def _command_parser(module: str) -> argparse.ArgumentParser:
    """The parser that a command makes; every way to parse calls `parse_known_args`.

    A command whose packages are not installed has no options.
    """

    def made(parser: argparse.ArgumentParser, *_: object, **__: object) -> NoReturn:
        raise _Made(parser)

    try:
        program = import_module(module)
    except ModuleNotFoundError:
        return argparse.ArgumentParser()
    parse = argparse.ArgumentParser.parse_known_args
    argparse.ArgumentParser.parse_known_args = made
    try:
        program.main([])
    except _Made as caught:
        return caught.args[0]
    finally:
        argparse.ArgumentParser.parse_known_args = parse
    raise AssertionError(f"{module} parses nothing")

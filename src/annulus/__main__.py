"""The command `annulus`, and `python -m annulus`: the library's programs by name."""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path

import annulus
from annulus.commands import LABORATORY, commands
from annulus.errors import InputError, abridge, nearest
from annulus.running.imports import uncollected


def main(argv: Sequence[str] | None = None) -> None:
    """Call one command, whose module is imported only now. A user's mistake is one sentence and exit status 1."""
    try:
        Path.cwd()
    except FileNotFoundError:
        raise SystemExit("ERROR: the working folder was deleted; change to another folder, then run again") from None
    known = commands()
    parser = _parser(known)
    arguments = parser.parse_args(argv)
    name = arguments.command
    if name is None:
        parser.error(f"name a command: {', '.join(known)}")
    if name in LABORATORY and name not in known:
        raise SystemExit(
            f"ERROR: annulus {name} belongs to the laboratory, and this Python ({sys.executable}) has the library "
            "alone; clone annulus, then run `make install` there"
        )
    if name not in known:
        raise SystemExit(f"ERROR: annulus has no command {name!r}{nearest(name, known)} (commands: {', '.join(known)})")
    module, _ = known[name]
    try:
        _call(module, arguments.arguments)
    except KeyboardInterrupt:
        raise SystemExit(130) from None  # as a shell has it: no traceback of wherever it was


def _call(module: str, arguments: Sequence[str]) -> None:
    try:
        with uncollected():
            program = import_module(module)
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("annulus"):
            raise
        raise SystemExit(f"ERROR: {error}") from None  # it names the extra to install
    sys.stdout.reconfigure(errors="backslashreplace")  # a locale may lack an arrow
    try:
        try:
            program.main(arguments)
        finally:
            sys.stdout.flush()
    except InputError as error:
        raise SystemExit(f"ERROR: {error}") from None
    except BrokenPipeError:  # of `| head`: ends quietly
        _discard_output()
        raise SystemExit(1) from None
    except OSError as error:
        _discard_output()
        place = "the output cannot be written" if error.filename is None else abridge(str(error.filename))
        raise SystemExit(f"ERROR: {place}: {error.strerror or error}") from None


def _discard_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends


def _parser(known: Mapping[str, tuple[str, str]]) -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {line}" for name, (_, line) in known.items())
    parser = argparse.ArgumentParser(
        prog="annulus",
        usage="annulus COMMAND ...",
        description=f"commands (`annulus COMMAND --help` tells more):\n{lines}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"annulus {annulus.__version__}")
    parser.add_argument("command", nargs="?", help=argparse.SUPPRESS)
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    main()

"""The command `annulus`, and `python -m annulus`: the library's programs by name."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import annulus
from annulus.errors import InputError, nearest
from annulus.late import uncollected

# The module whose `main` a command calls, and its line of --help.
COMMANDS = {
    "look": ("annulus.look", "own images before any training: how many, which sizes, duplicates, a sheet of views"),
    "report": ("annulus.report.command", "one page of all that was measured, beside the papers"),
    "compare": ("annulus.compare.command", "two variants of the main line, number by number"),
    "sweep": ("annulus.sweep.command", "all runs of a study in parallel, here or on a cluster"),
    "presets": ("annulus.studies.presets.listing", "each row of the papers' tables that runs here"),
    "preset": ("annulus.studies.presets.line", "the `dvc exp run` line of one such row, and its hours"),
    "export": ("annulus.export.command", "an encoder for the Hugging Face Hub, transformers, timm and others"),
    "picture": ("annulus.compare.picture", "the annulus around one image of the main line, as an SVG"),
    "runs": ("annulus.compare.runs", "the workspace, HEAD and DVC's experiments side by side"),
    "curve": ("annulus.compare.curve", "the learning curve of the last run in the terminal"),
    "check-gpu": ("annulus.gpu.check", "what of the library is right and fast on this machine's GPU"),
    "restore": ("annulus.pipeline.restore", "after a killed `dvc exp run`: parameters, locks and metrics as committed"),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Call one command, whose module is imported only now. A user's mistake is one sentence and exit status 1."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.error(f"name a command: {', '.join(COMMANDS)}")
    if arguments.command not in COMMANDS:
        meant = nearest(arguments.command, COMMANDS)
        raise SystemExit(
            f"ERROR: annulus has no command {arguments.command!r}{meant} (commands: {', '.join(COMMANDS)})"
        )
    module, _ = COMMANDS[arguments.command]
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more as it ends
        raise SystemExit(1) from None


def _parser() -> argparse.ArgumentParser:
    lines = "\n".join(f"  {name:<10} {line}" for name, (_, line) in COMMANDS.items())
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

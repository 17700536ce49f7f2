"""The programs of the command `annulus`, by name."""

from importlib import import_module
from importlib.util import find_spec

# The module whose `main` a command calls, and its line of --help.
COMMANDS = {
    "look": ("annulus.look", "own images before any training: counts, sizes, duplicates, a sheet of views"),
    "export": ("annulus.export.command", "an encoder for the Hugging Face Hub, transformers, timm and others"),
    "check-gpu": ("annulus.gpu.check", "what of the library is right and fast on this machine's GPU"),
    "completion": ("annulus.completion", "a script that completes commands and options in bash, zsh, fish and others"),
}
# Commands of the laboratory, which stands beside the library in a checkout.
LABORATORY = ("report", "compare", "sweep", "presets", "preset", "picture", "runs", "curve", "restore")


def commands() -> dict[str, tuple[str, str]]:
    """Installed commands with their modules and help lines; a laboratory's replaces the library's of its name."""
    if find_spec("annulus_lab") is None:
        return COMMANDS
    return COMMANDS | import_module("annulus_lab.commands").COMMANDS

"""Refuses the results of a stage whose parameters or code were edited while it ran, or while DVC ran those before.

DVC reads both again once a stage has ended: dvc.lock would name the edited ones beside the numbers of those before, and
its run cache would give these numbers to whoever asks for the edited ones.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.config.file import read_tree
from annulus.config.resolved import SELECTORS
from annulus.errors import InputError
from annulus.pipeline.revision import workspace
from annulus.pipeline.stale import filled, flat, read_yaml, value_at
from annulus.running.code import COMPILED, LIBRARY, computes, imported_files

MOST_NAMED = 4


class Inputs:
    """The inputs of a stage as they are now: its code, and the values of `reads`, in dvc.yaml's spelling, in a file.

    Without `reads`, as of a study's settings, the file counts as a whole.

    Raises:
        InputError: when the file cannot be read.
    """

    def __init__(self, script: Path, params: Path, reads: Sequence[str] | None = None) -> None:
        self.script, self.params, self.reads = script.resolve(), params, reads
        self.tree = {} if reads is None else read_tree(params)
        # DVC names the sections as they were chosen when it started: a later choice does not change them.
        self.keys = [filled(name, self.tree) for name in reads or ()]
        self.files = self._files()

    def refuse_other_choices(self) -> None:
        """Raises InputError where a selector is not the one with which DVC has begun, which the stage `check` has seen.

        A stage depends on `samplers.${sampler}` as DVC filled it in then.
        """
        with suppress(LookupError, TypeError, AttributeError):
            checked = read_yaml(workspace(Path()), "dvc.lock")["stages"]["check"]["params"][self.params.name]
            sections = " ".join(self.reads or ())
            for name in SELECTORS:
                if f"${{{name}}}" in sections and self.tree.get(name) != checked[name]:
                    raise InputError(
                        f"{self.params.name} was edited while DVC ran: {name} is {self.tree.get(name)!r}, and the run "
                        f"began with {checked[name]!r}; run `dvc repro` again"
                    )

    def refuse_edits(self) -> None:
        """Raises InputError where the stage's parameters or code are others by now, with their names."""
        edited = []
        if self.reads is not None:
            before, now = (_values(tree, self.keys) for tree in (self.tree, read_tree(self.params)))
            changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
            edited += [f"{key} ({_shown(before, key)} -> {_shown(now, key)})" for key in changed]
        edited += sorted(os.path.relpath(file) for file in self._edited_files())
        if edited:
            more = f" and {len(edited) - MOST_NAMED} more" if len(edited) > MOST_NAMED else ""
            raise InputError(
                f"edited while this stage ran: {', '.join(edited[:MOST_NAMED])}{more}; dvc.lock would name that beside "
                "the numbers of what was there before. `dvc repro` runs the stage as it is now; where it is put back, "
                "a training is not repeated"
            )

    def _edited_files(self) -> set[Path]:
        """The edited files that the stage depends on; all edited ones where an edit is half done, as no Python."""
        files = self._files()
        edited = {file for file in files.keys() | self.files.keys() if files.get(file) != self.files.get(file)}
        if not edited:
            return edited
        try:
            reached = {file for file in imported_files(self.script) if file == self.script or computes(file)}
        except SyntaxError:
            return edited
        parts = {part for file in reached for part in (file, *map(file.with_suffix, COMPILED))}
        return edited & {*parts, self.params}

    def _files(self) -> dict[Path, bytes]:
        """Digests of the library's files, of the script's, and of settings that count as a whole."""
        code = (file for file in LIBRARY.rglob("*.*") if file.suffix in (".py", *COMPILED))
        whole = (self.params,) if self.reads is None else ()
        digests = {}
        for file in (*code, self.script, *whole):
            with suppress(OSError):
                digests[file] = hashlib.sha256(file.read_bytes()).digest()
        return digests


def _values(tree: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {name: each for key in keys for name, each in flat(value_at(tree, key), key).items()}


def _shown(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key], default=str) if key in values else "absent"

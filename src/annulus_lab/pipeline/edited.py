"""Refuses the results of a stage whose parameters or code were edited while it ran (DVC's issue 11058).

DVC reads the inputs again when a stage has ended. Then dvc.lock would name the edited inputs beside the old numbers,
and the run cache would return the old numbers for the edited inputs.

A stage depends on a digest of its code (`study_code`, `main_code`). The first stage of its pipeline writes the digest.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.running.code import COMPILED, LIBRARY, computes, digest, imported_files
from annulus.settings import Section
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.resolved import CHOICES, SELECTORS, chosen_classes
from annulus_lab.config.tree import read_tree
from annulus_lab.pipeline.revision import workspace
from annulus_lab.pipeline.stale import filled, flat, read_yaml, value_at

STAGES = LIBRARY.parents[1] / "stages"
MOST_NAMED = 4


def study_code(script: Path, settings: Mapping[str, Any]) -> str:
    """Digest of the code that a study's script runs with its settings."""
    return digest(script, chosen_classes(settings) or None)


def main_code(script: Path, params: AllParams, reads: Sequence[str]) -> str:
    """Digest of the code that a main-line stage runs with its parameters; `reads` has dvc.yaml's names."""
    sections = {name.split(".")[0] for name in CHOICES}
    values = [params.get(name) for name in reads if name.split(".")[0] in sections]
    return digest(script, {type(value) for value in values if isinstance(value, Section)} or None)


def refuse_other_code(script: Path, code: str, written: str) -> None:
    """Raises InputError if a script's code has changed since the first stage of its pipeline wrote the digest."""
    if code != written:
        raise InputError(
            f"{os.path.relpath(script)}, or code that it imports, was edited since the first stage of this pipeline "
            "wrote its digest; run `dvc repro` again"
        )


class StageInputs:
    """Present inputs of a stage: its code, and a file's values under `reads`, in dvc.yaml's spelling.

    Without `reads` the whole file counts, as for a study's settings.

    Raises:
        InputError: when the file cannot be read.
    """

    def __init__(self, script: Path, params: Path, reads: Sequence[str] | None = None) -> None:
        self.script, self.params, self.reads = script.resolve(), params, reads
        self.tree = {} if reads is None else read_tree(params)
        # DVC fills in the selectors when it starts: a later choice does not change its sections.
        self.keys = [filled(name, self.tree) for name in reads or ()]
        self.files = self._files()

    def refuse_other_choices(self) -> None:
        """Raises InputError if a selector differs from the value that the stage `check` read when DVC began.

        DVC filled in `samplers.${sampler}` with that value.
        """
        with suppress(LookupError, TypeError, AttributeError):
            locked_params = read_yaml(workspace(Path()), "dvc.lock")["stages"]["check"]["params"][self.params.name]
            sections = " ".join(self.reads or ())
            for name in SELECTORS:
                if f"${{{name}}}" in sections and self.tree.get(name) != locked_params[name]:
                    raise InputError(
                        f"{self.params.name} was edited while DVC ran: {name} is {self.tree.get(name)!r}, and the run "
                        f"began with {locked_params[name]!r}; run `dvc repro` again"
                    )

    def refuse_edits(self) -> None:
        """Raises InputError, with the names, if the stage's parameters or code have changed meanwhile."""
        edits = []
        if self.reads is not None:
            before, now = (_values(tree, self.keys) for tree in (self.tree, read_tree(self.params)))
            changed = sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))
            edits += [f"{key} ({_as_json(before, key)} -> {_as_json(now, key)})" for key in changed]
        edits += sorted(os.path.relpath(file) for file in self._edited_files())
        if edits:
            more = f" and {len(edits) - MOST_NAMED} more" if len(edits) > MOST_NAMED else ""
            raise InputError(
                f"edited while this stage ran: {', '.join(edits[:MOST_NAMED])}{more}; dvc.lock would name the edit "
                "beside the old numbers. `dvc repro` runs the stage as it is now; if you undo the edit, no training is "
                "repeated"
            )

    def _edited_files(self) -> set[Path]:
        """Edited files that the stage depends on; all edited files if one of them is not valid Python."""
        files = self._files()
        edited = {file for file in files.keys() | self.files.keys() if files.get(file) != self.files.get(file)}
        if not edited:
            return edited
        try:
            dependencies = {file for file in imported_files(self.script) if file == self.script or computes(file)}
        except SyntaxError:
            return edited
        parts = {part for file in dependencies for part in (file, *map(file.with_suffix, COMPILED))}
        return edited & {*parts, self.params}

    def _files(self) -> dict[Path, bytes]:
        """SHA-256 of the library's files, of the script, and of a settings file that counts as a whole."""
        code = (file for file in LIBRARY.rglob("*.*") if file.suffix in (".py", *COMPILED))
        whole = (self.params,) if self.reads is None else ()
        digests = {}
        for file in (*code, self.script, *whole):
            with suppress(OSError):
                digests[file] = hashlib.sha256(file.read_bytes()).digest()
        return digests


def _values(tree: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {name: value for key in keys for name, value in flat(value_at(tree, key), key).items()}


def _as_json(values: Mapping[str, Any], key: str) -> str:
    return json.dumps(values[key], default=str) if key in values else "absent"

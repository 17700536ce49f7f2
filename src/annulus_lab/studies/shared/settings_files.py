"""Writes a study's resolved settings: the files that its other stages depend on."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any

from annulus.files.results import write_text
from annulus_lab.pipeline.edited import STAGES, study_code
from annulus_lab.pipeline.stage import one_sentence, path_parser
from annulus_lab.studies.shared.study import MainStudy, OwnStudy, Study


def write_settings(
    main: Callable[[Any], Mapping[str, Any]],
    study: type[OwnStudy],
    readers: Mapping[str, str],
    argv: list[str] | None = None,
) -> None:
    """Writes a study's resolved settings: `main(study)` returns the content of each file by its name.

    `readers`: the script that reads a file, by the first part of the file's name. The file also holds the script's name
    as `script` and the digest of its code as `code`. DVC runs a stage again when its file changes. So it does after an
    edit of the code that the stage runs, and not after other edits. The stage takes a second, makes no number and is
    not tracked.
    """
    files = ["params", "study"] if study in (Study, MainStudy) else ["study"]
    arguments = path_parser(main, [*files, "settings"]).parse_args(argv)
    settings = arguments.settings.absolute()
    paths = [os.path.relpath(getattr(arguments, name), STAGES.parent) for name in files]
    with one_sentence(), chdir(STAGES.parent):  # a fault names each params.yaml by its path from the root
        for name, content in main(study(*map(Path, paths))).items():
            script = readers[name.split("/")[0]]
            code = {"script": script, "code": study_code(STAGES / f"{script}.py", content)}
            text = json.dumps(content | code, indent=2, allow_nan=False)
            write_text(settings / f"{name}.json", text + "\n")

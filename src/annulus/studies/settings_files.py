"""Writes a study's resolved settings, the files that its other stages depend on."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from annulus.files.results import write_text
from annulus.pipeline.stage import one_sentence, parser_of
from annulus.studies.study import MainStudy, OwnStudy, Study


def write_settings(
    main: Callable[[Any], Mapping[str, Any]], study: type[OwnStudy], argv: list[str] | None = None
) -> None:
    """Write a study's resolved settings: `main(study)` gives the content of each file by its name.

    It takes a second, makes no number and is not tracked.
    """
    files = ["params", "study"] if study in (Study, MainStudy) else ["study"]
    arguments = parser_of(main, [*files, "settings"]).parse_args(argv)
    with one_sentence():
        given = (getattr(arguments, name) for name in files)
        for name, content in main(study(*given)).items():
            text = json.dumps(content, indent=2, allow_nan=False)
            write_text(arguments.settings / f"{name}.json", text + "\n")

"""Run a stage with the code of its own checkout: `python stages knn ...`, `python stages algorithms/train ...`.

An experiment that DVC runs in another folder must not use the library of the main checkout.
"""

import os
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
UNTRACKED = ("check", "settings", "study_settings")  # a second each, and no numbers


def main() -> None:
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # names of files and classes are UTF-8, whatever the locale says
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.stdout.reconfigure(errors="backslashreplace")  # as stderr has it: a line costs no finished stage its numbers
    sys.path.insert(0, str(FOLDER.parent / "src"))
    try:
        from annulus.pipeline import tracking
    except ModuleNotFoundError as error:  # it names the extra to install
        raise SystemExit(f"ERROR: {error}") from None

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    script = FOLDER / f"{name}.py"
    if not script.is_file():
        known = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("[!_]*.py"))
        raise SystemExit(f"ERROR: no stage {name!r}; name one of {', '.join(known)}")
    if script.stem not in UNTRACKED:
        tracking.prepare()  # MLflow takes seconds to load, in a child: meanwhile the stage imports torch
    del sys.argv[0]
    runpy.run_path(str(script), run_name="__main__")


if __name__ == "__main__":
    main()

"""Run a stage with the code of its own checkout: `python stages knn ...`, `python stages algorithms/train ...`.

An experiment that DVC runs in another folder must not use the library of the main checkout.

DVC deletes what a stage has in git before it starts the stage; one that fails, or is interrupted, gets it back. Only
what DVC has deleted: a file that git has with the content that the stage's dvc.lock names. Nothing is overwritten.
"""

import hashlib
import os
import re
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NUMBERS = (".json", ".csv", ".png")  # what stages have in git
UNWIND_SECONDS = 5  # for an interrupted stage to leave its files in order


def main() -> None:
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # names of files and classes are UTF-8, whatever the locale says
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.stdout.reconfigure(errors="backslashreplace")  # as stderr has it: a line costs no finished stage its numbers
    absent = [word for word in sys.argv[2:] if word.endswith(NUMBERS) and not Path(word).exists()]
    interrupted = []

    def interrupt(*_: object) -> None:
        """Interrupt, with an alarm to end: an import may turn the interrupt into another error, or swallow it and go
        on."""
        interrupted.append(True)
        signal.signal(signal.SIGALRM, end)
        signal.alarm(UNWIND_SECONDS)
        signal.default_int_handler()

    def end(*_: object) -> None:
        put_back(absent)
        with suppress(OSError):  # the terminal may be gone
            sys.stdout.flush()
            print("ERROR: interrupted; the same command goes on where this one stood", file=sys.stderr, flush=True)
        os._exit(130)  # at once: Python's own shutdown would print more lines

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    for sign in (signal.SIGTERM, signal.SIGHUP):  # of Slurm, `kill`, a terminal that is closed
        # torchrun ends the other processes so when one has failed, and has said why; nohup ignores the terminal's end.
        if signal.getsignal(sign) is signal.SIG_DFL and "WORLD_SIZE" not in os.environ:
            signal.signal(sign, interrupt)
    try:
        run()
    except BaseException:
        if interrupted:
            end()
        put_back(absent)
        raise


def put_back(paths: list[str]) -> None:
    """Only what DVC has deleted, and of several processes the first."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_IGN)
    if "DVC_STAGE" not in os.environ or os.environ.get("RANK", "0") != "0":
        return
    locked = outputs(os.environ["DVC_STAGE"].rpartition(":")[2])
    for path in paths:
        with suppress(OSError, subprocess.SubprocessError):
            blob = ["git", "cat-file", "blob", f":./{path}"]
            content = subprocess.run(blob, capture_output=True, check=True, timeout=5).stdout
            if hashlib.md5(content, usedforsecurity=False).hexdigest() == locked.get(path):
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                with Path(path).open("xb") as file:  # refuses where anything is by now
                    try:
                        file.write(content)
                        file.flush()
                    except OSError:  # a full disk: half a file would be another one to git
                        Path(path).unlink()


def outputs(stage: str) -> dict[str, str]:
    """MD5 of each output of a stage, by path: what the dvc.lock files say, read as text, for yaml may be missing."""
    found, at, section, path = {}, "", "", ""
    for lock in (Path("dvc.lock"), *Path("stages").glob("*/dvc.lock")):
        text = lock.read_text(encoding="utf-8", errors="replace") if lock.is_file() else ""
        for line in re.sub(r" *\n {8,}", " ", text).splitlines():  # a long path goes on in the next line
            if named := re.match(r"  (\S.*):", line):
                at, section = named[1].strip("'\""), ""
            elif named := re.match(r"    (\w+):", line):
                section = named[1]
            elif (at, section) == (stage, "outs") and (named := re.match(r"    [- ] (path|md5): (.+)", line)):
                if named[1] == "path":
                    path = named[2].strip("'\"")
                else:
                    found[path] = named[2]
    return found


def run() -> None:
    sys.path.insert(0, str(FOLDER.parent / "src"))
    from annulus.late import uncollected

    try:
        import annulus.pipeline  # noqa: F401  what a stage needs is installed

        with uncollected():
            import torch  # noqa: F401
    except ModuleNotFoundError as error:  # it names the extra to install
        raise SystemExit(f"ERROR: {error}") from None

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    script = FOLDER / f"{name}.py"
    if not script.is_file():
        known = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("[!_]*.py"))
        raise SystemExit(f"ERROR: no stage {name!r}; name one of {', '.join(known)}")
    del sys.argv[0]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("annulus."):
            raise
        way_out = "`git add` its file: a queued experiment has only those that git knows"
        raise SystemExit(f"ERROR: {error}; {way_out}") from None


if __name__ == "__main__":
    main()

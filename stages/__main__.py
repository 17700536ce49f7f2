"""Runs a stage with the code of its own checkout: `python stages knn ...`, `python stages algorithms/train ...`.

So an experiment that DVC runs in another folder does not use the library of the main checkout.
"""

import os
import runpy
import signal
import sys
from contextlib import suppress
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
UNWIND_SECONDS = 5  # for an interrupted stage to finish its files


def main() -> None:
    if sys.getfilesystemencoding() != "utf-8" and os.environ.get("PYTHONUTF8") != "1":
        os.environ["PYTHONUTF8"] = "1"  # names of files and classes are UTF-8 in every locale
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    sys.stdout.reconfigure(errors="backslashreplace")  # as on stderr: no line may cost a finished stage its numbers
    interrupted = []

    def interrupt(*_: object) -> None:
        """Raises KeyboardInterrupt and sets an alarm that ends the process: an import may swallow the interrupt."""
        interrupted.append(True)
        signal.signal(signal.SIGALRM, end)
        signal.alarm(UNWIND_SECONDS)
        signal.default_int_handler()

    def end(*_: object) -> None:
        with suppress(OSError):  # the terminal may be gone
            sys.stdout.flush()
            print("ERROR: interrupted; the same command continues from here", file=sys.stderr, flush=True)
        os._exit(130)  # at once: Python's own shutdown would print more lines

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    for sign in (signal.SIGTERM, signal.SIGHUP):  # from Slurm, `kill`, or the end of a terminal
        # torchrun sends them to the other processes after one has printed its error. nohup ignores SIGHUP.
        if signal.getsignal(sign) is signal.SIG_DFL and "WORLD_SIZE" not in os.environ:
            signal.signal(sign, interrupt)
    try:
        run()
    except BaseException:
        if interrupted:
            end()
        raise


def run() -> None:
    sys.path.insert(0, str(FOLDER.parent / "src"))
    try:
        from annulus_lab.pipeline.second_run import refuse_second_run  # it also checks for the packages of a stage
    except ModuleNotFoundError as error:  # it names the packages to install
        raise SystemExit(f"ERROR: {error}") from None
    with refuse_second_run():
        run_script()


def run_script() -> None:
    from annulus.running.imports import uncollected

    with uncollected():
        import torch  # noqa: F401

    name = sys.argv[1] if len(sys.argv) > 1 else ""
    script = FOLDER / f"{name}.py"
    if not script.is_file():
        known = sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("[!_]*.py"))
        raise SystemExit(f"ERROR: no stage {name!r}; name one of {', '.join(known)}")
    del sys.argv[0]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith(("annulus.", "annulus_lab.")):
            raise
        way_out = "`git add` its file: a queued experiment has only files that git tracks"
        raise SystemExit(f"ERROR: {error}; {way_out}") from None


if __name__ == "__main__":
    main()

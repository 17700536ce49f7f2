"""A library's own C files: compiled when they are first needed, for this processor, and kept for the next process."""

import ctypes
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

# No number that is not finite, no sign of zero and no trap has to be kept: loops with fabs, floor and a choice between
# two numbers become vectors.
FLAGS = ["-O3", "-ffinite-math-only", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-fopenmp-simd"]
FLAGS += ["-shared", "-fPIC"]


@cache
def library(source: Path) -> ctypes.CDLL:
    """The functions of a C file.

    The compiler is the one that CC names, or cc. The library is kept in ~/.cache/annulus (XDG_CACHE_HOME), by the
    source, the compiler and what the compiler knows of the processor, so that machines may share the folder.

    Raises:
        OSError: on Windows; when there is no compiler, the compiler fails, or the folder cannot be written.
    """
    if sys.platform == "win32":  # gcc's bug 54412: vectors of 32 bytes lie on a stack that is aligned to 16
        raise OSError("no C file is compiled on Windows")
    named = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(named[0]) is None:
        raise FileNotFoundError(f"no C compiler {named[0]}: install one, or name it in CC")
    command, macros = _knowing([*named, *FLAGS])
    name = hashlib.sha256(source.read_bytes() + macros + repr(command).encode()).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "annulus"
    kept = folder / f"{source.stem}-{name[:32]}.so"
    if not kept.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # beside it, so that the move is one step
            made = Path(scratch) / kept.name
            _run([*command, "-o", made, source, "-lm"])
            with made.open("rb+") as file:  # where power fails, half a library would end every process that loads it
                os.fsync(file.fileno())
            made.replace(kept)
    return ctypes.CDLL(str(kept))


def _knowing(command: list[str]) -> tuple[list[str], bytes]:
    """The command for this processor, and the macros that tell the compiler's version and the processor's vectors."""
    ask = ["-dM", "-E", "-x", "c", os.devnull]
    try:
        own = [*command, "-march=native"]
        return own, _run([*own, *ask])
    except OSError:  # some compilers do not know that on some processors
        return command, _run([*command, *ask])


def _run(command: list[str | Path]) -> bytes:
    """Runs a command, and returns its output."""
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout

"""A library's own C files: compiled when they are first needed, for this processor, and kept for the next process."""

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

# No number that is not finite, no sign of zero and no trap has to be kept: loops with fabs, floor and a choice between
# two numbers become vectors.
FLAGS = ("-O3", "-march=native", "-ffinite-math-only", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
LINKED = ("-fopenmp-simd", "-shared", "-fPIC", "-lm")


@cache
def library(source: Path) -> ctypes.CDLL:
    """The functions of a C file.

    The compiler is the one that CC names, or cc. The library is kept in ~/.cache/annulus (XDG_CACHE_HOME), by the
    source, the compiler and what the compiler knows of the processor, so that machines may share the folder.

    Raises:
        OSError: when there is no compiler, the compiler fails, or the folder cannot be written.
    """
    compiler = shutil.which(os.environ.get("CC") or "cc")
    if compiler is None:
        raise FileNotFoundError(f"no C compiler {os.environ.get('CC') or 'cc'}: install one, or name it in CC")
    macros = _run([compiler, *FLAGS, "-dM", "-E", "-x", "c", os.devnull])  # its version, and the processor's vectors
    name = hashlib.sha256(source.read_bytes() + macros + repr((FLAGS, LINKED)).encode()).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "annulus"
    kept = folder / f"{source.stem}-{name[:32]}.so"
    if not kept.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # beside it, so that the move is one step
            made = Path(scratch) / kept.name
            _run([compiler, *FLAGS, "-o", made, source, *LINKED])
            made.replace(kept)
    return ctypes.CDLL(str(kept))


def _run(command: list) -> bytes:
    """What a command prints."""
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout

"""Compiles this library's C files at first use, for this processor, and caches them for later processes."""

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

# The C files compute finite numbers alone, and need neither the sign of zero nor traps. These flags let the compiler
# vectorise loops with fabs, floor and a choice between two numbers.
FLAGS = ["-O3", "-ffinite-math-only", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-fopenmp-simd"]
FLAGS += ["-shared", "-fPIC"]


@cache
def library(source: Path) -> ctypes.CDLL:
    """Compiles a C file and loads its functions.

    CC names the compiler; by default it is cc. The cache is ~/.cache/annulus (XDG_CACHE_HOME). Its keys are the source,
    the compiler and the compiler's macros for the processor, so machines may share the folder.

    Raises:
        OSError: on Windows; if the compiler is missing or fails, or the folder cannot be written.
    """
    if sys.platform == "win32":  # gcc's bug 54412: vectors of 32 bytes lie on a stack that is aligned to 16
        raise OSError("no C file is compiled on Windows")
    compiler = shlex.split(os.environ.get("CC") or "cc")
    if shutil.which(compiler[0]) is None:
        raise FileNotFoundError(f"no C compiler {compiler[0]}: install one, or name it in CC")
    command, macros = _for_this_processor([*compiler, *FLAGS])
    name = hashlib.sha256(source.read_bytes() + macros + repr(command).encode()).hexdigest()
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "annulus"
    cached = folder / f"{source.stem}-{name[:32]}.so"
    if not cached.exists():
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as scratch:  # on the same disk, so the move is one step
            output = Path(scratch) / cached.name
            _run([*command, "-o", output, source, "-lm"])
            with output.open("rb+") as file:  # after a power failure, half a library would crash every process
                os.fsync(file.fileno())
            output.replace(cached)
    return ctypes.CDLL(str(cached))


def _for_this_processor(command: list[str]) -> tuple[list[str], bytes]:
    """Returns the command for this processor, and the macros of compiler version and vector instructions."""
    print_macros = ["-dM", "-E", "-x", "c", os.devnull]
    try:
        native = [*command, "-march=native"]
        return native, _run([*native, *print_macros])
    except OSError:  # some compilers lack the option on some processors
        return command, _run([*command, *print_macros])


def _run(command: list[str | Path]) -> bytes:
    """Runs a command and returns its output."""
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise OSError(f"{command[0]} ended with {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout

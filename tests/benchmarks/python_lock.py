"""Time under Python's lock: the rest of a process's time is what more threads can take at once.

A signal comes every millisecond of the processor, and its handler asks whether the thread that it stopped holds the
lock. So nothing waits for the lock in order to measure it, and other programs on the same cores change no share.
"""

import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

HANDLER = """
#include <signal.h>
#include <sys/time.h>
extern int PyGILState_Check(void);
volatile long held, asked;
static void ask(int number) { asked++; held += PyGILState_Check(); }
void every(int microseconds) {
    struct sigaction action = {.sa_handler = ask, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    if (microseconds) sigaction(SIGPROF, &action, 0);
    setitimer(ITIMER_PROF, &timer, 0);
}
"""
MILLISECOND = 1000


def under_lock(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Processor seconds of a call, repeated for so many seconds, and how many of them it holds Python's lock.

    Raises:
        FileNotFoundError: where there is no C compiler.
    """
    library = compiled()
    held, asked = (ctypes.c_long.in_dll(library, name) for name in ("held", "asked"))
    work()
    held.value = asked.value = calls = 0
    started = time.process_time()
    library.every(MILLISECOND)
    while calls == 0 or time.process_time() - started < seconds:
        work()
        calls += 1
    library.every(0)
    each = (time.process_time() - started) / calls
    return each, each * held.value / max(asked.value, 1)


@cache
def compiled() -> ctypes.PyDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        raise FileNotFoundError("there is no C compiler; install one (on Debian gcc)")
    with tempfile.TemporaryDirectory() as name:
        source, library = Path(name, "lock.c"), Path(name, "lock.so")
        source.write_text(HANDLER, encoding="utf-8")
        subprocess.run([compiler, "-O1", "-shared", "-fPIC", source, "-o", library], check=True)
        return ctypes.PyDLL(library)

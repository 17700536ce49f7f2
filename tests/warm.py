"""A `python` that starts at once: each command is a fork of one process that has loaded torch, DVC and MLflow.

    environment["PATH"] = f"{warm.folder()}:..."     # `python` there is this one

Loading these packages takes most of a stage's seconds at `scale: tiny`, and of any call of DVC. The code of this
repository is loaded by each command, from its own checkout. On other systems than Linux `python` is the usual one.
"""

import atexit
import gc
import importlib
import marshal
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import weakref
from contextlib import suppress
from functools import cache
from pathlib import Path

LOADED = (
    *("torch", "torch._dynamo", "torchvision", "numpy", "faiss", "scipy.stats", "safetensors.torch", "pydantic"),
    *("jaxtyping", "tqdm", "mlflow", "dvc.cli", "dvc.repo", "dvc.commands.repro", "dvc.commands.experiments"),
)
SHARED = "WARM_PYTHON"  # environment variable: folder of a server that another, longer-lived process owns
# Code of `python`: sends arguments, folder, environment, streams and signals to the server; ends as the command ends.
CLIENT = """import marshal, os, signal, socket, sys

with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    request = marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ)))
    socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
    server.sendall(request)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2):
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: server.send(bytes([number])))
    status = int.from_bytes(server.recv(2), "big", signed=True)
if status < 0:
    if status != -signal.SIGKILL:
        signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
sys.exit(status)
"""


@cache
def folder() -> Path:
    """Folder of that `python`, once its server is ready."""
    if sys.platform != "linux":
        return Path(sys.executable).parent
    place = Path(os.environ[SHARED]) if SHARED in os.environ else start()
    while not (place / "ready").exists():
        time.sleep(0.02)
    return place


def start() -> Path:
    """Starts a server, which ends with this process, and returns its folder."""
    # Not an object that removes the folder with its last reference: a fork of Python 3.14 drops exit handlers.
    place = tempfile.mkdtemp()
    python, address = Path(place, "python"), f"{place}/server"
    client = python.with_suffix(".client")
    client.write_text(CLIENT.format(address=address))
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -ISE "{client}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    command = [sys.executable, __file__, address, str(python)]
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    server = subprocess.Popen(command, **streams, start_new_session=True)
    atexit.register(lambda: (server.kill(), server.wait(), shutil.rmtree(place)))
    return python.parent


def serve(address: str, python: str) -> None:
    """Forks for each client, until standard input is closed."""
    for name in LOADED:
        with suppress(ModuleNotFoundError):  # the library alone has no pipeline
            importlib.import_module(name)
    gc.freeze()  # loaded objects stay shared with the forks
    for finalizer in weakref.finalize._registry:  # torch has hundreds, which would run at the end of a command
        finalizer.atexit = False
    sys.executable = python
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        Path(address).with_name("ready").touch()
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            client, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                attend(client)
            client.close()
            with suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    os._exit(0)


def attend(client: socket.socket) -> None:
    """Runs a client's command in a fork, which is killed if the client is killed."""
    size, streams, _, _ = socket.recv_fds(client, 8, 3)
    request = b""
    while len(request) < int.from_bytes(size, "big"):
        request += client.recv(2**16)
    command = os.fork()
    if command == 0:
        client.close()
        os._exit(exit_status(streams, *marshal.loads(request)))  # to release the loaded modules takes a second
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(command)
    while ended not in select.select([client, ended], [], [])[0]:
        number = client.recv(1)
        os.kill(command, number[0]) if number else os.killpg(command, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with suppress(BrokenPipeError):
        client.sendall(status.to_bytes(2, "big", signed=True))
    os._exit(0)


def exit_status(streams: list[int], words: list[str], place: str, environment: dict[str, str]) -> int:
    """Runs `python WORDS` in a folder in this process and returns its exit status."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    streams = [os.fdopen(number, mode, encoding="utf-8") for number, mode in enumerate("rww")]
    sys.stdin, sys.stdout, sys.stderr = streams
    os.chdir(place)
    os.environ.clear()
    os.environ.update(environment)
    status = 0
    try:
        run(words, place, environment.get("PYTHONPATH", ""))
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return status


def run(words: list[str], place: str, path: str) -> None:
    """Runs a script or folder, `-m MODULE` or `-c CODE`, perhaps after `-P` or `-u`."""
    sys.orig_argv = [sys.executable, *words]
    option = words[0] if words[0] in ("-P", "-u") else ""
    kind, *rest = words[bool(option) :]
    sys.path[:1] = folders = [each for each in path.split(os.pathsep) if each]
    for file in (file for each in folders if (file := Path(each, "sitecustomize.py")).exists()):
        runpy.run_path(str(file))  # Python runs it at its start
    if kind in ("-m", "-c"):
        sys.path[:0] = [] if option == "-P" else [place]
        sys.argv = rest
    else:
        sys.path.insert(0, str(Path(kind).resolve().parent))
        sys.argv = [kind, *rest]
    if kind == "-m":
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif kind == "-c":
        exec(rest[0], {"__name__": "__main__"})
    else:
        runpy.run_path(kind, run_name="__main__")


if __name__ == "__main__":
    serve(*sys.argv[1:])

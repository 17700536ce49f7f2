"""Runs a function in processes that form a gloo group; the processes of a group start once and are kept.

    two, other = together(train, "moco")    # results of rank 0 and rank 1

The function and its arguments are pickled: the function stands at the top of a test module and uses only its arguments
at run time. Each process has one thread.
"""

import atexit
import multiprocessing
import os
import pickle
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist


class Failed(AssertionError):
    """A process raised, or ended."""


class _Group:
    """The processes, and a pipe to each."""

    def __init__(self, count: int) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["torch.distributed", "torch._dynamo", "settings"])  # for the next group too
        self.folder = tempfile.mkdtemp()
        self.pipes, self.processes = [], []
        for rank in range(count):
            ours, theirs = context.Pipe()
            rendezvous = (Path(self.folder) / "rendezvous").as_uri()
            process = context.Process(target=_serve, args=(rank, count, rendezvous, theirs), daemon=True)
            with mock.patch.dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)):  # where the server finds `settings`
                process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def call(self, function: Callable, arguments: tuple) -> list[Any]:
        for pipe in self.pipes:
            pipe.send_bytes(pickle.dumps((function, arguments)))
        return self.answers()

    def answers(self) -> list[Any]:
        """Results of all processes; the first failure to arrive is raised at once, since others then wait for it."""
        answers: dict[Connection, Any] = {}
        while waiting := [pipe for pipe in self.pipes if pipe not in answers]:
            for pipe in wait(waiting):
                try:
                    done, answers[pipe] = pickle.loads(pipe.recv_bytes())
                except EOFError:
                    raise Failed(f"rank {self.pipes.index(pipe)} ended without an answer") from None
                if not done:
                    raise Failed(f"rank {self.pipes.index(pipe)} raised\n{answers[pipe]}")
        return [answers[pipe] for pipe in self.pipes]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()
        shutil.rmtree(self.folder)


_groups: dict[int, _Group] = {}


def together(function: Callable, *arguments: Any, processes: int = 2) -> list[Any]:
    """Calls function(*arguments) in all processes at once and returns their results in rank order.

    Raises:
        Failed: with the traceback, when one raises. New processes are then started for the next call.
    """
    if processes not in _groups:
        _groups[processes] = _Group(processes)
    try:
        return _groups[processes].call(function, arguments)
    except BaseException:  # an interrupt too: answers to this call must not reach the next call
        _stop()
        raise


@atexit.register
def _stop() -> None:
    while _groups:
        _groups.popitem()[1].end()


def _serve(rank: int, count: int, rendezvous: str, pipe: Connection) -> None:
    """Answers calls until the other side closes the pipe."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=count)
    with suppress(EOFError, ConnectionError):
        while True:
            request = pipe.recv_bytes()
            try:
                function, arguments = pickle.loads(request)
                answer = (True, function(*arguments))
            except BaseException:
                answer = (False, traceback.format_exc())
            pipe.send_bytes(pickle.dumps(answer))

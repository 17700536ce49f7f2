"""Several processes as one: the memories, the views and the batch statistics see the global batch.

Each process encodes its own slice of the batch (`local`) and scores it against its copy of the whole memory. All
processes store the same gathered embeddings (`all_gather`), so the copies stay equal. The objective is the mean of the
processes' losses, so gradients are averaged (optim/gradients.py). All processes draw the same random numbers. Seeded
weights start equal, so they are never sent. In one process each function returns its argument.
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from jaxtyping import Shaped
from torch import Tensor

from annulus.errors import InputError

OTHERS_SPEAK_SECONDS = 20.0  # for another process to print its error; it waits half as long for the first process
# gloo's and NCCL's words for a process that is gone.
ENDED = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "remote process exited")


@contextmanager
def process_group() -> Iterator[None]:
    """Context in which the processes of torchrun form one group, each on its own GPU if there are GPUs.

    torchrun sets WORLD_SIZE, the number of processes. If it is missing or 1, there is no group.

    Raises:
        InputError: if the environment lacks torchrun's other variables, the machine has fewer GPUs than processes, or
            another process ends while this one waits for it.
    """
    if os.environ.get("WORLD_SIZE", "1") == "1":
        yield
        return
    missing = [name for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise InputError(
            f"WORLD_SIZE is {os.environ['WORLD_SIZE']} in the environment, but not set are {', '.join(missing)}; "
            "start with `torchrun --nproc-per-node N`, or unset WORLD_SIZE for one process"
        )
    backend = "gloo"
    if torch.cuda.is_available():
        gpu, gpus = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if gpu >= gpus:
            raise InputError(
                f"process {gpu + 1} on this machine sees {gpus} GPUs, and each process needs its own; "
                f"start at most {gpus}: `torchrun --nproc-per-node {gpus}`"
            )
        torch.cuda.set_device(gpu)  # the GPU that "cuda" names in this process
        backend = "cpu:gloo,cuda:nccl"
    dist.init_process_group(backend)
    try:
        yield
    except RuntimeError as error:
        if not any(words in str(error) for words in ENDED):
            raise
        time.sleep(OTHERS_SPEAK_SECONDS)  # the process that ended prints its error first, and ends this one
        raise InputError(
            "another process of this run has ended: it printed its error, or it was killed, mostly because memory ran "
            "out; run the same command again to continue"
        ) from error
    finally:
        dist.destroy_process_group()


def world_size() -> int:
    """Number of processes in the group; 1 without a group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """This process's number in the group, from 0."""
    return dist.get_rank() if world_size() > 1 else 0


def local_slice(count: int) -> slice:
    """This process's rows of a global batch of `count`: consecutive, in rank order.

    Raises:
        InputError: if `count` is not a multiple of the number of processes.
    """
    share, rest = divmod(count, world_size())
    if rest:
        raise InputError(
            f"a batch of {count} cannot be shared evenly by {world_size()} processes; "
            f"take a batch size that is a multiple of {world_size()}"
        )
    return slice(rank() * share, (rank() + 1) * share)


def local(x: Shaped[Tensor, "all *rest"]) -> Shaped[Tensor, "b *rest"]:
    """This process's rows of a global batch, as a view.

    Raises:
        InputError: if the batch size is not a multiple of the number of processes.
    """
    return x[local_slice(len(x))]


def all_gather_with_grad(x: Shaped[Tensor, "b *rest"]) -> Shaped[Tensor, "all *rest"]:
    """All processes' rows in rank order, the same in each process; undoes `local`. All processes have the same shapes.

    Backward sums all processes' gradients of this process's rows. So the mean over processes of a parameter's gradient
    is the gradient of the mean loss, whatever each process computes from the rows.
    """
    return _Gather.apply(x) if world_size() > 1 else x


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return all_gather(x)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return _Sum.apply(gradient)


class _Sum(torch.autograd.Function):
    """This process's rows of the sum over processes. It is the derivative of `_Gather`, and `_Gather` is its own."""

    @staticmethod
    def forward(ctx, x: Tensor) -> Tensor:
        return local(all_reduce_(x.clone(memory_format=torch.contiguous_format)))

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return _Gather.apply(gradient)


def all_gather(x: Shaped[Tensor, "b *rest"]) -> Shaped[Tensor, "all *rest"]:
    """`all_gather_with_grad` without a gradient."""
    if world_size() == 1:
        return x
    everyone = x.new_empty(world_size() * len(x), *x.shape[1:])
    dist.all_gather_into_tensor(everyone, x.detach().contiguous())
    return everyone


def all_reduce_(x: Tensor) -> Tensor:
    """The sum over processes, in place and without gradient."""
    if world_size() > 1:
        dist.all_reduce(x)
    return x


def mean_(x: Shaped[Tensor, "*shape"]) -> Shaped[Tensor, "*shape"]:
    """The mean over processes, in place and without gradient."""
    return x if world_size() == 1 else all_reduce_(x).div_(world_size())


def broadcast(value: Any) -> Any:
    """Returns the first process's value in every process, for instance a checkpoint."""
    if world_size() == 1:
        return value
    held = [value]
    dist.broadcast_object_list(held)
    return held[0]

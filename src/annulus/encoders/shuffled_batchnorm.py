"""Batch normalisation over groups of the batch: shuffle-BN.

Batch statistics tell an encoder which images came together: a query and its key, normalised in one batch, can be
matched without looking at either. MoCo therefore shuffles the keys and normalises them in parts (`shuffled`,
`convert`).

Source: He et al. 2020, arXiv:1911.05722, Section 3.3; Ioffe and Szegedy 2015, arXiv:1502.03167, Algorithm 1.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from annulus.device.distributed import all_gather, world_size
from annulus.encoders.batchnorm import SyncBatchNorm, like, replaced
from annulus.encoders.grouped_pass import normalised, normalised_as_operator
from annulus.errors import InputError

log = logging.getLogger("annulus")


def shuffled(count: int, generator: torch.Generator) -> tuple[Int[Tensor, "{count}"], Int[Tensor, "{count}"]]:
    """A random order of `count` rows, and the one that undoes it: rows[order][back] equals rows."""
    order = torch.randperm(count, generator=generator, device=generator.device)
    return order, order.argsort()


class _Grouped(_BatchNorm):
    """Batch-norm whose training statistics are those of each of `groups` consecutive parts of the global batch.

    The result is that of as many devices. Several processes share the groups evenly and exchange their statistics, so
    the running statistics are those of one process: every group's in turn. Evaluation is that of plain batch-norm.
    Within `learning` a network's layers learn their running statistics together, elsewhere each layer by itself.
    """

    measured: Float[Tensor, "groups 2 c"] | None = None  # of this process's groups: mean and variance

    def __init__(self, features: int, groups: int, **settings: object) -> None:
        super().__init__(features, **settings)
        self.groups, self.together = groups, False

    def forward(self, x: Float[Tensor, "b c *space"]) -> Float[Tensor, "b c *space"]:
        """The batch, normalised.

        Raises:
            InputError: when the groups cannot be shared evenly, or would hold one value per channel.
        """
        if not self.training or self.groups == 1 == world_size():
            return super().forward(x)
        self._check_input_dim(x)
        here = self._groups_here(x)
        if self.together:
            return self._in_groups(x, self.measured)
        if self.track_running_stats:
            with learning([self]):
                return self._in_groups(x, self.measured)
        dtype = x.dtype if self.weight is None else self.weight.dtype  # autocast's bfloat16 images have float32's
        return self._in_groups(x, torch.zeros(here, 2, self.num_features, dtype=dtype, device=x.device))

    def _in_groups(self, x: Float[Tensor, "b c *space"], measured: Float[Tensor, "groups 2 c"]) -> Tensor:
        if not torch.is_grad_enabled():
            find = normalised_as_operator if torch.compiler.is_compiling() else normalised
            return find(x, self.weight, self.bias, self.eps, measured)
        # With a momentum of 1, what batch_norm takes for running statistics become the group's own.
        settings = (self.weight, self.bias, True, 1.0, self.eps)
        parts = zip(x.chunk(len(measured)), measured, strict=True)
        return torch.cat([F.batch_norm(rows, *own, *settings) for rows, own in parts])

    def keep_room(self) -> None:
        """Room for the statistics of this process's groups: that of the last pass, where it fits."""
        shape, kept, own = (self.groups // world_size(), 2, self.num_features), self.measured, self.running_mean
        if kept is None or (kept.shape, kept.dtype, kept.device) != (shape, own.dtype, own.device):
            with torch.inference_mode(False):  # what inference makes, no other pass may write
                self.measured = torch.zeros(shape, dtype=own.dtype, device=own.device)

    @property
    def learns(self) -> bool:
        """Returns True if a pass updates the running statistics by groups."""
        return self.training and self.track_running_stats and not self.groups == 1 == world_size()

    def _groups_here(self, x: Tensor) -> int:
        here, rest = divmod(self.groups, world_size())
        if rest:
            raise InputError(
                f"{self.groups} batch-norm groups cannot be shared evenly by {world_size()} processes; "
                f"take a number of groups that is a multiple of {world_size()}"
            )
        values = x[:, 0].numel()
        if len(x) % here or values == here:
            raise InputError(
                f"a batch of {len(x) * world_size()} cannot be normalised in {self.groups} equal groups of two or "
                f"more; take a batch size that is a multiple of {self.groups}, and at least {2 * self.groups}"
            )
        return here


def grouped(network: nn.Module) -> list[_Grouped]:
    """The network's grouped layers."""
    return [layer for layer in network.modules() if isinstance(layer, _Grouped)]


@contextmanager
def learning(layers: Sequence[_Grouped]) -> Iterator[None]:
    """Context for one pass through a network, whose grouped layers update their running statistics together at its end.

    The layers must agree in groups and momentum, as those of `convert` do. Layer by layer, a GPU would run several
    kernels that take longer to start than to run.
    """
    layers = [layer for layer in layers if layer.learns]
    if not layers:
        yield
        return
    assert len({(layer.groups, layer.momentum) for layer in layers}) == 1, "layers differ in groups or momentum"
    for layer in layers:
        layer.together = True
        layer.keep_room()
    try:
        yield
    finally:
        for layer in layers:
            layer.together = False
    _learn(layers, all_gather(torch.cat([layer.measured.flatten(start_dim=1) for layer in layers], dim=1)))


@torch.no_grad()
def _learn(layers: Sequence[_Grouped], measured: Float[Tensor, "groups values"]) -> None:
    """Update the running statistics of all layers by each group in turn, in one step.

    Updating n times by momentum m keeps (1 - m)^n of the old, and m (1 - m)^(n - i) of the i-th.
    """
    count, momentum, batches = len(measured), layers[0].momentum, [layer.num_batches_tracked for layer in layers]
    torch._foreach_add_(batches, count)
    if momentum is None:  # the plain average of all groups so far
        share = batches[0].to(measured.dtype).reciprocal()
        weights, kept = share.expand(count), 1 - count * share
    else:
        weights = _weights(count, momentum, measured.dtype, measured.device)
        kept = (1 - momentum) ** count
    running = [statistic for layer in layers for statistic in (layer.running_mean, layer.running_var)]
    torch._foreach_mul_(running, kept)
    torch._foreach_add_(
        running, (measured * weights[:, None]).sum(dim=0).split([len(statistic) for statistic in running])
    )


@cache
def _weights(count: int, momentum: float, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "{count}"]:
    """Weight of each of `count` groups in the running statistics; cached, since many layers need the same."""
    after = torch.arange(count - 1, -1, -1, dtype=dtype, device=device)
    return momentum * (1 - momentum) ** after


class GroupedBatchNorm1d(_Grouped, nn.BatchNorm1d):
    __doc__ = _Grouped.__doc__


class GroupedBatchNorm2d(_Grouped, nn.BatchNorm2d):
    __doc__ = _Grouped.__doc__


def convert(module: nn.Module, groups: int) -> nn.Module:
    """The module with each batch-norm replaced by a grouped one of the same weights, statistics and names.

    `groups` are those of the global batch, whatever the number of processes. Warns of batch-norms that stay as they
    are: those of three dimensions, and torch's synchronised ones.
    """
    kinds = {nn.BatchNorm1d: GroupedBatchNorm1d, nn.BatchNorm2d: GroupedBatchNorm2d}

    def replacement(norm: nn.Module) -> _BatchNorm | None:
        assert not isinstance(norm, SyncBatchNorm), "convert before `synchronised`, whose layers have no groups"
        kind = next((new for old, new in kinds.items() if isinstance(norm, old)), None)
        return kind and like(norm, lambda features, **settings: kind(features, groups=groups, **settings))

    converted = replaced(module, replacement)
    norms = (each for each in converted.modules() if isinstance(each, _BatchNorm))
    others = {type(norm).__name__ for norm in norms if not isinstance(norm, _Grouped)}
    if groups > 1 and others:
        log.warning("WARNING: shuffle_groups %d leaves layers %s as they are", groups, ", ".join(sorted(others)))
    return converted

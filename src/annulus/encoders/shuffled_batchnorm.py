"""Batch normalisation over groups of the batch: shuffle-BN.

Batch statistics reveal the images of a batch: if a query and its key are normalised in one batch, an encoder can match
them by the statistics alone. MoCo therefore shuffles the keys and normalises them in parts (`shuffled`, `convert`).

Source: He et al. 2020, arXiv:1911.05722, Section 3.3; Ioffe and Szegedy 2015, arXiv:1502.03167, Algorithm 1.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from inspect import signature

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from annulus.device.distributed import all_gather, world_size
from annulus.encoders.batchnorm import SyncBatchNorm
from annulus.encoders.grouped_pass import normalised, normalised_as_operator
from annulus.errors import InputError

log = logging.getLogger("annulus")


def shuffled(count: int, generator: torch.Generator) -> tuple[Int[Tensor, "{count}"], Int[Tensor, "{count}"]]:
    """A random order of `count` rows, and its inverse: rows[order][back] equals rows."""
    order = torch.randperm(count, generator=generator, device=generator.device)
    return order, order.argsort()


class _Grouped(_BatchNorm):
    """Batch-norm with training statistics of each of `groups` consecutive parts of the global batch.

    The result is the same as on `groups` devices. Several processes share the groups evenly and exchange their
    statistics, so every process updates its running statistics by each group in turn. Evaluation is plain batch-norm.
    Within `learning` a network's layers update their running statistics together, elsewhere each by itself.
    """

    own_forward = False  # True if the plain batch-norm has its own forward, other than torch's
    together = False
    measured: Float[Tensor, "groups 2 c"] | None = None  # of this process's groups: mean and variance

    def __init__(self, features: int, groups: int, **settings: object) -> None:
        super().__init__(features, **settings)
        self.groups = groups

    def __init_subclass__(cls) -> None:
        cls.own_forward = super().forward is not _BatchNorm.forward

    def __reduce__(self) -> tuple[object, ...]:
        plain = type(self).__bases__[1]
        return _blank, (plain,), self.__getstate__()

    def forward(self, x: Float[Tensor, "b c *space"]) -> Float[Tensor, "b c *space"]:
        """Normalises the batch.

        Raises:
            InputError: if processes cannot share the groups evenly, groups would be unequal, or a group would hold one
                value per channel.
        """
        if not self.training:
            return super().forward(x)
        self._check_input_dim(x)
        here = self._groups_here(x)
        if self.together or not self.track_running_stats:
            return self._in_groups(x, here)
        with learning([self]):
            return self._in_groups(x, here)

    def _in_groups(self, x: Float[Tensor, "b c *space"], here: int) -> Float[Tensor, "b c *space"]:
        if self.own_forward or torch.is_grad_enabled():
            return self._by_turns(x, here)
        measured = self.measured
        if not self.track_running_stats:
            dtype = x.dtype if self.weight is None else self.weight.dtype  # float32 for autocast's bfloat16
            measured = torch.zeros(here, 2, self.num_features, dtype=dtype, device=x.device)
        find = normalised_as_operator if torch.compiler.is_compiling() else normalised
        return find(x, self.weight, self.bias, self.eps, measured)

    def _by_turns(self, x: Float[Tensor, "b c *space"], here: int) -> Float[Tensor, "b c *space"]:
        """Normalises each group by the forward of the plain batch-norm.

        With a momentum of 1, its running statistics become the group's own. Each group starts from the layer's running
        statistics, as on its own device.
        """
        if not self.track_running_stats:
            return torch.cat([super(_Grouped, self).forward(rows) for rows in x.chunk(here)])
        kept, momentum, parts = dict(self._buffers), self.momentum, []
        count = torch.zeros_like(self.num_batches_tracked)
        with torch.no_grad():
            self.measured.copy_(torch.stack([self.running_mean, self.running_var]))
        try:
            self.momentum = 1.0
            for rows, (mean, var) in zip(x.chunk(here), self.measured, strict=True):
                self._buffers.update(running_mean=mean, running_var=var, num_batches_tracked=count)
                parts.append(super().forward(rows))
                if self.running_mean is not mean:  # its forward replaces the tensors
                    mean.copy_(self.running_mean.detach())
                    var.copy_(self.running_var.detach())
        finally:
            self.momentum = momentum
            self._buffers.update(kept)
        return torch.cat(parts)

    def keep_room(self) -> None:
        """Allocates memory for the statistics of this process's groups, unless the last pass's memory fits."""
        shape, kept, own = (self.groups // world_size(), 2, self.num_features), self.measured, self.running_mean
        if kept is None or (kept.shape, kept.dtype, kept.device) != (shape, own.dtype, own.device):
            with torch.inference_mode(False):  # no other pass may write a tensor of inference mode
                self.measured = torch.zeros(shape, dtype=own.dtype, device=own.device)

    @property
    def learns(self) -> bool:
        """Returns True if a pass updates the running statistics by groups."""
        return self.training and self.track_running_stats

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
    """Context for one pass through a network: grouped layers update their running statistics together at its end.

    Layers with the same momentum update in one step; most networks have one momentum. Layer by layer, a GPU would run
    several kernels that take longer to start than to run.
    """
    layers = [layer for layer in layers if layer.learns]
    for layer in layers:
        layer.together = True
        layer.keep_room()
    try:
        yield
    finally:
        for layer in layers:
            layer.together = False
    for some in _of_one_momentum(layers):
        _learn(some, all_gather(torch.cat([layer.measured.flatten(start_dim=1) for layer in some], dim=1)))


def _of_one_momentum(layers: Sequence[_Grouped]) -> Iterable[Sequence[_Grouped]]:
    """Sets of layers that may update in one step. A layer without momentum averages by its own count of batches."""
    alike: dict[object, list[_Grouped]] = {}
    for layer in layers:
        alike.setdefault((layer.groups, id(layer) if layer.momentum is None else layer.momentum), []).append(layer)
    return alike.values()


@torch.no_grad()
def _learn(layers: Sequence[_Grouped], measured: Float[Tensor, "groups values"]) -> None:
    """Updates the running statistics of all layers by each group in turn, in one step.

    n updates with momentum m keep (1 - m)^n of the old value, and m (1 - m)^(n - i) of the i-th group's.
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


@cache
def _kind(plain: type[_BatchNorm]) -> type[_Grouped]:
    """Class of a grouped batch-norm that normalises each group as the plain one does."""
    made = {nn.BatchNorm1d: GroupedBatchNorm1d, nn.BatchNorm2d: GroupedBatchNorm2d}
    return made.get(plain) or type(f"Grouped{plain.__name__}", (_Grouped, plain), {"__doc__": _Grouped.__doc__})


def _blank(plain: type[_BatchNorm]) -> _Grouped:
    """A grouped batch-norm without its state, which unpickling adds."""
    kind = _kind(plain)
    return kind.__new__(kind)


def convert(module: nn.Module, groups: int) -> nn.Module:
    """Makes the module's batch-norms normalise in groups; each keeps its forward, its weights and its name.

    `groups` are parts of the global batch, for any number of processes; 1 leaves the layers as they are. Warns of
    batch-norms that stay unchanged: three-dimensional ones and torch's synchronised ones.

    Raises:
        InputError: for a batch-norm whose forward takes more than a batch, or that contains another one.
    """
    norms = [(name, part) for name, part in module.named_modules() if isinstance(part, _BatchNorm)]
    for name, norm in norms:
        assert not isinstance(norm, SyncBatchNorm), "convert before `synchronised`, whose layers have no groups"
        if groups > 1 and isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) and not isinstance(norm, _Grouped):
            _check_forward(name, norm)
            norm.__class__ = _kind(type(norm))
        if isinstance(norm, _Grouped):
            norm.groups = groups
    others = {type(norm).__name__ for _, norm in norms if not isinstance(norm, _Grouped)}
    if groups > 1 and others:
        log.warning("WARNING: shuffle_groups %d leaves layers %s as they are", groups, ", ".join(sorted(others)))
    return module


def _check_forward(name: str, norm: _BatchNorm) -> None:
    """
    Raises:
        InputError: for a batch-norm with a forward that cannot pass over one group after the other.
    """
    kind, takes = type(norm).__name__, signature(norm.forward).parameters.values()
    more = [
        parameter.name
        for parameter in takes
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ][1:]
    inside = [type(part).__name__ for part in norm.modules() if isinstance(part, _BatchNorm)][1:]
    if more or inside:
        has = f"takes {' and '.join(more)} too" if more else f"has a {inside[0]} inside"
        raise InputError(
            f"layer {name or kind} is a {kind}, which {has}, and cannot normalise a batch group by group; "
            "take shuffle_groups=1, or another batch-norm"
        )

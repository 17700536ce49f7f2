"""Batch normalisation over less than the batch (shuffle-BN) or over all processes' batches (sync-BN).

Batch statistics tell an encoder which images came together: a query and its key, normalised in one batch, can be
matched without looking at either. MoCo therefore shuffles the keys and normalises them in parts (`shuffled`,
`convert`); SimCLR and SiMo normalise everything by the statistics of the global batch (`synchronised`).

Source: He et al. 2020, arXiv:1911.05722, Section 3.3; Ioffe and Szegedy 2015, arXiv:1502.03167, Algorithm 1.
"""

from collections.abc import Callable
from functools import cache

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from annulus.compute.distributed import all_gather, all_reduce_, world_size
from annulus.errors import InputError


def shuffled(count: int, generator: torch.Generator) -> tuple[Int[Tensor, "{count}"], Int[Tensor, "{count}"]]:
    """A random order of `count` rows, and the one that undoes it: rows[order][back] equals rows."""
    order = torch.randperm(count, generator=generator, device=generator.device)
    return order, order.argsort()


class _Grouped(_BatchNorm):
    """In training, each of `groups` consecutive parts of the global batch has its own statistics.

    The result is that of as many devices. Several processes share the groups evenly and exchange their statistics, so
    the running statistics are those of one process: every group's in turn. Evaluation is that of plain batch-norm.
    """

    def __init__(self, features: int, groups: int, **settings: object) -> None:
        super().__init__(features, **settings)
        self.groups = groups

    def forward(self, x: Float[Tensor, "b c *space"]) -> Float[Tensor, "b c *space"]:
        """The batch, normalised.

        Raises:
            InputError: when the groups cannot be shared evenly, or would hold one value per channel.
        """
        if not self.training or self.groups == 1 == world_size():
            return super().forward(x)
        self._check_input_dim(x)
        here = self._groups_here(x)
        # With a momentum of 1, what batch_norm takes for running statistics become the group's own.
        measured = torch.zeros(2, here, self.num_features, dtype=_statistics_dtype(self, x), device=x.device)
        parts = list(zip(x.chunk(here), *measured, strict=True))
        if torch.is_grad_enabled():
            result = torch.cat([self._normalised(*part) for part in parts])
        else:  # the key encoder's case: writing in place saves copying the parts, some 40 % of the time
            result, unread = torch.empty_like(x), torch.empty_like(measured[:, 0])
            for (rows, mean, var), out in zip(parts, result.chunk(here), strict=True):
                settings = (self.weight, self.bias, mean, var, True, 1.0, self.eps)
                torch.ops.aten.native_batch_norm.out(
                    rows, *settings, out=out, save_mean=unread[0], save_invstd=unread[1]
                )
        if self.track_running_stats:
            self._learn(all_gather(measured.transpose(0, 1)))
        return result

    def _normalised(self, rows: Tensor, mean: Tensor, var: Tensor) -> Tensor:
        return F.batch_norm(rows, mean, var, self.weight, self.bias, True, 1.0, self.eps)

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

    @torch.no_grad()
    def _learn(self, measured: Float[Tensor, "groups 2 c"]) -> None:
        """Update the running statistics by each group in turn, in one step.

        Updating n times by momentum m keeps (1 - m)^n of the old, and m (1 - m)^(n - i) of the i-th.
        """
        count = len(measured)
        self.num_batches_tracked.add_(count)
        if self.momentum is None:  # the plain average of all groups so far
            share = self.num_batches_tracked.to(measured.dtype).reciprocal()
            weights, kept = share.expand(count), 1 - count * share
        else:
            weights = _weights(count, self.momentum, measured.dtype, measured.device)
            kept = (1 - self.momentum) ** count
        running = [self.running_mean, self.running_var]
        torch._foreach_mul_(running, kept)
        torch._foreach_add_(running, (measured * weights[:, None, None]).sum(dim=0).unbind())


@cache
def _weights(count: int, momentum: float, dtype: torch.dtype, device: torch.device) -> Float[Tensor, "{count}"]:
    """What of each of so many groups the running statistics keep; made once, since many layers need the same."""
    after = torch.arange(count - 1, -1, -1, dtype=dtype, device=device)
    return momentum * (1 - momentum) ** after


class GroupedBatchNorm1d(_Grouped, nn.BatchNorm1d):
    __doc__ = _Grouped.__doc__


class GroupedBatchNorm2d(_Grouped, nn.BatchNorm2d):
    __doc__ = _Grouped.__doc__


class SyncBatchNorm(_BatchNorm):
    """In training, the statistics are those of all processes' batches together; in one process plain batch-norm.

    Takes CPU tensors too, which torch's own refuses. Each process sends a mean, a variance and a count per channel
    forward, and two sums back; the input's gradient is that of the sum of all processes' losses, the weights'
    gradient is that of this process's rows only, as `mean_gradients` expects it.
    """

    def forward(self, x: Float[Tensor, "b c *space"]) -> Float[Tensor, "b c *space"]:
        if not self.training or world_size() == 1:
            return super().forward(x)
        self._check_input_dim(x)
        mean, var, count = self._global_statistics(x)
        if self.track_running_stats:
            self.num_batches_tracked.add_(1)
            share = 1 / self.num_batches_tracked.to(mean.dtype) if self.momentum is None else self.momentum
            self.running_mean.lerp_(mean, share)
            self.running_var.lerp_(var * (count / (count - 1)), share)  # unbiased, as in torch
        return _Synchronised.apply(x, self.weight, self.bias, mean, var, count, self.eps)

    @torch.no_grad()
    def _global_statistics(
        self, x: Float[Tensor, "b c *space"]
    ) -> tuple[Float[Tensor, "c"], Float[Tensor, "c"], Float[Tensor, ""]]:
        """Mean, biased variance and number of values per channel, over all processes.

        Variances are merged through the distances of the means: a difference of sums of squares would cancel.

        Source: Chan, Golub and LeVeque 1983, "Algorithms for computing the sample variance", Eq. 2.1.
        """
        unread = x.new_empty(self.num_features, dtype=_statistics_dtype(self, x))  # says the type of the result
        mean, var = torch.batch_norm_update_stats(x, unread, unread, 1.0)
        count = mean.new_full((1,), x[:, 0].numel())
        everyone = all_gather(torch.cat([mean, var, count])[None])
        means, vars_, counts = everyone.split([len(mean), len(var), 1], dim=1)
        total = counts.sum()
        share = counts / total
        mean = (share * means).sum(dim=0)
        return mean, (share * (vars_ + (means - mean).square())).sum(dim=0), total

    def _check_input_dim(self, x: Tensor) -> None:
        if x.dim() < 2:
            raise ValueError(f"batch-norm takes a batch of channels, got {x.dim()} dimensions")


class _Synchronised(torch.autograd.Function):
    """Normalise by statistics over every process's x."""

    @staticmethod
    def forward(
        ctx,
        x: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor,
        var: Tensor,
        count: Tensor,
        eps: float,
    ) -> Tensor:
        ctx.save_for_backward(x, weight, mean, var, count)
        ctx.eps = eps
        return F.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)

    @staticmethod
    @once_differentiable
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """With z = (x - mean) / std and g the gradient by w z + b, over the N values of all processes:

        dx = w / std * (g - sum(g) / N - z * sum(g z) / N)

        Source: Ioffe and Szegedy 2015, arXiv:1502.03167, Section 3 (solved for x).
        """
        x, weight, mean, var, count = ctx.saved_tensors
        # As if the statistics were constants: w / std * g, and this process's sums of g z and g.
        dx, dweight, dbias = torch.ops.aten.native_batch_norm_backward(
            gradient, x, weight, mean, var, None, None, False, ctx.eps, [True, True, True]
        )
        by_z, by_one = all_reduce_(torch.stack([dweight, dbias])) / count
        inverse = (var + ctx.eps).rsqrt()
        scale = inverse if weight is None else inverse * weight
        channel = (-1, *[1] * (x.dim() - 2))
        through = x - mean.view(channel)
        through.mul_((scale * inverse * by_z).view(channel)).add_((scale * by_one).view(channel))
        if weight is None:
            dweight = dbias = None
        return dx.sub_(through), dweight, dbias, None, None, None, None


def _statistics_dtype(norm: _BatchNorm, x: Tensor) -> torch.dtype:
    """Autocast's bfloat16 images have float32 statistics, as the layer's own tensors are."""
    own = norm.running_mean if norm.running_mean is not None else norm.weight
    return x.dtype if own is None else own.dtype


def convert(module: nn.Module, groups: int) -> nn.Module:
    """The module with each batch-norm replaced by a grouped one of the same weights, statistics and names.

    `groups` are those of the global batch, whatever the number of processes.
    """
    kinds = {nn.BatchNorm1d: GroupedBatchNorm1d, nn.BatchNorm2d: GroupedBatchNorm2d}

    def replacement(norm: nn.Module) -> _BatchNorm | None:
        assert not isinstance(norm, SyncBatchNorm), "convert before `synchronised`, whose layers have no groups"
        kind = next((new for old, new in kinds.items() if isinstance(norm, old)), None)
        return kind and _like(norm, lambda features, **settings: kind(features, groups=groups, **settings))

    return _replaced(module, replacement)


def synchronised(module: nn.Module) -> nn.Module:
    """The module with each batch-norm replaced by `SyncBatchNorm`, of the same weights, statistics and names.

    Raises:
        InputError: in one process, which has nobody to share statistics with.
    """
    if world_size() == 1:
        raise InputError(
            "sync batch-norm needs several processes to share statistics, and this is the only one; "
            "start it with `torchrun --nproc-per-node N`, or take batch_norm: shuffle"
        )
    return _replaced(
        module, lambda norm: _like(norm, SyncBatchNorm) if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d) else None
    )


def _replaced(module: nn.Module, replacement: Callable[[nn.Module], nn.Module | None]) -> nn.Module:
    """The module itself with its parts exchanged, or what takes its place."""
    new = replacement(module)
    if new is not None:
        return new
    for name, child in module.named_children():
        setattr(module, name, _replaced(child, replacement))
    return module


def _like(norm: _BatchNorm, kind: Callable[..., _BatchNorm]) -> _BatchNorm:
    """A batch-norm of another kind around the very same parameters and buffers: optimisers keep theirs."""
    new = kind(
        norm.num_features,
        eps=norm.eps,
        momentum=norm.momentum,
        affine=norm.affine,
        track_running_stats=norm.track_running_stats,
        device="meta",
    )
    for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
        setattr(new, name, getattr(norm, name))
    return new.train(norm.training)

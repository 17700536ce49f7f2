"""Batch normalisation over all processes' batches: sync-BN.

SimCLR and SiMo normalise everything by the statistics of the global batch (`synchronised`).

Source: He et al. 2020, arXiv:1911.05722, Section 3.3; Ioffe and Szegedy 2015, arXiv:1502.03167, Algorithm 1.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from annulus.device.distributed import all_gather, all_reduce_, world_size
from annulus.errors import InputError


class SyncBatchNorm(_BatchNorm):
    """Batch-norm with training statistics over the batches of all processes; in one process plain batch-norm.

    It also takes CPU tensors, which torch's own layer refuses. In forward each process sends a mean, a variance and a
    count per channel, in backward two sums per channel. The input's gradient is of the sum of all processes' losses.
    The weights' gradient is of this process's rows, as `GradientMeans` expects. There are first derivatives only.
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
        unread = x.new_empty(self.num_features, dtype=_statistics_dtype(self, x))  # sets the type of the result
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
    """Normalisation by statistics over the x of all processes, as a function of autograd."""

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
    def backward(ctx, gradient: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients, over the N values of all processes.

        With z = (x - mean) / std and g the gradient by w z + b: dx = w / std * (g - sum(g) / N - z * sum(g z) / N)

        Source: Ioffe and Szegedy 2015, arXiv:1502.03167, Section 3 (solved for x).

        Raises:
            InputError: for a second derivative.
        """
        # torch's `once_differentiable` would silently omit the part of the statistics: its error depends on none of the
        # graph's tensors, so `torch.autograd.grad` does not reach it.
        if torch.is_grad_enabled():
            raise InputError(
                "create_graph=True asks batch-norm for a second derivative over several processes, which it has not; "
                "take it in one process, or with the network in evaluation mode"
            )
        x, weight, mean, var, count = ctx.saved_tensors
        # With the statistics as constants: w / std * g, and this process's sums of g z and g.
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
    """Type of the layer's own tensors and of its statistics: float32 also for autocast's bfloat16 images."""
    own = norm.running_mean if norm.running_mean is not None else norm.weight
    return x.dtype if own is None else own.dtype


def synchronised(module: nn.Module) -> nn.Module:
    """Makes the module's batch-norms `SyncBatchNorm`; weights, statistics and names stay. Returns the module.

    Raises:
        InputError: in a single process; for a batch-norm of another class than torch's, whose forward would be lost.
    """
    if world_size() == 1:
        raise InputError(
            "sync batch-norm needs several processes to share statistics, and this is the only one; "
            "start it with `torchrun --nproc-per-node N`, or take batch_norm 'shuffle'"
        )
    for name, norm in module.named_modules():
        if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
            kind = type(norm)
            if kind not in (nn.BatchNorm1d, nn.BatchNorm2d):
                raise InputError(
                    f"layer {name or kind.__name__} is a {kind.__name__}, which sync batch-norm cannot replace; make "
                    "it one of its own (timm.layers.convert_sync_batchnorm does), or take batch_norm 'shuffle'"
                )
            norm.__class__ = SyncBatchNorm
    return module

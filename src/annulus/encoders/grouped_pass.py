"""Batch-norm over consecutive groups of a batch, without gradient: the pass of a key encoder.

On a GPU two Triton kernels serve all groups (`annulus.encoders.grouped_kernels`). In other cases PyTorch's batch-norm
passes over each group: on other devices, for types and layouts that networks do not use, and if the kernels do not
agree with it. A compiled network calls it as one operator: torch's compiler would make kernels for every group, about
20 a layer.
"""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.device.trust import trusted


def normalised(
    x: Float[Tensor, "b c *space"],
    weight: Float[Tensor, "c"] | None,
    bias: Float[Tensor, "c"] | None,
    eps: float,
    measured: Float[Tensor, "groups 2 c"],
) -> Float[Tensor, "b c *space"]:
    """Normalises each of `len(measured)` groups of rows; `measured` gets their means and unbiased variances."""
    agrees = _AGREES.get(x.dtype)
    usable = x.is_cuda and agrees is not None and _fits(x, weight, bias, measured)
    if usable and trusted("annulus.encoders.grouped_kernels", agrees, x.device):
        return by_kernels(x, weight, bias, eps, measured)
    return plain(x, weight, bias, eps, measured)


def _fits(x: Tensor, weight: Tensor | None, bias: Tensor | None, measured: Tensor) -> bool:
    """Returns True if the kernels can read it: channels innermost and 16 bytes at a time, weights in float32."""
    if weight is None or bias is None or not weight.dtype == bias.dtype == measured.dtype == torch.float32:
        return False
    layout = {2: torch.contiguous_format, 4: torch.channels_last}.get(x.dim())
    return layout is not None and x.shape[1] % 16 == 0 and x.is_contiguous(memory_format=layout)


def by_kernels(
    x: Float[Tensor, "b c *space"],
    weight: Float[Tensor, "c"],
    bias: Float[Tensor, "c"],
    eps: float,
    measured: Float[Tensor, "groups 2 c"],
) -> Float[Tensor, "b c *space"]:
    """`normalised` by kernels."""
    from annulus.encoders import grouped_kernels  # it needs Triton

    with torch.cuda.device_of(x):  # Triton starts kernels on the current device
        return grouped_kernels.normalised(x, weight, bias, eps, measured)


def plain(
    x: Float[Tensor, "b c *space"],
    weight: Float[Tensor, "c"] | None,
    bias: Float[Tensor, "c"] | None,
    eps: float,
    measured: Float[Tensor, "groups 2 c"],
) -> Float[Tensor, "b c *space"]:
    """`normalised` group by group, on any device."""
    x = _dense(x)  # on a CPU PyTorch writes wrong numbers into other strides
    # Writing in place saves a copy of the parts, about 40 % of the time. With a momentum of 1, the running statistics
    # become the group's own.
    result, unread = torch.empty_like(x), torch.empty_like(measured[0])
    for rows, (mean, var), out in zip(x.chunk(len(measured)), measured, result.chunk(len(measured)), strict=True):
        settings = (weight, bias, mean, var, True, 1.0, eps)
        torch.ops.aten.native_batch_norm.out(rows, *settings, out=out, save_mean=unread[0], save_invstd=unread[1])
    return result


def _dense(x: Tensor) -> Tensor:
    """The batch in dense memory: channels last if they are last already, else contiguous."""
    last = x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last)
    return x.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)


normalised_as_operator = torch.library.custom_op(
    "annulus::grouped_batch_norm",
    normalised,
    mutates_args=("measured",),
    schema="(Tensor x, Tensor? weight, Tensor? bias, float eps, Tensor(a!) measured) -> Tensor",
)
normalised_as_operator.register_fake(lambda x, weight, bias, eps, measured: torch.empty_like(_dense(x)))


def kernels_agree(device: torch.device, dtype: torch.dtype = torch.float32) -> bool:
    """Returns True if the kernels agree with `plain` in float64, for batches of images and of rows."""
    generator = torch.Generator().manual_seed(0)
    return all(
        agrees(torch.randn(shape, generator=generator), groups, device, dtype)
        for shape, groups in (((1, 16, 130, 131), 1), ((390, 80), 3), ((8, 32, 1, 1), 4))
    )


def agrees(drawn: Float[Tensor, "b c *space"], groups: int, device: torch.device, dtype: torch.dtype) -> bool:
    """Returns True if the kernels on this device agree with `plain` in float64, for a random batch with hard channels.

    Channel 0 becomes constant, channel 1 far from 0, channel 2 full of ties; channel 3 begins with an outlier.
    """
    layout = torch.channels_last if drawn.dim() == 4 else torch.contiguous_format
    hard = drawn.clone()
    hard[:, 0], hard[:, 1], hard[:, 2] = 7.3, 100 + drawn[:, 1] / 10, drawn[:, 2].round()
    hard[0, 3] = hard[0, 3] + 1000
    x = hard.to(dtype).contiguous(memory_format=layout)
    weight, bias = torch.linspace(0.5, 2, x.shape[1]), torch.linspace(-1, 1, x.shape[1])
    measured = torch.zeros(groups, 2, x.shape[1])
    exact = measured.double()
    expected = plain(x.double(), weight.double(), bias.double(), 1e-5, exact)
    there = measured.to(device)
    normalised = by_kernels(x.to(device), weight.to(device), bias.to(device), 1e-5, there).cpu()
    return (
        normalised.dtype == dtype
        and normalised.is_contiguous(memory_format=layout)
        and torch.allclose(normalised.double(), expected, rtol=torch.finfo(dtype).eps, atol=1e-3)
        and torch.allclose(there.cpu().double(), exact, rtol=1e-4, atol=1e-6)
    )


_AGREES = {dtype: partial(kernels_agree, dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)}

"""Grouped batch-norm by interpreted Triton kernels against PyTorch's in float64, and the inputs of the kernels."""

from unittest import mock

import pytest
import torch
import torch.nn.functional as F
from interpreted import interpreted, needs_triton
from pretended_gpu import PretendedGPU

from annulus.encoders import grouped_pass
from annulus.encoders.shuffled_batchnorm import GroupedBatchNorm1d, GroupedBatchNorm2d

pytestmark = needs_triton


def normalise(x, weight, bias, eps, groups):
    """Normalises a batch by kernels; returns it and the whole buffer, whose middle holds the layer's statistics."""
    from annulus.encoders import grouped_kernels

    buffer = torch.full((groups, 4 * x.shape[1]), -5.0)
    measured = buffer[:, x.shape[1] : -x.shape[1]].view(groups, 2, x.shape[1])
    return grouped_kernels.normalised(x, weight, bias, eps, measured), buffer


@pytest.mark.slow
def test_kernels_normalise_each_group_as_pytorch_in_float64(generator):
    """Shapes need one tile, several loops, a rest of rows or channels; channels have large means or are constant."""
    inputs = []
    for shape, groups, dtype, eps in (
        ((12, 48, 5, 7), 3, torch.float32, 1e-5),
        ((1, 16, 129, 131), 1, torch.float32, 1e-5),
        ((8, 32, 9, 3), 2, torch.bfloat16, 1e-3),
        ((6, 128), 3, torch.float16, 0.1),
    ):
        x = torch.randn(shape, generator=generator) * torch.linspace(0.1, 4, shape[0]).view(-1, *[1] * (len(shape) - 1))
        x[:, 0], x[:, 1] = 0.3, x[:, 1] + 1000
        x = x.to(dtype)
        x = x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
        inputs.append((x, *torch.randn(2, shape[1], generator=generator), eps, groups))
    results = interpreted("test_encoders_grouped_pass:normalise", inputs)
    for (result, buffer), (x, weight, bias, eps, groups) in zip(results, inputs, strict=True):
        expected, channels = [], x.shape[1]
        for rows, own in zip(x.double().chunk(groups), buffer, strict=True):
            expected.append(F.batch_norm(rows, None, None, weight.double(), bias.double(), True, eps=eps))
            flat = rows.transpose(0, 1).flatten(1)
            exact = torch.cat([flat.mean(dim=1), flat.var(dim=1)])
            torch.testing.assert_close(own[channels:-channels].double(), exact, rtol=1e-5, atol=1e-6)
            assert (torch.cat([own[:channels], own[-channels:]]) == -5).all(), "of other layers"
        assert (result.dtype, result.stride()) == (x.dtype, x.stride())
        rounding = torch.finfo(x.dtype).eps
        torch.testing.assert_close(result.double(), torch.cat(expected), rtol=rounding, atol=1e-4)


LAST = {"memory_format": torch.channels_last}
TAKEN = {
    "images": (True, GroupedBatchNorm2d(16, 2), lambda x: x.contiguous(**LAST)),
    "in bfloat16": (True, GroupedBatchNorm2d(16, 2), lambda x: x.contiguous(**LAST).bfloat16()),
    "rows": (True, GroupedBatchNorm1d(16, 2), lambda x: x[:, :, 0, 0].contiguous()),
    "no statistics": (True, GroupedBatchNorm2d(16, 2, track_running_stats=False), lambda x: x.contiguous(**LAST)),
    "channels first": (False, GroupedBatchNorm2d(16, 2), lambda x: x),
    "channels by row": (False, GroupedBatchNorm1d(16, 2), lambda x: x[:, :, 0, 0].T.contiguous().T),
    "a length": (False, GroupedBatchNorm1d(16, 2), lambda x: x[:, :, 0]),
    "few channels": (False, GroupedBatchNorm2d(8, 2), lambda x: x[:, :8].contiguous(**LAST)),
    "no weight": (False, GroupedBatchNorm2d(16, 2, affine=False), lambda x: x.contiguous(**LAST)),
    "in float64": (False, GroupedBatchNorm2d(16, 2).double(), lambda x: x.contiguous(**LAST).double()),
}


@pytest.mark.parametrize("case", TAKEN)
def test_kernels_get_what_they_are_made_for_and_pytorch_all_else(case, generator):
    expected, norm, convert = TAKEN[case]
    x = convert(torch.randn(4, 16, 3, 2, generator=generator))
    parts = [F.batch_norm(rows, None, None, norm.weight, norm.bias, True) for rows in x.chunk(2)]
    with (
        torch.no_grad(),
        PretendedGPU() as gpu,
        mock.patch.object(grouped_pass, "trusted", return_value=True),
        mock.patch.object(grouped_pass, "by_kernels", side_effect=grouped_pass.plain) as by_kernels,
    ):
        actual = norm.to(gpu.device)(x.to(gpu.device)).cpu()
    assert by_kernels.called == expected
    torch.testing.assert_close(actual, torch.cat(parts), rtol=0, atol=1e-4)


def test_with_gradient_pytorch_s_own_batch_norm_is_used(generator):
    x = torch.randn(4, 16, 3, 2, generator=generator).contiguous(**LAST)
    with PretendedGPU() as gpu, mock.patch.object(grouped_pass, "trusted", side_effect=AssertionError):
        GroupedBatchNorm2d(16, 2).to(gpu.device)(x.to(gpu.device)).sum().backward()

"""View generators: determinants by autograd, and the independence of pixels."""

import pytest
import torch

from annulus.errors import InputError
from annulus.views.flows import random_flow

pytestmark = pytest.mark.usefixtures("untouched_global_randomness", "in_float64")
each_flow = pytest.mark.parametrize(("channels", "preserving"), [(3, True), (3, False), (2, False)])


def build_flow(channels, preserving, seed=0):
    """A flow with weights large enough that every coupling changes much."""
    flow = random_flow(channels, 4, 8, preserving, seed).double()
    for weight in flow.parameters():
        weight.data *= 3
    return flow


@each_flow
def test_it_can_be_inverted_and_keeps_the_volume_where_it_should(channels, preserving, generator):
    images, flow = torch.rand(3, channels, 2, 2, generator=generator), build_flow(channels, preserving)
    assert (flow(images) - images).abs().mean() > 0.1
    for image in images:
        jacobian = torch.autograd.functional.jacobian(lambda pixels: flow(pixels[None]), image)
        log_determinant = torch.linalg.slogdet(jacobian.view(4 * channels, -1)).logabsdet
        assert log_determinant.isfinite()
        assert (log_determinant.abs() < 1e-6) == preserving


@each_flow
def test_a_pixel_is_changed_by_itself_alone_and_alike_everywhere(channels, preserving, generator):
    images, other = (torch.rand(1, channels, 4, 4, generator=generator) for _ in range(2))
    other[..., 1, 2] = images[..., 1, 2]
    images[..., 3, 0] = images[..., 1, 2]
    flow = build_flow(channels, preserving)
    first, second = flow(images), flow(other)
    assert torch.equal(first[..., 1, 2], second[..., 1, 2])
    torch.testing.assert_close(first[..., 1, 2], first[..., 3, 0])


def test_every_channel_is_changed_and_the_seed_decides_how(generator):
    images = torch.rand(2, 3, 4, 4, generator=generator)
    first, again, other = (build_flow(3, False, seed)(images) for seed in (0, 0, 1))
    assert torch.equal(first, again)
    for channel in range(3):
        assert not torch.equal(first[:, channel], images[:, channel])
        assert not torch.equal(first[:, channel], other[:, channel])
    with pytest.raises(InputError, match="a flow of 1 channel changes nothing; take 2 or more"):
        random_flow(1, 4, 8, True, 0)

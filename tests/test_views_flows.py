"""View generators: inverses, determinants against autograd, and that a pixel sees no other."""

import pytest
import torch

from annulus.errors import InputError
from annulus.views.flows import random_flow

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
each_flow = pytest.mark.parametrize(("channels", "preserving"), [(3, True), (3, False), (2, False)])


def flow_of(channels, preserving, seed=0):
    """With weights large enough that every coupling changes much."""
    flow = random_flow(channels, 4, 8, preserving, seed).double()
    with torch.no_grad():
        for weight in flow.parameters():
            weight *= 3
    return flow


@each_flow
def test_the_inverse_undoes_the_flow(channels, preserving, generator):
    images = torch.rand(4, channels, 5, 6, generator=generator, dtype=torch.float64)
    flow = flow_of(channels, preserving)
    changed = flow(images).images
    assert (changed - images).abs().mean() > 0.1
    torch.testing.assert_close(flow.inverse(changed), images, atol=1e-9, rtol=0)
    fresh, single = random_flow(channels, 4, 8, preserving, 0), images.float()
    torch.testing.assert_close(fresh.inverse(fresh(single).images), single, atol=1e-5, rtol=0)


@each_flow
def test_the_log_determinant_is_that_of_autograd_s_jacobian(channels, preserving, generator):
    images = torch.rand(3, channels, 2, 2, generator=generator, dtype=torch.float64)
    flow = flow_of(channels, preserving)
    found = flow(images).log_determinant
    for image, log in zip(images, found, strict=True):

        def flat(pixels):
            return flow(pixels.view(1, channels, 2, 2)).images.flatten()

        jacobian = torch.autograd.functional.jacobian(flat, image.flatten())
        torch.testing.assert_close(log, torch.linalg.slogdet(jacobian).logabsdet)
    assert (found.abs() > 0.01).all() != preserving
    assert not preserving or (found == 0).all()


@each_flow
def test_a_pixel_is_changed_by_itself_alone_and_alike_everywhere(channels, preserving, generator):
    images = torch.rand(1, channels, 4, 4, generator=generator, dtype=torch.float64)
    other = torch.rand(1, channels, 4, 4, generator=generator, dtype=torch.float64)
    other[..., 1, 2] = images[..., 1, 2]
    images[..., 3, 0] = images[..., 1, 2]
    flow = flow_of(channels, preserving)
    first, second = flow(images).images, flow(other).images
    assert torch.equal(first[..., 1, 2], second[..., 1, 2])
    torch.testing.assert_close(first[..., 1, 2], first[..., 3, 0])


def test_every_channel_is_changed_and_the_seed_decides_how(generator):
    images = torch.rand(2, 3, 4, 4, generator=generator, dtype=torch.float64)
    first, again, other = (flow_of(3, False, seed)(images).images for seed in (0, 0, 1))
    assert torch.equal(first, again)
    for channel in range(3):
        assert not torch.equal(first[:, channel], images[:, channel])
        assert not torch.equal(first[:, channel], other[:, channel])
    with pytest.raises(InputError, match="a flow of 1 channel changes nothing; take 2 or more"):
        random_flow(1, 4, 8, True, 0)

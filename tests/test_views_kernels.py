"""Views by interpreted Triton kernels against the views of a CPU."""

from dataclasses import replace

import pytest
import torch
from interpreted import interpreted, needs_triton
from settings import read

from annulus.views.colour import NEVER
from annulus.views.recipe import by_chunks, draw_recipe

pytestmark = [needs_triton, pytest.mark.slow]

STANDARD = replace(read({"views": "strong"}).views, blur=None)
PLAIN = replace(STANDARD, jitter=None, grayscale=0.5)


def test_views_are_those_of_a_cpu(generator):
    """Boxes shrink and grow, and some images are not square; each image has its own order of operators."""
    calls, expected = [], []
    for count, height, width, size, views in ((6, 8, 8, 8, STANDARD), (2, 20, 15, 7, PLAIN), (2, 5, 7, 17, STANDARD)):
        images = torch.randint(0, 256, (count, 3, height, width), generator=generator, dtype=torch.uint8)
        recipe = draw_recipe(views, torch.tensor([[height, width]]).expand(count, 2), generator)
        if recipe.jitter is not None:
            always = replace(views.jitter, probability=1.0)
            jitter = always.draw(count, generator)
            recipe = recipe._replace(jitter=jitter._replace(hue_after=torch.arange(count) % (NEVER + 1)))
        calls.append((images, *recipe[:4], size))
        expected.append(by_chunks(images, recipe, size))
    results = interpreted("annulus.views.kernels:view", calls)
    for ours, theirs in zip(results, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)

"""View operators at all sizes and on all devices, each operator by itself, and operators in params.yaml."""

from dataclasses import dataclass, replace
from typing import NamedTuple

import pytest
import torch
from interpreted import needs_triton
from pretended_gpu import PretendedGPU, pretended_kernels
from settings import load, refusal
from torchvision.transforms.v2 import functional as oracle

from annulus.settings import Fraction
from annulus.views import SETS, Blur, ColourJitter, Operator, Solarize, ViewSet, augment
from annulus.views.batch_share import BatchShare
from annulus.views.operators import OPERATORS, changed
from annulus_lab.config.file import checked
from annulus_lab.config.resolved import resolved, values


class DrawnTint(NamedTuple):
    chosen: torch.Tensor
    colour: torch.Tensor


@dataclass(frozen=True, kw_only=True)
class Tint(Operator):
    """A user's operator: mixes some images with a colour."""

    probability: Fraction
    share: Fraction

    def draw(self, count, generator):
        chosen = torch.rand(count, generator=generator) < self.probability
        return DrawnTint(chosen, torch.rand(count, 3, generator=generator))

    def apply(self, view, drawn):
        def tint(images, colour):
            return (1 - self.share) * images + self.share * colour[:, :, None, None]

        return changed(view, drawn.chosen, tint, drawn.colour)


TINT = Tint(probability=0.6, share=0.25)
WITHOUT = SETS["strong"]
WITH = replace(WITHOUT, operators={"tint": TINT})


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def batch(size, generator, count=10):
    return torch.randint(0, 256, (count, 3, size + 8, size + 8), generator=generator, dtype=torch.uint8)


def plain_tint(view, generator):
    """Applies TINT plainly, image by image."""
    drawn, expected = TINT.draw(len(view), generator), view.clone()
    for row in drawn.chosen.nonzero().flatten().tolist():
        expected[row] = 0.75 * view[row] + 0.25 * drawn.colour[row][:, None, None]
    assert 0 < drawn.chosen.sum() < len(view)
    return expected


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=["planes", "as JPEG"])
@pytest.mark.parametrize("size", [32, 128, 224])
def test_an_operator_of_one_s_own_works_at_every_size_and_layout(size, layout, generator):
    images = batch(size, generator).contiguous(memory_format=layout)
    random, again = seeded(1), seeded(1)
    expected = plain_tint(augment(images, WITHOUT, size, random), random)
    torch.testing.assert_close(augment(images, WITH, size, again), expected, atol=1e-6, rtol=0)
    assert torch.equal(random.get_state(), again.get_state()), "nothing else is drawn"
    rows = torch.tensor([0, 3, 4, 9])
    some = augment(images[rows], WITH, size, seeded(1), BatchShare(rows, len(images)))
    torch.testing.assert_close(some, expected[rows], atol=1e-6, rtol=0)


@pytest.mark.parametrize("kernels", [False, pytest.param(True, marks=needs_triton)])
@pytest.mark.parametrize("size", [32, 128, 224])
def test_it_works_on_a_gpu_with_and_without_kernels_and_no_operator_waits_for_it(size, kernels, generator):
    images = batch(size, generator)
    every = replace(
        SETS["infomin-torchvision"], operators={"solarize": Solarize(probability=0.5, threshold=0.5), "tint": TINT}
    )
    with PretendedGPU() as gpu:
        there = images.to(gpu.device)
        if kernels:
            with pretended_kernels(gpu):
                with_tint, without = (augment(there, views, size, seeded(1)) for views in (WITH, WITHOUT))
        else:
            with_tint, without = (augment(there, views, size, seeded(1)) for views in (WITH, WITHOUT))
        with gpu.counting() as counts:
            augment(there, every, size, seeded(2))
        assert not counts.waits, counts.table()
        assert with_tint.is_cuda
        random = seeded(1)
        augment(images, WITHOUT, size, random)
        torch.testing.assert_close(with_tint.cpu(), plain_tint(without.cpu(), random), atol=1e-6, rtol=0)


def test_operators_follow_one_another_in_the_mapping_s_order(generator):
    solarize = Solarize(probability=1.0, threshold=0.4)
    images = batch(20, generator)
    for operators in ({"solarize": solarize, "tint": TINT}, {"tint": TINT, "solarize": solarize}):
        random = seeded(1)
        expected = augment(images, SETS["infomin-torchvision"], 20, random)
        for operator in operators.values():
            expected = operator(expected, random)
        assert torch.equal(
            augment(images, replace(SETS["infomin-torchvision"], operators=operators), 20, seeded(1)), expected
        )


# --- each by itself -----------------------------------------------------------------------------------


def test_solarize_is_torchvision_s_on_as_many_images_as_its_probability_says(generator):
    view = torch.rand(4000, 3, 2, 3, generator=generator)
    view[:, 0, 0, 0] = 0.5
    for threshold in (0.0, 0.5, 1.0):
        solarize = Solarize(probability=0.2, threshold=threshold)
        drawn = solarize.draw(len(view), seeded(1))
        assert abs(drawn.double().mean() - 0.2) < 4 * (0.2 * 0.8 / len(view)) ** 0.5
        result = solarize(view, seeded(1))
        assert torch.equal(result[drawn], oracle.solarize(view[drawn], threshold))
        assert torch.equal(result[~drawn], view[~drawn])


@pytest.mark.parametrize("name", ["jitter", "blur", "rand_augment"])
def test_an_operator_by_itself_does_what_it_does_in_a_view(name, generator):
    operator = getattr(SETS["infomin-torchvision"], name)
    images = torch.randint(0, 256, (30, 3, 24, 24), generator=generator, dtype=torch.uint8)
    view, random = images / 255, seeded(1)
    before = view.clone()
    torch.rand(30, generator=random)  # of the flip, which is drawn first
    if name != "jitter":
        torch.rand(30, generator=random)  # of greyscale
    result = operator(view, random)
    torch.testing.assert_close(result, augment(images, ViewSet(**{name: operator}), 24, seeded(1)), atol=2e-5, rtol=0)
    assert not torch.equal(result, before)
    assert torch.equal(view, before)
    with PretendedGPU() as gpu, gpu.counting() as counts:
        random = seeded(1)
        torch.rand(30 if name == "jitter" else 60, generator=random)
        there = operator.apply(view.pin_memory().to(gpu.device, non_blocking=True), operator.draw(30, random))
        assert not counts.waits, counts.table()
        torch.testing.assert_close(there.cpu(), result, atol=1e-6, rtol=0)


def test_an_operator_keeps_its_numbers_under_autocast(generator):
    for operator in (
        Solarize(probability=1.0, threshold=0.3),
        Blur(probability=1.0, sigma_min=0.5, sigma_max=1.0),
        ColourJitter(probability=1.0, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1),
    ):
        view = torch.rand(4, 3, 9, 12, generator=generator)
        expected = operator(view, seeded(1))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.equal(operator(view, seeded(1)), expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("name", ["jitter", "blur", "rand_augment"])
def test_an_operator_computes_in_float32_whatever_it_is_given(name, dtype, generator):
    operator = getattr(SETS["infomin-torchvision"], name)
    view = torch.rand(16, 3, 24, 24, generator=generator).to(dtype)
    view[:, :, :4] = 0.5  # grey, without a hue
    result = operator(view, seeded(1))
    assert torch.equal(result, operator(view.float(), seeded(1)).to(dtype))
    assert result.isfinite().all()


# --- in params.yaml -----------------------------------------------------------------------------------

BYOL = {"probability": 0.2, "threshold": 0.5}
KNOWN = f"(known: {', '.join(OPERATORS)})"
KEY = "view_sets.gentle.operators"


def test_an_operator_of_params_yaml_is_read_by_its_name_and_a_stage_reads_it_back():
    params = load({KEY: {"solarize": BYOL}, "views": "gentle"})
    views = params.get("view_sets.${views}")
    assert views == replace(load({}).view_sets["gentle"], operators={"solarize": Solarize(**BYOL)})
    names = ["view_sets.${views}"]
    assert values(resolved(params, names), names) == {names[0]: views}


def test_a_line_of_one_s_own_is_read_and_the_file_s_order_changes_nothing(monkeypatch):
    """DVC does not see the order of keys."""
    monkeypatch.setitem(OPERATORS, "tint", Tint)
    tree = resolved(load({"views": "gentle"}), ["view_sets.${views}"])["view_sets"]["gentle"]
    operators = {"tint": {"probability": 0.6, "share": 0.25}, "solarize": BYOL}
    views = checked(tree | {"operators": operators}, "params.yaml", ViewSet)
    assert list(views.operators.items()) == [("solarize", Solarize(**BYOL)), ("tint", TINT)]


@pytest.mark.parametrize(
    ("operators", "sentence"),
    [
        ({"solarise": BYOL}, f".solarise: unknown key; did you mean 'solarize'? {KNOWN}"),
        ({"xyz": BYOL}, f".xyz: unknown key {KNOWN}"),
        ({"solarize": BYOL | {"probability": 1.5}}, ".solarize.probability: 1.5 refused; input should be less than or"),
        ({"solarize": BYOL | {"treshold": 0.5}}, ".solarize.treshold: unknown key; did you mean 'threshold'? (known: "),
        ({"solarize": {"probability": 0.2}}, ".solarize.threshold: missing; it has no default: write a value"),
        ({"solarize": 0.2}, ".solarize: 0.2 refused; expected keys and values, or {} for none"),
        (None, ": None refused; expected keys and values, or {} for none"),
    ],
)
def test_an_operator_that_is_wrong_is_named_by_its_key(operators, sentence):
    assert refusal({KEY: operators}).startswith(KEY + sentence)

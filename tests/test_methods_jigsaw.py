"""PIRL and MoCo with a jigsaw: its patches, and the loss against plain loops over both branches."""

from functools import partial

import method_cases as cases
import pytest
import torch
import torch.nn.functional as F
from plain_objectives import assert_same, plain_of, plain_scores

from annulus.encoders.encoder import Encoder, EncoderConfig, build_encoder
from annulus.errors import InputError
from annulus.methods.jigsaw_branch import JigsawHead
from annulus.methods.moco import MoCoSettings
from annulus.methods.moco_jigsaw import MoCoJigsawSettings
from annulus.methods.pirl import PIRL, PIRLSettings
from annulus.views.crop import Crop
from annulus.views.jigsaw import jigsaw, patch_side
from annulus.views.sets import SETS
from annulus.views.settings import ViewSet

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
SIZE, WEIGHT = 21, 0.3
CONFIG = EncoderConfig("convnet", "imagenet", "linear", cases.DIM, SIZE, None, (0.5,) * 3, (0.25,) * 3)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_each_cell_gives_one_patch_from_within_and_their_order_is_any():
    side = patch_side(SIZE)
    assert (side, patch_side(255)) == (5, 64)
    places = torch.stack(torch.meshgrid(*[torch.arange(SIZE).double()] * 2, indexing="ij"))  # a pixel's y and x
    patches = jigsaw(places.expand(500, 2, SIZE, SIZE), seeded(), 500, slice(500))
    corners = patches[:, :, :, 0, 0].long()
    assert torch.equal(patches, corners[..., None, None] + places[:, :side, :side]), "a patch is a piece of the image"
    cells, within = corners // 7, corners % 7
    numbers = 3 * cells[:, :, 0] + cells[:, :, 1]
    assert torch.equal(numbers.sort(dim=1).values, torch.arange(9).expand(500, 9))
    assert within.unique().tolist() == [0, 1, 2], "a patch leaves a gap to the next cell's"
    counts = torch.stack([(numbers == cell).sum(dim=0) for cell in range(9)])  # of each cell at each place
    assert 30 < counts.min() <= counts.max() < 84  # 55.6 expected, with a standard deviation of 7.0


def test_rows_of_a_batch_have_the_whole_batch_s_patches_and_small_images_are_refused():
    images = torch.rand(6, 3, SIZE, SIZE, generator=seeded())
    whole = jigsaw(images, seeded(1), 6, slice(6))
    assert torch.equal(jigsaw(images[2:4], seeded(1), 6, slice(2, 4)), whole[2:4])
    assert not torch.equal(jigsaw(images, seeded(2), 6, slice(6)), whole)
    with pytest.raises(InputError, match=r"^an image of 5 px is too small for 9 patches; take views of 6 px or more$"):
        patch_side(5)


class Exact(Encoder):
    """Encoder with embeddings in the network's own dtype."""

    def embed(self, pooled):
        return F.normalize(self.head(pooled), dim=1)


class ExactHead(JigsawHead):
    """Jigsaw head with embeddings in its own dtype."""

    def forward(self, pooled):
        return F.normalize(self.all(self.each(pooled).flatten(1)), dim=1)


SETTINGS = {
    "pirl": partial(PIRLSettings, **cases.section(bank_rate=0.25, bank_start="random", critic="dot")),
    "moco-jigsaw": partial(MoCoJigsawSettings, **cases.section(momentum=0.9, shuffle_groups=1)),
}
VIEWS = [torch.rand(cases.BATCH, 3, SIZE, SIZE, generator=seeded(seed), dtype=torch.float64) for seed in (3, 4, 5)]


def build_method(kind, weight=WEIGHT, sampler="ring", bound="infonce", crop=None):
    encoder = build_encoder(CONFIG, 0)
    encoder.__class__ = Exact
    settings = SETTINGS[kind](jigsaw_weight=weight, jigsaw_crop=crop)
    method = cases.method_of(settings, cases.config_of(sampler, bound=bound), encoder)
    method.jigsaw.heads[0].__class__ = ExactHead
    if kind == "moco-jigsaw":
        method.keys.encoder.__class__ = Exact
    return method


def compute_loss(method):
    return method.loss(VIEWS, cases.INDEX, cases.PROGRESS).estimate.loss.item()


def contrast_arguments(method, queries):
    """Arguments of a contrast: scores of queries against the memory, own columns, and for MoCo positives and images."""
    if isinstance(method, PIRL):
        return {"scores": plain_scores(queries, method.banks[0].rows, cases.TEMPERATURE), "self_index": cases.INDEX}
    [queue] = method.queues
    keys = method.keys.encoder.eval()(VIEWS[1]).detach()
    own = [[*(queue.images == image).nonzero().flatten().tolist(), -1, -1][:2] for image in cases.INDEX]
    return {
        "scores": plain_scores(queries, queue.keys, cases.TEMPERATURE),
        "self_index": torch.tensor(own),
        "positive": (queries * keys).sum(dim=1) / cases.TEMPERATURE,
        "columns": queue.images,
    }


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize(("sampler", "bound"), [("ring", "infonce"), ("uniform", "mlcpc")])
def test_the_loss_and_its_gradient_are_those_of_plain_loops_over_both_branches(kind, sampler, bound):
    method = build_method(kind, sampler=sampler, bound=bound)
    view = VIEWS[method.views - 1]  # another view than the query and the key
    patches = jigsaw(view, torch.Generator().set_state(method.jigsaw.generator.get_state()), cases.BATCH, slice(None))
    [head], encoder, jigsaws = method.jigsaw.heads, method.encoder.eval(), []
    for image_patches in patches:
        parts = [encoder.pooled(patch[None]) @ head.each.weight.T + head.each.bias for patch in image_patches]
        jigsaws.append(F.normalize(torch.cat(parts, dim=1) @ head.all.weight.T + head.all.bias, dim=1))
    contrast, values = method.contrasts[0], []
    for queries in (encoder(VIEWS[0]), torch.cat(jigsaws)):
        known = contrast_arguments(method, queries)
        values.append(plain_of(contrast, cases.PROGRESS, known.pop("scores"), cases.INDEX, **known))
    losses, bounds, ceilings, _ = zip(*values, strict=True)
    expected = (1 - WEIGHT) * losses[0] + WEIGHT * losses[1], sum(bounds) / 2, sum(ceilings) / 2
    step = method.loss(VIEWS, cases.INDEX, cases.PROGRESS)
    assert_same(step.estimate, expected, head.each.weight, head.all.weight, next(encoder.parameters()))
    stored = encoder(VIEWS[0]) if kind == "pirl" else method.keys.encoder(VIEWS[1])
    assert torch.equal(step.stored[0], stored), "the memory keeps views, not jigsaws"


@pytest.mark.parametrize("kind", SETTINGS)
def test_without_weight_it_has_no_jigsaw_and_the_jigsaw_goes_on_where_a_state_was_saved(kind):
    plain, first, second = build_method(kind, weight=0.0), build_method(kind), build_method(kind)
    assert compute_loss(plain) == pytest.approx(compute_loss(plain), rel=1e-12), "whatever the jigsaw shows"
    compute_loss(first)
    second.load_state_dict(first.state_dict())
    assert compute_loss(first.eval()) == pytest.approx(compute_loss(second.eval()), rel=1e-12)


@pytest.mark.parametrize("kind", SETTINGS)
def test_the_view_of_the_jigsaw_has_its_own_crop_and_no_colour_or_is_like_the_others(kind):
    views = SETS["infomin"]
    crop = Crop(scale_min=0.6, scale_max=1.0, ratio_min=0.75, ratio_max=1.3333)
    *others, last = build_method(kind, crop=crop).view_sets(views)
    assert last == ViewSet(crop=crop, flip=0.5)
    assert others == [views] * (build_method(kind).views - 1)
    assert build_method(kind).view_sets(views) == [*others, views]


def test_a_moco_without_weight_is_moco():
    settings = MoCoSettings(**cases.section(momentum=0.9, shuffle_groups=1))
    encoder = build_encoder(CONFIG, 0)
    encoder.__class__ = Exact
    moco = cases.method_of(settings, cases.config_of("ring"), encoder)
    moco.keys.encoder.__class__ = Exact
    assert compute_loss(moco) == pytest.approx(compute_loss(build_method("moco-jigsaw", weight=0.0)), rel=1e-12)

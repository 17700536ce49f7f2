"""Training of view generators: a step against its equations, visible labels, seeds, continuation after a kill."""

import copy
import itertools
from argparse import Namespace
from dataclasses import replace

import pytest
import torch
from by_path import ROOT, script
from checkout import rows_of
from settings import CPU, SMALL, load, stripes
from stated import stated_params

from annulus.device.rng import derive
from annulus.encoders.encoder import build_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet, save_images
from annulus.files.store import Resident
from annulus.running.checkpoint import Checkpoint
from annulus.views.learned import GeneratorConfig, ViewGenerator, save_generator
from annulus_lab.config.resolved import resolved, values
from annulus_lab.studies.shared.measured import Outcome
from annulus_lab.studies.shared.outcomes import ACCURACIES
from annulus_lab.studies.shared.study import Study
from annulus_lab.studies.view_learning import trained as module
from annulus_lab.studies.view_learning import view_grid
from annulus_lab.studies.view_learning.batches import GeneratorBatch, GeneratorBatches, labelled_images
from annulus_lab.studies.view_learning.curves import over_steps
from annulus_lab.studies.view_learning.learning import ViewLearning
from annulus_lab.studies.view_learning.trained import encoder_config, train_generator
from annulus_lab.studies.view_learning.view_learning_params import OPPONENT_KEYS, GeneratorParams, OpponentSettings

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

PARAMS = GeneratorParams(
    **{"space": "rgb", "changes": "all", "volume_preserving": False, "couplings": 3, "hidden": 4, "gain": 1.0},
    **{"learns": "semi-supervised", "steps": 10, "batch_size": 8, "temperature": 0.3, "embedding_dim": 6},
    **{"generator_rate": 0.01, "estimator_rate": 0.003, "labelled_share": 0.5},
)
SEEN = OpponentSettings(
    *values(resolved(load(SMALL | {"backbone": "convnet", "views": "gentle"}), OPPONENT_KEYS), OPPONENT_KEYS).values()
)
IMAGES = stripes(40, 0)


def train(images=IMAGES, seed=0, checkpoint=None, **changes):
    return train_generator(replace(PARAMS, **changes), SEEN, images, seed, CPU, checkpoint)


@pytest.fixture(scope="module")
def whole():
    return train()


def weights(network):
    return torch.cat([weight.detach().flatten() for weight in network.parameters()])


def same(first, second):
    return torch.equal(weights(first.generator), weights(second.generator))


def plain_shared(estimators, views):
    """I_NCE of a batch, pair by pair."""
    first, second = (network(view) for network, view in zip(estimators.parts, views, strict=True))
    total = 0
    for queries, keys in ((first, second), (second, first)):
        for i, query in enumerate(queries):
            weight = [(query @ key / 0.3).exp() for key in keys]
            total = total + (8 * weight[i] / sum(weight)).log() / 16
    return total


def plain_classified(classifiers, views, labels):
    total = 0
    for network, view in zip(classifiers.parts, views, strict=True):
        for logits, label in zip(network.head(network.pooled(view)), labels, strict=True):
            total = total - (logits[label].exp() / logits.exp().sum()).log() / 8
    return total


def after_adam(network, loss, rate):
    """Weights after Adam's first step, which moves each weight by the rate against the sign of its gradient."""
    before = list(network.parameters())
    gradients = torch.autograd.grad(loss, before, retain_graph=True, allow_unused=True)
    moves = [torch.zeros_like(weight) if grad is None else grad for weight, grad in zip(before, gradients, strict=True)]
    return weights(network) - rate * torch.cat([(grad / (grad.abs() + 1e-8)).flatten() for grad in moves])


def assert_alike(network, expected):
    """A few weights may differ: rounding decides the sign of a very small gradient."""
    apart = (weights(network) - expected).abs()
    assert apart.median() < 1e-7
    assert (apart > 1e-5).double().mean() < 0.001


@pytest.mark.parametrize("learns", ["unsupervised", "supervised", "semi-supervised"])
def test_a_step_is_the_two_of_the_game(learns, generator):
    config = encoder_config(PARAMS, SEEN, IMAGES)
    networks = (build_encoder(replace(config, embedding_dim=width), derive(0, width)) for width in (6, 2))
    views = ViewGenerator(GeneratorConfig("rgb", "all", 3, 4, False), 0)
    learning = ViewLearning(replace(PARAMS, learns=learns), views, *networks)
    images = torch.rand(2, 8, 3, 16, 16, generator=generator)
    batch, old = GeneratorBatch(images[0], images[1], torch.arange(8) % 2), copy.deepcopy(learning)
    reduces, labelled = learns != "supervised", learns != "unsupervised"
    losses = learning.step(batch)

    climbed, loss = weights(old.estimators), 0
    if reduces:
        climbed = after_adam(old.estimators, -plain_shared(old.estimators, old.generator(batch.images)), 0.003)
        torch.nn.utils.vector_to_parameters(climbed, old.estimators.parameters())
        loss = shared = plain_shared(old.estimators, old.generator(batch.images))
        torch.testing.assert_close(losses.shared, shared.detach())
    if labelled:
        classified = plain_classified(old.classifiers, old.generator(batch.labelled), batch.labels)
        torch.testing.assert_close(losses.classified, classified.detach())
        loss = loss + classified
    assert_alike(learning.estimators, climbed)
    assert_alike(learning.generator, after_adam(old.generator, loss, 0.01))
    expected = after_adam(old.classifiers, loss, 0.003) if labelled else weights(old.classifiers)
    assert_alike(learning.classifiers, expected)
    assert (losses.shared is None, losses.classified is None) == (not reduces, not labelled)


def test_a_curve_has_ten_points_each_the_mean_of_its_steps_and_no_number_of_what_is_not_played(monkeypatch):
    step, losses = ViewLearning.step, []

    def record(learning, batch):
        losses.append(step(learning, batch))
        return losses[-1]

    monkeypatch.setattr(ViewLearning, "step", record)
    curve = train(learns="unsupervised", steps=20).curve
    assert [point["step"] for point in curve] == list(range(2, 21, 2))
    shared = [one.shared.item() for one in losses]
    means = [(first + second) / 2 for first, second in zip(shared[::2], shared[1::2], strict=True)]
    assert [point["shared_nats"] for point in curve] == pytest.approx(means)
    assert curve[0]["classified_nats"] == ""


def test_curves_are_means_over_seeds_with_intervals_and_empty_where_nothing_is_played():
    curves = {str(seed): [{"step": 5, "shared_nats": 1.0 + 2 * seed, "classified_nats": ""}] for seed in (0, 1)}
    both, alone = over_steps({"both": curves, "alone": {"0": curves["0"]}})
    none = {"classified_nats": "", "classified_interval_nats": ""}
    interval = {"shared_nats": 2.0, "shared_interval_nats": pytest.approx(12.7062, abs=1e-4)}
    assert both == {"series": "both", "step": 5, "seeds": 2} | interval | none
    assert alone == {"series": "alone", "step": 5, "seeds": 1, "shared_nats": 1.0, "shared_interval_nats": ""} | none


def test_a_picture_has_the_first_view_in_grey_and_the_second_s_channels_as_red_and_blue_from_black_to_white():
    """The lowest and highest hundredth of the values are clipped."""
    row = torch.arange(101.0).view(1, 1, 1, 101)
    first, second = view_grid._tiles((row, torch.cat([row, 7 - 2 * row], dim=1)))
    rising = ((torch.arange(101.0) - 1) / 98 * 255).clamp(0, 255)
    both = (rising, (rising + rising.flip(0)) / 2, rising.flip(0))
    for picture, channels in ((first, [rising] * 3), (second, both)):
        torch.testing.assert_close(picture[0, :, 0].float(), torch.stack([*channels]), atol=1, rtol=0)
    _, same = view_grid._tiles((row, torch.cat([row, row], dim=1)))
    assert (same[:, 0] == same[:, 1]).all()


def test_only_the_labels_of_the_labelled_images_reach_a_generator(whole):
    known = labelled_images(IMAGES, 0.5, seed=0).rows
    assert len(known) == 20

    def with_others(rows):
        labels = IMAGES.labels.clone()
        labels[rows] = 1 - labels[rows]
        return ImageSet(IMAGES.images, labels, IMAGES.rows, IMAGES.classes)

    unknown = torch.tensor([row for row in range(40) if row not in known])
    assert same(whole, train(with_others(unknown)))
    assert not same(whole, train(with_others(known)))
    assert same(train(learns="unsupervised"), train(with_others(torch.arange(40)), learns="unsupervised"))


def test_a_batch_of_labelled_images_has_each_images_own_label():
    """Each image holds its own number, and its view changes nothing."""
    rows = torch.arange(40)
    pixels = rows.to(torch.uint8)[:, None, None, None].expand(40, 3, 16, 16).contiguous()
    labels = torch.randint(0, 2, (40,), generator=torch.Generator().manual_seed(0))
    images = ImageSet(Resident(pixels), labels, rows, IMAGES.classes)
    plain = OpponentSettings(
        *values(resolved(load(SMALL | {"backbone": "convnet", "views": "none"}), OPPONENT_KEYS), OPPONENT_KEYS).values()
    )
    batches = GeneratorBatches(PARAMS, plain, images, 0, CPU)
    for _ in range(3):
        batch = batches.draw()
        numbers = (255 * batch.labelled[:, 0, 0, 0]).round().long()
        assert len(set(numbers.tolist())) > 3
        assert set(numbers.tolist()) <= set(labelled_images(images, 0.5, 0).rows.tolist())
        assert torch.equal(batch.labels, labels[numbers])


def test_images_of_a_term_that_is_not_played_are_not_drawn():
    """Each draw changes every later draw."""
    for learns, drawn in (("unsupervised", [True, False, False]), ("supervised", [False, True, True])):
        batch = GeneratorBatches(replace(PARAMS, learns=learns), SEEN, IMAGES, 0, CPU).draw()
        assert [part is not None for part in batch] == drawn


def test_a_generator_s_images_are_not_made_grey():
    """Its channels differ by colour only; the encoders of its views see no grey image either."""
    grey = replace(SEEN, views=replace(SEEN.views, grayscale=1.0))
    batch = GeneratorBatches(PARAMS, grey, IMAGES, 0, CPU).draw()
    for images in (batch.images, batch.labelled):
        assert (images.amax(dim=1) - images.amin(dim=1)).amax(dim=(1, 2)).min() > 0.02


def test_the_seed_decides_everything(whole):
    assert same(whole, train())
    assert not same(whole, train(seed=1))
    random, doubled = (train(learns="nothing", gain=gain) for gain in (1.0, 2.0))
    assert not same(whole, random), "it learns"
    assert torch.equal(weights(doubled.generator), 2 * weights(random.generator))


def test_estimators_and_classifiers_start_apart_and_so_do_two_seeds_and_what_they_see(monkeypatch):
    first, both, widths = [], [], []

    def record(config, seed):
        network = build_encoder(config, seed)
        first.append(next(network.parts[0].backbone.parameters()).detach().clone())
        widths.append((config.embedding_dim, config.head))
        return network

    monkeypatch.setattr(module, "build_encoder", record)
    monkeypatch.setattr(module, "GeneratorBatches", lambda *of: both.append(GeneratorBatches(*of)) or both[-1])
    for seed in (0, 1):
        train(learns="supervised", seed=seed)
    assert len(first) == 4
    assert widths == [(6, "linear"), (2, "linear")] * 2, "a classifier has an output for each class"
    assert not any(one.equal(other) for one, other in itertools.combinations(first, 2))
    assert not torch.equal(*(batches.labelled.rows for batches in both))
    assert not torch.equal(*(batches.draws.get_state() for batches in both))


def test_a_killed_generator_goes_on_with_the_same_bits(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    point, points = module._point, []

    def interrupt(step, losses):
        points.append(step)
        if points == [1, 2, 3, 4, 5, 6]:
            raise KeyboardInterrupt
        return point(step, losses)

    monkeypatch.setattr(module, "_point", interrupt)
    with pytest.raises(KeyboardInterrupt), Checkpoint("generator", {}) as checkpoint:
        train(checkpoint=checkpoint)
    with Checkpoint("generator", {}) as checkpoint:
        resumed = train(checkpoint=checkpoint)
    assert points[6:] == [6, 7, 8, 9, 10]
    assert same(resumed, whole)
    assert resumed.curve == whole.curve


def test_what_no_generator_can_learn_from_is_refused_with_the_way_out(generator):
    sentence = (
        r"labelled_share: 0\.02 gives a label to 1 of 40 training images and to none of 1 of the 2 classes "
        r"\('(across|along)', say\); raise it"
    )
    with pytest.raises(InputError, match=sentence):
        train(labelled_share=0.02)
    grey = torch.randint(0, 256, (40, 1, 16, 16), generator=generator, dtype=torch.uint8).expand(40, 3, 16, 16)
    images = ImageSet(Resident(grey.contiguous()), IMAGES.labels, IMAGES.rows, IMAGES.classes)
    with pytest.raises(InputError, match="split: rgb contrasts R with GB, but the images of this data set have no"):
        train(images, learns="nothing")
    with pytest.raises(InputError, match=r"of a view generator is not finite by step .*; lower its generator_rate"):
        train(generator_rate=1000.0, learns="unsupervised", couplings=30)


def test_without_a_generator_that_learns_and_without_pairs_their_tables_are_empty_and_the_stages_end(
    tmp_path, monkeypatch
):
    save_images(tmp_path / "test.safetensors", IMAGES)
    save_generator(tmp_path / "random/0.safetensors", train(learns="nothing").generator)
    (tmp_path / "random/curves.json").write_text('{"0": []}')
    paths = Namespace(
        images=tmp_path, generators=tmp_path, views=tmp_path / "views.png", curves=tmp_path / "curves.csv"
    )
    settings = {"seeds": [0], "shown": 2, "spaces": ["rgb"], "generators": ["random"]}
    script("stages/view_learning/pictures.py").main(settings, paths)
    assert rows_of(paths.curves) == []

    stage, right = script("stages/view_learning/views.py"), [True, False]
    run = Outcome({}, [{"gradient_norm": 1.0, "gradient_norm_std": 0.5}], dict.fromkeys(ACCURACIES, right))
    monkeypatch.setattr(stage, "build_trial", lambda *_: None)
    monkeypatch.setattr(stage, "load_splits", lambda _: None)
    monkeypatch.setattr(stage, "Trials", lambda _: Namespace(run=lambda variants: dict.fromkeys(variants, run)))
    point = dict.fromkeys(stage.COLUMNS, "") | {"series": "raw-rgb", "space": "rgb", "generator": None, "run": {}}
    settings = {"seeds": [0, 1], "held_out_pairs": 4, "pairs": {}, "points": [point], "scale": "tiny"}
    paths = Namespace(
        images=tmp_path, generators=tmp_path, points=tmp_path / "points.csv", pairs=tmp_path / "pairs.csv"
    )
    stage.main(settings, paths)
    assert [row["series"] for row in rows_of(paths.points)] == ["raw-rgb"]
    assert rows_of(paths.pairs) == []


def test_generators_on_cifar10_are_those_of_the_study_with_more_steps_on_other_images(tmp_path):
    root, stage = stated_params(tmp_path / "params.yaml"), script("stages/view_learning/settings.py")
    here, there = (
        stage.main(Study(root, ROOT / f"stages/{study}/params.yaml", "demo"))
        for study in ("cifar10_view_learning", "view_learning")
    )
    assert (here["images"]["dataset"], there["images"]["dataset"]) == ("folder", "shapes")
    generators = [name for name in here if name.startswith("generators/")]
    assert len(generators) == 10
    for name in generators:
        longer = {} if "random" in name else {"steps": 200}
        assert here[name]["generator"] == there[name]["generator"] | longer

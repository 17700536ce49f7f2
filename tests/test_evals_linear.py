import csv
import math
from argparse import Namespace
from dataclasses import replace
from functools import partial

import linear as stage
import pytest
import torch
from settings import Killed

from annulus.device.rng import generator
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.extract import encode, extract
from annulus.encoders.features import Features, save_features
from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.evals import linear
from annulus.evals.linear import feature_batches, fit, probe_features, probe_views, view_batches
from annulus.evals.linear_settings import LinearBudget, LinearSettings
from annulus.evals.probe import Probe, standardised, unchanged
from annulus.files.images import ImageSet, save_images
from annulus.files.right import read_right
from annulus.files.store import Resident
from annulus.optim.schedules import ConstantSchedule
from annulus.running.checkpoint import Checkpoint, clear
from annulus.views.recipe import center_view
from annulus.views.settings import ViewSet
from annulus.views.splits import ColourSplit

CPU = torch.device("cpu")
PLAIN_VIEWS = ViewSet()
FLIPPED_VIEWS = replace(PLAIN_VIEWS, flip=0.5)


def params(**changes):
    settings = {"inputs": "features", "layer": "pooled", "momentum": 0.9, "weight_decay": 0.0}
    return LinearSettings(**settings | {"patience": None, "drops": 0} | changes)


def scale(epochs=3, batch_size=16, learning_rate=0.1):
    return LinearBudget(epochs=epochs, batch_size=batch_size, learning_rate=learning_rate)


def clouds(count, seed, spread=1.0, classes=3, dim=4):
    """Clouds around one centre per class, linearly separable if the spread is small."""
    centres = 2 * torch.randn(classes, dim, generator=torch.Generator().manual_seed(99))
    draws = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, classes, (count,), generator=draws)
    vectors = centres[labels] + spread * torch.randn(count, dim, generator=draws)
    return Features({"pooled": vectors}, labels, tuple("abcdefghij"[:classes]))


def empty(features):
    none = {name: tensor[:0] for name, tensor in features.layers.items()}
    return Features(none, features.labels[:0], features.classes)


def run(train, test, settings=None, setting_scale=None, validation=None, seed=0):
    return probe_features(train, test, settings or params(), setting_scale or scale(), validation, seed)


def test_fitting_agrees_with_sgd_written_out():
    train = clouds(40, seed=0)
    vectors, labels = train.layers["pooled"].double(), train.labels
    settings, momentum, decay, rate = params(momentum=0.8, weight_decay=0.01), 0.8, 0.01, 0.05

    def batches(epoch):
        for rows in torch.randperm(40, generator=generator(3, "linear", epoch)).split(16):
            yield vectors[rows], labels[rows]

    mean, std = torch.tensor([0.5, -1.0, 0.0, 2.0]).double(), torch.tensor([1.0, 0.5, 2.0, 3.0]).double()
    probe = Probe(mean, std, classes=3)
    history = fit(probe, batches, settings, scale(2, 16, rate), ConstantSchedule(), empty(train))

    weight = speed = torch.zeros(3, 5, dtype=torch.double)  # the bias last
    for epoch in range(2):
        loss = 0.0
        for features, answers in batches(epoch):
            rows = torch.cat([(features - mean) / std, torch.ones(len(answers), 1)], dim=1)
            odds = (rows @ weight.T).exp()
            shares = odds / odds.sum(dim=1, keepdim=True)
            loss -= shares.gather(1, answers[:, None]).log().sum().item() / 40
            gradient = (shares - torch.eye(3)[answers]).T @ rows / len(answers)
            speed = momentum * speed + gradient + decay * weight
            weight = weight - rate * speed
        assert history[epoch]["loss_nats"] == pytest.approx(loss)
        assert history[epoch]["learning_rate"] == rate
    torch.testing.assert_close(probe.weight.data, weight[:, :4])
    torch.testing.assert_close(probe.bias.data, weight[:, 4])


@pytest.mark.parametrize(("layer", "shape"), [("pooled", (-1, 12)), ("map", (-1, 3, 2, 2))])
def test_separable_classes_are_told_apart_entirely_from_chance_on(layer, shape):
    """Features are pooled vectors, or cached maps that the probe flattens."""
    sets = [clouds(count, seed, spread=0.05, dim=12) for seed, count in enumerate((200, 100))]
    train, test = (replace(some, layers={layer: some.layers["pooled"].reshape(shape).half()}) for some in sets)
    outcome = run(train, test, params(layer=layer), scale(epochs=20, batch_size=200))
    assert outcome.history[0]["loss_nats"] == pytest.approx(math.log(3))
    assert outcome.metrics["top1_percent"] == outcome.metrics["train_top1_percent"] == 100.0
    assert torch.equal(outcome.predicted, test.labels)
    assert outcome.metrics["loss_nats"] == outcome.history[-1]["loss_nats"] < 0.1
    assert (outcome.metrics["epochs"], outcome.metrics["images"]) == (20, 100)


def test_standardised_features_have_mean_zero_and_variance_one(monkeypatch):
    monkeypatch.setattr("annulus.evals.probe.ROWS_AT_ONCE", 7)
    features = clouds(50, seed=0).layers["pooled"] * torch.tensor([1.0, 100.0, 0.01, 0.0]) + 5
    probe = standardised(features, classes=3)
    inputs = (features - probe.mean) / probe.std
    torch.testing.assert_close(inputs.mean(dim=0), torch.zeros(4), atol=1e-4, rtol=0)
    expected = torch.tensor([1.0, 1.0, 1.0, 0.0])  # the last never varies
    torch.testing.assert_close(inputs.std(dim=0, correction=0), expected, atol=1e-4, rtol=0)
    assert ((features + 1 - probe.mean) / probe.std)[:, 3].abs().max() == 0, "nor does it count in other images"


def test_a_feature_that_varies_by_the_rounding_of_float32_alone_counts_for_nothing(generator):
    """Division by its deviation would make it noise of variance 1, and far more in images that differ by more."""
    varies, rounded = torch.randn(50, generator=generator), 1 + 1e-7 * torch.randn(50, generator=generator)
    features = torch.stack([varies, rounded], dim=1)
    assert features[:, 1].std() > 0
    probe = standardised(features, classes=3)
    torch.testing.assert_close(probe.std[0], varies.std(correction=0))
    others = features + torch.tensor([0.0, 0.1])
    assert ((others - probe.mean) / probe.std)[:, 1].abs().max() == 0


def test_the_rate_falls_along_half_a_cosine_or_tenfold_on_a_plateau_of_the_validation_accuracy():
    train = clouds(40, seed=0)
    rates = [row["learning_rate"] for row in run(train, train, setting_scale=scale(epochs=4)).history]
    assert rates == pytest.approx([0.1, 0.05 * (1 + math.sqrt(0.5)), 0.05, 0.05 * (1 - math.sqrt(0.5))])
    hopeless = replace(train, layers={"pooled": torch.zeros(40, 4)})  # its accuracy never rises much
    settings = params(patience=2, drops=2), scale(epochs=12, learning_rate=1.0)
    rates = [row["learning_rate"] for row in run(train, train, *settings, validation=hopeless).history]
    assert rates == sorted(rates, reverse=True)
    assert sorted({round(rate, 9) for rate in rates}) == pytest.approx([0.01, 0.1, 1.0])
    assert rates[-1] == pytest.approx(0.01)


def test_test_images_decide_nothing_the_seed_the_order_and_patience_needs_a_validation_part():
    train, settings, before = clouds(60, seed=0), params(patience=1, drops=3), torch.get_num_threads()
    one, other_images, other_seed = (
        run(train, clouds(count, seed=count), settings, validation=clouds(30, seed=1), seed=seed).history
        for count, seed in ((50, 0), (20, 0), (50, 1))
    )
    assert one == other_images != other_seed
    with pytest.raises(
        InputError, match=r"^patience 10 needs .* 0 images; give it images, or patience None and drops 0$"
    ):
        run(train, train, params(patience=10, drops=1))
    assert torch.get_num_threads() == before


def test_without_settings_a_probe_is_trained_by_the_stated_ones():
    train, test = clouds(300, seed=0), clouds(40, seed=1)
    settings, budget = params(weight_decay=1e-5), scale(epochs=30, batch_size=256, learning_rate=0.1)
    assert probe_features(train, test).history == run(train, test, settings, budget).history


def test_features_have_no_views_to_make_anew():
    train = clouds(20, seed=0)
    with pytest.raises(InputError, match=r"^inputs 'views' augments images anew in each epoch, .*inputs=\"features\"$"):
        run(train, train, params(inputs="views"))


def test_an_epoch_holds_every_row_once_in_its_own_order():
    rows = torch.arange(50.0)[:, None]
    batches = feature_batches(rows, torch.arange(50), batch_size=16, seed=0, device=CPU)
    epoch_rows = []
    for epoch in range(2):
        features, labels = zip(*batches(epoch), strict=True)
        assert [len(batch) for batch in labels] == [16, 16, 16, 2]
        assert torch.equal(torch.cat(features).squeeze(1).long(), torch.cat(labels))
        epoch_rows.append(torch.cat(labels).tolist())
    assert sorted(epoch_rows[0]) == sorted(epoch_rows[1]) == list(range(50))
    assert epoch_rows[0] != epoch_rows[1]


@pytest.mark.parametrize("steps", [1, 2])  # after the last step only the weights show it
def test_a_diverging_probe_stops_with_step_and_learning_rate(steps):
    train = clouds(8, seed=0)

    def batches(epoch):
        for _ in range(steps):
            yield 1e37 * train.layers["pooled"], train.labels

    probe, settings = unchanged(4, 3, CPU), scale(epochs=1, learning_rate=1000.0)
    with pytest.raises(InputError, match=rf"no longer finite at step {steps} \(epoch 1\) .* rate 1000; lower"):
        fit(probe, batches, params(), settings, ConstantSchedule(), empty(train))


@pytest.mark.parametrize("part", ["train", "validation", "test"])
def test_features_that_are_not_finite_are_refused_by_their_split(part):
    parts = {name: clouds(8, seed=0) for name in ("train", "validation", "test")}
    parts[part].layers["pooled"][3, 1] = torch.nan
    with pytest.raises(InputError, match=f"^{part} features hold NaN or infinity"):
        run(parts["train"], parts["test"], validation=parts["validation"])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode, partial(torch.autocast, "cpu")])
def test_a_probe_learns_also_within_a_loop_s_validation(context):
    """Lightning probes in such contexts; the features are computed there too."""
    alone = run(clouds(40, seed=0), clouds(20, seed=1))
    with context():
        outcome = run(clouds(40, seed=0), clouds(20, seed=1))
    assert (outcome.metrics, outcome.history) == (alone.metrics, alone.history)


def test_a_nan_among_many_features_is_found_in_whichever_piece_it_is(monkeypatch):
    monkeypatch.setattr(linear, "ROWS_AT_ONCE", 4)
    for row in (0, 5, 9):
        features = clouds(10, seed=0)
        features.layers["pooled"][row, 1] = torch.nan
        with pytest.raises(InputError, match=r"^test features hold NaN or infinity"):
            run(clouds(10, seed=1), features)


def test_features_with_a_gradient_are_probed_as_those_without():
    train = clouds(8, seed=0)
    graph = Features({"pooled": train.layers["pooled"].clone().requires_grad_() * 1}, train.labels, train.classes)
    assert run(graph, graph).history == run(train, train).history


@pytest.fixture(scope="module")
def encoder():
    config = EncoderConfig("alexnet", "imagenet", "linear", 6, 32, None, mean=(0.5,) * 3, std=(0.3,) * 3)
    encoder = build_encoder(config, seed=0).train()
    for layer in encoder.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():  # running statistics of real activations, as after training
        encoder(center_view(image_set(60).images.pixels, 32))
    return encoder.eval()


def image_set(count, seed=0):
    """Bright images and dark ones."""
    draws = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    images = torch.randint(0, 128, (count, 3, 36, 36), generator=draws) + 120 * labels[:, None, None, None]
    return ImageSet(Resident(images.to(torch.uint8)), labels, torch.arange(count), ("dark", "bright"))


@pytest.mark.parametrize(("layer", "dim"), [("pooled", 128), ("map", 512)])
def test_plain_views_are_what_the_encoder_sees(encoder, layer, dim):
    images = image_set(10)
    batches = view_batches(encoder, images, params(layer=layer), PLAIN_VIEWS, 4, seed=0, device=CPU)
    rows = torch.randperm(10, generator=generator(0, "linear", 5))
    features, labels = zip(*batches(5), strict=True)
    expected = encode(encoder, center_view(images.images.take(rows), 32), [layer])[layer]
    torch.testing.assert_close(torch.cat(features), expected)
    assert expected.flatten(1).shape[1] == dim
    assert torch.equal(torch.cat(labels), images.labels[rows])


def test_each_epoch_and_each_seed_augments_anew(encoder):
    images = image_set(1)
    batches, *others = (
        view_batches(encoder, images, params(), FLIPPED_VIEWS, 4, seed=seed, device=CPU) for seed in range(8)
    )
    features = {tuple(next(batches(epoch))[0][0].tolist()) for epoch in range(8)}
    assert len(features) == 2  # mirrored and not
    assert {tuple(next(one(3))[0][0].tolist()) for one in (batches, *others)} == features
    assert torch.equal(next(batches(3))[0], next(batches(3))[0])


def test_a_probe_of_views_takes_the_features_as_they_are(encoder, generator, monkeypatch):
    probes, images = [], [image_set(count, seed=count) for count in (20, 6, 4)]
    monkeypatch.setattr(linear, "fit", lambda probe, *rest: probes.append(probe) or fit(probe, *rest))
    probe_views(encoder, *images, params(inputs="views"), scale(epochs=1), PLAIN_VIEWS, 0, CPU)
    features = torch.rand(3, encoder.width, generator=generator)
    torch.testing.assert_close(probes[0](features), features @ probes[0].weight.T + probes[0].bias)


@pytest.mark.parametrize("inputs", ["features", "views"])
def test_the_stage_reports_numbers_a_curve_and_one_row_per_test_image(tmp_path, empty_checkout, encoder, inputs):
    save_encoder(encoder, tmp_path / "0.safetensors")
    for split, count in (("train", 60), ("validation", 10), ("test", 20)):
        images = image_set(count, seed=count)
        save_images(tmp_path / f"{split}.safetensors", images)
        save_features(tmp_path / "features/0", split, extract(encoder, images, ["pooled"], CPU))
    values = {"seeds": [0], "linear": params(inputs=inputs)}
    values |= {"view_sets.${views}": FLIPPED_VIEWS, "scales.${scale}.linear": scale(epochs=4)}
    files = {"encoders": "", "right": "right.json", "features": "features", "confusion": "confusion.csv"}
    paths = Namespace(images=tmp_path, **{name: tmp_path / file for name, file in files.items()})
    results = stage.main(values, paths)
    assert results.seeds[0]["top1_percent"] == 100.0
    assert read_right(paths.right)["top1_percent"][0].all()
    assert [(row["seed"], row["epoch"]) for row in results.history] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    constant = [row["learning_rate"] for row in results.history] == [0.1] * 4
    assert constant == (inputs == "views"), "as the papers: no drop, no cosine"
    assert {"loss_nats", "validation_top1_percent", "learning_rate"} < set(results.history[0])
    with paths.confusion.open() as file:
        rows = list(csv.DictReader(file))
    assert rows == [{"actual": name, "predicted": name} for name in ["dark"] * 10 + ["bright"] * 10]


def killed_after(epochs, patched):
    """Makes a probe of views save after each epoch, and kills it after `epochs` epochs."""
    save = Checkpoint.save

    def saving(checkpoint, state):
        save(checkpoint, state)
        if len(state["history"]) == epochs:
            raise Killed

    patched.setattr(Checkpoint, "due", True)
    patched.setattr(Checkpoint, "save", saving)


def watch_epochs(monkeypatch):
    make, epochs = linear.view_batches, []

    def record(*arguments):
        batches = make(*arguments)
        return lambda epoch: epochs.append(epoch) or batches(epoch)

    monkeypatch.setattr(linear, "view_batches", record)
    return epochs


@pytest.mark.parametrize("killed", [1, 3])
def test_a_killed_probe_of_views_ends_in_the_bits_of_an_uninterrupted_one(encoder, killed, empty_checkout, monkeypatch):
    images = [image_set(count, seed=count) for count in (20, 6, 4)]
    settings = params(inputs="views", patience=1, drops=2, weight_decay=0.01), scale(epochs=6), FLIPPED_VIEWS, 0, CPU
    whole = probe_views(encoder, *images, *settings)
    assert len({row["learning_rate"] for row in whole.history}) == 3, "the plateau's state matters"
    with Checkpoint("linear", {}) as checkpoint:
        with monkeypatch.context() as patched:
            killed_after(killed, patched)
            with pytest.raises(Killed):
                probe_views(encoder, *images, *settings, checkpoint)
        epochs = watch_epochs(monkeypatch)
        resumed = probe_views(encoder, *images, *settings, checkpoint)
    assert epochs == list(range(killed, 6))
    assert (resumed.metrics, resumed.history) == (whole.metrics, whole.history)
    assert torch.equal(resumed.predicted, whole.predicted)


def test_a_killed_stage_goes_on_with_its_probes_of_views_which_go_once_another_stage_has_ended(
    tmp_path, encoder, empty_checkout, monkeypatch
):
    for split, count in (("train", 60), ("validation", 10), ("test", 20)):
        save_images(tmp_path / f"{split}.safetensors", image_set(count, seed=count))
    (tmp_path / "encoders").mkdir()
    for seed in (0, 1):
        save_encoder(encoder, tmp_path / f"encoders/{seed}.safetensors")
    values = {"seeds": [0, 1], "linear": params(inputs="views"), "view_sets.${views}": FLIPPED_VIEWS}
    values |= {"scales.${scale}.linear": scale(epochs=3)}
    files = {"encoders": "encoders", "right": "right.json", "features": "", "confusion": "confusion.csv"}
    paths = Namespace(images=tmp_path, **{name: tmp_path / file for name, file in files.items()})
    monkeypatch.setattr(stage, "map_seeds", lambda one, seeds, device: {seed: one(seed) for seed in seeds})
    epochs = watch_epochs(monkeypatch)
    whole = stage.main(values, paths)
    again = stage.main(values, paths)
    assert epochs == [0, 1, 2] * 2, "none of the second time"
    assert (again.seeds, again.history) == (whole.seeds, whole.history)
    save_encoder(build_encoder(encoder.config, seed=1), paths.encoders / "0.safetensors")
    stage.main(values, paths).written()
    clear()
    assert epochs == [0, 1, 2] * 3, "of the new encoder only"
    save_images(tmp_path / "test.safetensors", image_set(21, seed=20))
    with monkeypatch.context() as patched:
        killed_after(2, patched)
        with pytest.raises(Killed):
            stage.main(values, paths)
    stage.main(values, paths).written()
    clear()
    assert epochs == [0, 1, 2] * 5, "of new images all, the killed one once"
    assert len(list(empty_checkout.glob(".annulus/checkpoints/linear/*/*.pt"))) == 1, "the first encoder's"


@pytest.mark.parametrize(("split", "share"), [(None, 0.2), (ColourSplit("lab"), 0.0)])
def test_the_stage_probes_views_of_a_colour_split_without_greyscale(
    tmp_path, empty_checkout, split, share, monkeypatch
):
    """arXiv:2005.13149, Appendix C.1: a grey view lacks the colours that are split."""
    config = EncoderConfig("convnet", "imagenet", "linear", 8, 8, split, mean=(0.5,) * 3, std=(0.3,) * 3)
    save_encoder(build_encoder(config, seed=0), tmp_path / "0.safetensors")
    for part in ("train", "validation", "test"):
        save_images(tmp_path / f"{part}.safetensors", image_set(4))
    shares = []

    def record(*images, views, **settings):
        shares.append(views.grayscale)
        return Namespace(metrics={"top1_percent": 0.0})

    monkeypatch.setattr(stage, "probe_views", record)
    values = {"linear": params(inputs="views"), "scales.${scale}.linear": scale()}
    values["view_sets.${views}"] = replace(PLAIN_VIEWS, grayscale=0.2)
    stage.Probing(values, Namespace(images=tmp_path, encoders=tmp_path, features=tmp_path), {})(0)
    assert shares == [share]


def test_the_default_probe_is_as_accurate_as_scikit_learn_s_logistic_regression():
    from sklearn.linear_model import LogisticRegression

    train, test = (clouds(1500, seed=seed, spread=2.5, classes=5, dim=20) for seed in (0, 1))
    outcome = run(train, test, setting_scale=scale(epochs=10, batch_size=64))
    accuracy = outcome.metrics["top1_percent"]
    assert (outcome.right["top1_percent"] == (outcome.predicted == test.labels).numpy()).all()
    assert accuracy == pytest.approx(100 * outcome.right["top1_percent"].mean())
    vectors = [each.layer("pooled").numpy() for each in (train, test)]
    mean, std = vectors[0].mean(axis=0), vectors[0].std(axis=0)
    model = LogisticRegression().fit((vectors[0] - mean) / std, train.labels.numpy())
    right = model.predict((vectors[1] - mean) / std) == test.labels.numpy()
    assert accuracy == pytest.approx(100 * right.mean(), abs=1.0)
    assert 60 < accuracy < 98, "neither chance nor without a fault"

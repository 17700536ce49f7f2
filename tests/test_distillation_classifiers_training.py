"""The loop of classifiers: every step written out, exact resume, views, error sentences, and the rows in batches."""

import copy
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from settings import Killed

from annulus.device.rng import generator as random
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus.running.checkpoint import Checkpoint
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.crops import padded_crops
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.objective import Supervised
from annulus_lab.studies.distillation.classifiers.training import scores, train

CPU, CLASSES = torch.device("cpu"), ("a", "b", "c")
RATES = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01, "schedule": {"at": [0.5], "factor": 0.1}}
PARAMS = filled(FitParams, RATES | {"epochs": 2, "batch_size": 4, "padding": 2, "flip": 0.5})


@pytest.fixture
def images(generator):
    """Ten images: the last batch of four has two."""
    pixels = torch.randint(0, 256, (10, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return ImageSet(Resident(pixels), torch.arange(10) % 3, torch.arange(100, 110), CLASSES)


def fit(images, *, seed=0, params=PARAMS, objective=Supervised, checkpoint=None, double=False):
    """A small network, trained and tested on these images, and its result."""
    classifier = build_classifier("resnet8", 3, seed=0).eval()  # `train` must change the mode
    classifier = classifier.double() if double else classifier  # rounding in float32 grows over the steps
    return classifier, train(classifier, objective(classifier), images, images, params, seed, CPU, checkpoint)


def test_training_is_sgd_with_momentum_written_out(images):
    classifier, fitted = fit(images, double=True)

    plain = build_classifier("resnet8", 3, seed=0).double().train()
    velocity = [torch.zeros_like(weight) for weight in plain.parameters()]
    for epoch, rate in enumerate([0.1, 0.01]):
        views, losses = random(0, "classifier", "views", epoch), []
        for rows in torch.randperm(10, generator=random(0, "classifier", "order", epoch)).split(4):
            batch = padded_crops(images.images.pixels[rows], 2, 0.5, views)
            scored = plain(batch).log_softmax(dim=1)
            loss = -sum(scored[place, images.labels[row]] for place, row in enumerate(rows)) / len(rows)
            gradients = torch.autograd.grad(loss, list(plain.parameters()))
            with torch.no_grad():
                for weight, buffer, gradient in zip(plain.parameters(), velocity, gradients, strict=True):
                    buffer.mul_(0.9).add_(gradient + 0.01 * weight)
                    weight.sub_(rate * buffer)
            losses.append(loss.item())
        assert fitted.history[epoch] == {
            "epoch": epoch + 1,
            "loss_nats": pytest.approx(sum(losses) / 3, rel=1e-5),
            "learning_rate": pytest.approx(rate),
        }
    torch.testing.assert_close(classifier.state_dict(), plain.state_dict(), rtol=1e-6, atol=1e-7)


def test_the_metrics_are_those_of_the_whole_upright_test_images(images):
    classifier, fitted = fit(images)
    expected = classifier.eval()(images.images.pixels / 255).detach()
    torch.testing.assert_close(scores(classifier, images, CPU), expected)
    right = expected.argmax(dim=1) == images.labels
    assert fitted.right["top1_percent"].tolist() == right.tolist()
    assert fitted.metrics == {
        "top1_percent": pytest.approx(10.0 * right.sum().item()),
        "top5_percent": 100.0,  # of three classes
        "loss_nats": fitted.history[-1]["loss_nats"],
        "epochs": 2,
        "train_images": 10,
        "images": 10,
        "weights": sum(weight.numel() for weight in classifier.parameters()),
    }


@pytest.mark.parametrize("name", ["wrn_16_1", "vgg8", "mobilenet_v2", "shufflenet_v1", "shufflenet_v2"])
def test_every_kind_of_network_takes_the_steps_of_sgd(images, name):
    classifier = build_classifier(name, 3, seed=0).double()  # batch-norm of ten pixels amplifies rounding
    plain = copy.deepcopy(classifier).train()
    params = replace(PARAMS, epochs=1, batch_size=10, padding=0, flip=0.0, momentum=0.0)
    train(classifier, Supervised(classifier), images, images, params, 0, CPU)
    rows = torch.randperm(10, generator=random(0, "classifier", "order", 0))
    views = padded_crops(images.images.pixels[rows], 0, 0.0, torch.Generator())
    loss = F.cross_entropy(plain(views).float(), images.labels[rows])
    gradients = torch.autograd.grad(loss, list(plain.parameters()))
    for actual, weight, gradient in zip(classifier.parameters(), plain.parameters(), gradients, strict=True):
        torch.testing.assert_close(actual, weight - 0.1 * (gradient + 0.01 * weight))


class Remembering(Supervised):
    """An objective with a weight and a memory of its own, which both enter the loss."""

    def __init__(self, classifier):
        super().__init__(classifier)
        self.own = torch.nn.Parameter(torch.ones(classifier.width))
        self.memory, self.batches, self.stored = torch.zeros(10), [], []

    def loss(self, images, rows, labels):
        self.batches.append((rows.tolist(), labels.tolist(), len(images)))
        features = self.classifier.features(images)
        drift = (features @ self.own / 100 - self.memory[rows]).square().mean()
        return F.cross_entropy(self.classifier.classify(features), labels) + drift

    def after_step(self, rows):
        self.stored.append(rows.tolist())
        self.memory[rows] += self.own.detach().mean()

    def parameters(self):
        return [self.own]

    def state_dict(self):
        return {"own": self.own.detach(), "memory": self.memory}

    def load_state_dict(self, state):
        self.own.data.copy_(state["own"])
        self.memory.copy_(state["memory"])


def make_objectives(objectives):
    """Function that makes such objectives and appends them to the list."""
    return lambda classifier: objectives.append(Remembering(classifier)) or objectives[-1]


class KilledAfterOneEpoch(Checkpoint):
    def save(self, state):
        super().save(state)
        raise Killed


def test_a_killed_run_goes_on_bit_for_bit_and_says_so(images, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    caplog.set_level("INFO")
    params = replace(PARAMS, epochs=3)
    objectives = []
    objective = make_objectives(objectives)
    whole, expected = fit(images, params=params, objective=objective)
    with KilledAfterOneEpoch("train", {"seed": 0}) as checkpoint, pytest.raises(Killed):
        fit(images, params=params, objective=objective, checkpoint=checkpoint)
    with Checkpoint("train", {"seed": 0}) as checkpoint:
        resumed, fitted = fit(images, params=params, objective=objective, checkpoint=checkpoint)
        again, same = fit(images, params=params, objective=objective, checkpoint=checkpoint)  # nothing is left to train

    assert caplog.text.count("resuming at epoch 2 of 3") == 1
    assert len(objectives[1].batches) == 3
    assert len(objectives[2].batches) == 6
    assert objectives[3].batches == []
    for network, result, memory in ((resumed, fitted, objectives[2]), (again, same, objectives[3])):
        torch.testing.assert_close(network.state_dict(), whole.state_dict(), rtol=0, atol=0)
        torch.testing.assert_close(dict(memory.state_dict()), objectives[0].state_dict(), rtol=0, atol=0)
        assert (result.history, result.metrics) == (expected.history, expected.metrics)


def test_an_objective_sees_each_image_once_an_epoch_with_its_label_and_learns(images):
    objectives = []
    fit(images, objective=make_objectives(objectives))
    [objective] = objectives
    assert [rows for rows, *_ in objective.batches] == objective.stored
    for epoch in (objective.batches[:3], objective.batches[3:]):
        assert [count for *_, count in epoch] == [4, 4, 2]
        assert sorted(row for rows, *_ in epoch for row in rows) == list(range(10))
        assert all(label == row % 3 for rows, labels, _ in epoch for row, label in zip(rows, labels, strict=True))
    assert objective.stored[:3] != objective.stored[3:]  # another order
    assert not torch.equal(objective.own, torch.ones_like(objective.own))


def test_a_last_batch_of_one_image_is_left_out(images):
    objectives = []
    fit(images.take(torch.arange(9)), objective=make_objectives(objectives))
    assert [len(rows) for rows in objectives[0].stored] == [4, 4, 4, 4]


def test_a_loss_or_scores_that_are_not_finite_are_refused_with_step_and_rate_or_image(images):
    class Diverging(Supervised):
        steps = 0

        def loss(self, *batch):
            self.steps += 1
            return super().loss(*batch) * (math.nan if self.steps == 5 else 1)

    sentence = r"resnet8: the loss is nan at step 5 \(epoch 2\) with learning rate 0.01; lower the learning rate"
    with pytest.raises(InputError, match=sentence):
        fit(images, objective=Diverging)
    classifier = build_classifier("resnet8", 3, seed=0)
    classifier.head.bias.data[1] = math.inf
    with pytest.raises(InputError, match="resnet8's scores of image 0 are not finite"):
        scores(classifier, images, CPU)


def with_sizes(images):
    store = copy.copy(images.images)
    store.sizes = torch.full((10, 2), 8)
    return ImageSet(store, images.labels, images.rows, images.classes)


def with_classes(images, *classes):
    return ImageSet(images.images, images.labels, images.rows, classes)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda images: images.take(torch.arange(0)), "the training part holds 0 images"),
        (lambda images: images.take(torch.arange(1)), "1 training image, .* at least 2"),
        (with_sizes, "the training images differ in size"),
        (
            lambda images: with_classes(images, *"abcd"),
            "resnet8 scores 3 classes, .* images have 4; build it with class",
        ),
        (lambda images: with_classes(images, *"acb"), "classes differ from the training images' in their order"),
    ],
)
def test_images_that_do_not_suit_are_refused_before_training(images, change, sentence):
    classifier = build_classifier("resnet8", 3, seed=0)
    with pytest.raises(InputError, match=sentence):
        train(classifier, Supervised(classifier), change(images), images, PARAMS, 0, CPU)


def test_a_seed_decides_the_run(images, untouched_global_randomness):
    (same, _), (again, _), (other, _) = (fit(images, seed=seed) for seed in (0, 0, 1))
    torch.testing.assert_close(same.state_dict(), again.state_dict(), rtol=0, atol=0)
    assert not torch.equal(same.head.weight, other.head.weight)

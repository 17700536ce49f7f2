"""Online probe: plain SGD on pooled features, without effect on the encoder."""

from copy import deepcopy

import pytest
import torch
import torch.nn.functional as F
from method_cases import assert_equal_states
from settings import CPU, observer, run
from test_detection_levels import CONFIG

from annulus.encoders.encoder import build_encoder
from annulus.training.online_probe import OnlineProbe
from annulus.training.report import sentence
from annulus.training.validation import Validation

SLOW = (
    {"split": "lab"},
    {"method": "simclr"},
    {"method": "simo", "methods.simo.batch_norm": "shuffle"},
    {"method": "pirl"},
    {"method": "moco-jigsaw"},
)
METHODS = [{"sampler": "ring"}, {"method": "moco"}, *(pytest.param(each, marks=pytest.mark.slow) for each in SLOW)]


@pytest.mark.parametrize("changes", METHODS, ids=["ir", "moco", "cmc", "simclr", "simo", "pirl", "moco-jigsaw"])
def test_the_encoder_has_the_same_bits_without_it(changes, untouched_global_randomness):
    trainings = [run(changes), run(changes)]
    trainings[1].observers.remove(observer(trainings[1], OnlineProbe))
    observer(trainings[1], Validation).probe = None
    histories = [training.run() for training in trainings]
    assert_equal_states(*(training.method for training in trainings))
    for with_probe, without in zip(*histories, strict=True):
        assert 0 <= with_probe.pop("online_linear_top1_percent") <= 100
        assert with_probe == without


def plain(probe, features, labels, steps):
    """Trains the classifier by autograd and torch.optim on the features of each step."""
    width, classes = features[0].shape[1], 3
    network = torch.nn.Sequential(
        torch.nn.BatchNorm1d(width, momentum=0.05, affine=False), torch.nn.Linear(width, classes)
    )
    for weight in network.parameters():
        torch.nn.init.zeros_(weight)
    optimizer = torch.optim.SGD(network.parameters(), lr=4 / width, momentum=0.9)
    for step in range(steps):
        known = labels[step] >= 0
        losses = F.cross_entropy(network(features[step])[known], labels[step][known], reduction="sum")
        optimizer.zero_grad()
        (losses / len(known)).backward()
        optimizer.step()
    return network.eval()


@pytest.mark.parametrize(("views", "unlabelled"), [(1, 0), (1, 3), (2, 0), (2, 3)])
def test_it_is_softmax_regression_by_sgd_with_momentum(views, unlabelled, generator):
    encoder = build_encoder(CONFIG, seed=0).train()
    labels = torch.arange(12) % 3
    labels[:unlabelled] = -1
    probe, pooled, pooled_labels = OnlineProbe(encoder, labels, 3, CPU), [], []
    for _ in range(5):
        index = torch.randperm(12, generator=generator)[:8]
        images = torch.rand(8 * views, 3, 16, 16, generator=generator)
        pooled.append(encoder.embeddings_and_pooled(images)[1])
        pooled_labels.append(torch.cat([labels[index]] * views))
        probe.learn(index, pooled[-1:])
    network = plain(probe, pooled, pooled_labels, 5)
    test, truth = torch.randn(50, encoder.width, generator=generator), torch.arange(50) % 3
    torch.testing.assert_close(probe.weight[:-1].T, network[1].weight.detach(), atol=1e-6, rtol=1e-4)
    torch.testing.assert_close(probe.weight[-1], network[1].bias.detach(), atol=1e-6, rtol=1e-4)
    expected = 100 * (network(test).argmax(dim=1) == truth).double().mean().item()
    assert probe.accuracy(test, truth) == pytest.approx(expected)


@pytest.mark.parametrize("method", ["ir", "moco", "simclr", "simo", "pirl", "moco-jigsaw"])
@pytest.mark.parametrize("split", ["none", "lab"])
def test_a_step_tells_what_an_evaluation_of_its_queries_gives_in_the_same_order(method, split, monkeypatch):
    training = run({"method": method, "split": split})
    features, batches = [], []
    monkeypatch.setattr(observer(training, OnlineProbe), "learn", lambda index, pooled: features.append(pooled))
    embed = training.method.embed
    monkeypatch.setattr(training.method, "embed", lambda views: batches.append(views) or embed(views))
    training.method.start(training._embed)
    training.method.train()
    encoder = deepcopy(training.method.encoder)
    training.step(training.order())
    with torch.no_grad():
        expected = encoder.train().pooled(batches[0])
    assert not any(part.requires_grad for part in features[0])
    torch.testing.assert_close(torch.cat(features[0], dim=1), expected)


def test_it_learns_classes_that_features_separate():
    changes = {"sampler": "uniform", "anneal": "none", "views": "colour", "scales.tiny.pretrain.epochs": 10}
    training = run(changes | {"methods.ir.temperature": 0.2}, 160, 40)
    history = training.run()
    assert history[-1]["online_linear_top1_percent"] >= 90
    assert training.metrics["online_linear_top1_percent"] == history[-1]["online_linear_top1_percent"]
    assert ", linear " in sentence(history[-1], 10)


def test_without_validation_images_there_is_none():
    training = run({"scales.tiny.pretrain.epochs": 1}, validation=0)
    assert not any(isinstance(each, OnlineProbe) for each in training.observers)
    assert "online_linear_top1_percent" not in training.run()[0]

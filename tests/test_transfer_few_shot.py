"""Episodes and their classifiers, against plain loops."""

import logging

import pytest
import torch

from annulus.errors import InputError
from annulus_lab.studies.transfer.few_shot import accuracies, draw_episodes

LABELS = torch.arange(60) % 6


def draw(generator, labels=LABELS, classes=range(6), ways=4, shots=2, queries=3, episodes=50):
    return draw_episodes(labels, classes, ways, shots, queries, episodes, generator)


def test_an_episode_s_images_are_of_its_classes_and_none_is_both_learned_from_and_asked(generator):
    support, query = draw(generator, classes=[0, 1, 2, 3, 5])
    assert (support.shape, query.shape) == ((50, 4, 2), (50, 4, 3))
    for images in torch.cat([support, query], dim=2):
        assert len(images.unique()) == 20
        classes = LABELS[images]
        assert (classes == classes[:, :1]).all(), "each way is one class"
        assert len(classes[:, 0].unique()) == 4
        assert 4 not in classes
    assert support.unique().numel() == 50, "all images of the five classes are met"


def test_the_same_seed_draws_the_same_episodes():
    first, second, other = (torch.cat(draw(torch.Generator().manual_seed(seed)), dim=2) for seed in (0, 0, 1))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def plain(features, center, support, query, classifier):
    """Accuracy of one episode, image by image."""
    unit = [(row - center) / (row - center).norm() for row in features]
    right = 0
    for way, images in enumerate(query.tolist()):
        for image in images:
            known = [[unit[row] for row in rows] for rows in support.tolist()]
            if classifier == "prototype":
                distances = [(unit[image] - sum(rows) / len(rows)).norm().item() for rows in known]
            else:
                distances = [min((unit[image] - row).norm().item() for row in rows) for rows in known]
            right += distances.index(min(distances)) == way
    return right / query.numel()


@pytest.mark.parametrize("classifier", ["prototype", "neighbour"])
def test_accuracies_are_those_of_plain_loops(generator, classifier, monkeypatch):
    monkeypatch.setattr("annulus_lab.studies.transfer.few_shot.EPISODES_AT_ONCE", 4)
    features = torch.randn(60, 5, generator=generator) + LABELS[:, None] * torch.tensor([0.0, 1.0, 0, 0, -0.6])
    center = torch.tensor([0.5, 0.1, 0.0, -0.3, 0.2])
    episodes = draw(generator, episodes=10)
    expected = [plain(features, center, *each, classifier) for each in zip(*episodes, strict=True)]
    assert accuracies(features, center, episodes, classifier).tolist() == pytest.approx(expected)
    assert 0.25 < sum(expected) / 10 < 1


def test_classes_with_too_few_images_are_left_out_and_too_few_classes_refused(generator, caplog):
    labels = torch.tensor([0] * 10 + [1] * 5 + [2] * 4 + [3] * 5)
    with caplog.at_level(logging.WARNING, "annulus"):
        support, _ = draw(generator, labels, range(4), ways=3)
    assert set(labels[support].unique().tolist()) == {0, 1, 3}
    assert "1 of 4 classes have fewer than 5 test images and are in no episode" in caplog.text
    sentence = (
        r"few_shot: an episode has 4 classes with 2 \+ 3 images each, and only 3 of the 4 classes have enough "
        "test images; lower few_shot.ways, shots or queries"
    )
    with pytest.raises(InputError, match=sentence):
        draw(generator, labels, range(4), ways=4)

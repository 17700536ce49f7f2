"""Classifiers as files: a saved one loads frozen, and a damaged one is refused."""

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from annulus.errors import InputError
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.saved import load_classifier, save_classifier

STATISTICS = ((0.5, 0.4, 0.3), (0.2, 0.25, 0.3))


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "teacher.safetensors"
    save_classifier(build_classifier("resnet8", 5, seed=3, statistics=STATISTICS), path)
    return path


@pytest.mark.parametrize("name", ["resnet8", "wrn_16_1", "vgg8", "mobilenet_v2", "shufflenet_v1", "shufflenet_v2"])
def test_a_saved_classifier_comes_back_frozen_with_the_same_scores(name, tmp_path):
    classifier = build_classifier(name, 5, seed=3, statistics=STATISTICS)
    images = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    classifier(images)
    save_classifier(classifier, tmp_path / "one.safetensors")
    loaded = load_classifier(tmp_path / "one.safetensors")
    assert torch.equal(loaded(images), classifier.eval()(images))
    assert loaded.config == classifier.config
    assert not loaded.training
    assert not any(weight.requires_grad for weight in loaded.parameters())


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "resnet9"}, "no network is named 'resnet9'"),
        ({"name": 5}, "name is 5 and classes 5, expected text and a whole number"),
        ({"classes": 0}, "a classifier of 0 classes"),
        ({"classes": 6}, r"head\.bias is float32 \(5,\), expected float32 \(6,\)|head\.weight is float32 \(5, 64\)"),
        ({"mean": [0.5, 0.5]}, r"mean is \[0.5, 0.5\], expected 3 finite numbers"),
        ({"std": [0.5, float("nan"), 1]}, "std is .*, expected 3 finite numbers"),
        ({"std": [0.5, 0, 1]}, "expected numbers above 0"),
        ({"depth": 3}, "it holds classes, depth, mean, name, std, expected name, classes|it holds .*, expected"),
    ],
)
def test_a_description_that_is_no_classifier_s_is_refused(weights, change, sentence):
    description = weights.with_suffix(".json")
    description.write_text(json.dumps(json.loads(description.read_text()) | change))
    with pytest.raises(InputError, match=sentence):
        load_classifier(weights)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"head.bias": None}, r"head\.bias is nothing, expected float32 \(5,\)"),
        ({"more": torch.zeros(2)}, r"more is float32 \(2,\), expected nothing"),
        ({"head.weight": torch.full((5, 64), torch.nan)}, r"head\.weight holds NaN or infinity; train it again"),
        ({"head.bias": torch.zeros(5).double()}, r"head\.bias is float64 \(5,\), expected"),
    ],
)
def test_weights_of_another_network_or_damaged_ones_are_refused(weights, changes, sentence):
    state = {name: tensor for name, tensor in (load_file(weights) | changes).items() if tensor is not None}
    save_file(state, weights)
    with pytest.raises(InputError, match=sentence):
        load_classifier(weights)


@pytest.mark.parametrize("suffix", [".safetensors", ".json"])
def test_a_missing_or_broken_file_is_refused(weights, suffix):
    file = weights.with_suffix(suffix)
    for damage in (lambda: file.write_bytes(b"{"), file.unlink):
        damage()
        with pytest.raises(InputError, match=r"is missing or not a classifier of annulus .*; train it again"):
            load_classifier(weights)

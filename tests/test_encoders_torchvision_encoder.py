"""Networks of torchvision by their names, with torchvision's own preprocessing."""

import pytest
import torch
import torch.nn.functional as F
from torchvision import models

import annulus
from annulus.encoders.by_name import named
from annulus.errors import InputError

SMALL = ["shufflenet_v2_x0_5", "mnasnet0_5", "mobilenet_v3_small", "resnet18"]


@pytest.mark.parametrize("name", SMALL)
def test_the_network_is_torchvision_s_without_its_last_layer(name):
    encoder = named(f"torchvision/{name}", dim=5).eval()
    whole = models.get_model(name, weights=None).eval()
    whole.load_state_dict(encoder.network.state_dict(), strict=False)
    last = whole.get_submodule(encoder.last)
    images = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    mean, deviation = (
        torch.tensor(numbers).view(3, 1, 1) for numbers in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    with torch.no_grad():
        pooled = encoder.pooled(images)
        torch.testing.assert_close(whole((images - mean) / deviation), last(pooled))
        torch.testing.assert_close(encoder(images), F.normalize(encoder.head(pooled), dim=1))
    assert (encoder.width, pooled.shape[1]) == (last.in_features, last.in_features)


@pytest.mark.parametrize("name", ["resnet18", "mnasnet0_75"])
def test_bytes_are_seen_as_torchvision_s_own_evaluation_shows_them(name):
    encoder = named(f"torchvision/{name}")
    images = torch.randint(256, (2, 3, 190, 240), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    transform = models.get_model_weights(name).DEFAULT.transforms()
    torch.testing.assert_close(encoder.prepared(encoder.view(images)), transform(images))
    assert encoder.view(images).shape[-1] == encoder.view_size == 224


def test_features_by_name_are_of_torchvision_s_weights(monkeypatch):
    saved = models.resnet18()
    monkeypatch.setattr(models.ResNet18_Weights, "get_state_dict", lambda self, **settings: saved.state_dict())
    images = torch.randint(256, (2, 3, 190, 240), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    features = annulus.extract_features("torchvision/resnet18", images)
    transform = models.ResNet18_Weights.DEFAULT.transforms()
    saved.fc = torch.nn.Identity()
    with torch.no_grad():
        torch.testing.assert_close(features.layer("pooled"), saved.eval()(transform(images)))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("torchvision/resnet19", "torchvision has no classifier 'resnet19'; .*did you mean 'resnet18'"),
        (
            "torchvision/squeezenet1_0",
            "torchvision/squeezenet1_0 does not end in one linear layer of classes; give ann",
        ),
        ("torchvision/googlenet", "torchvision/googlenet does not end in one linear layer of classes"),
        ("torchvision/", "encoder 'torchvision/': give a torch.nn.Module, or a name of timm or torchvision"),
    ],
)
@pytest.mark.filterwarnings("ignore:The default weight initialization of GoogleNet")
def test_names_that_are_no_classifier_are_sentences(name, message):
    with pytest.raises(InputError, match=message):
        annulus.SimCLR.create(name, images=9, dim=4)

"""Any network as an encoder: vectors from maps, from tokens, and from the outputs of transformers' models."""

from collections import OrderedDict
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

import annulus
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.errors import InputError

IMAGES = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Output(OrderedDict):
    """A mapping whose keys are attributes too, like transformers' ModelOutput."""

    def __getattr__(self, name):
        return self[name]


@dataclass
class Named:
    """An output object that is not a mapping."""

    last_hidden_state: Tensor
    pooler_output: Tensor | None = None


def tokens(images):
    return images.flatten(2)  # (4, 3, 36): three tokens of 36 numbers


OUTPUTS = {
    "a map": (lambda x: x, "mean", lambda x: torch.stack([image.flatten(1).mean(dim=1) for image in x])),
    "tokens": (tokens, "mean", lambda x: torch.stack([sum(rows) / 3 for rows in tokens(x)])),
    "the first token": (tokens, "first", lambda x: torch.stack([rows[0] for rows in tokens(x)])),
    "a map of one place": (lambda x: x[:, :, :1, :1], None, lambda x: x[:, :, 0, 0]),
    "a function": (lambda x: (x, x), lambda output: output[1][:, :, 0, 0], lambda x: x[:, :, 0, 0]),
    "a mapping": (lambda x: Output(pooler_output=x[:, 0, 0]), None, lambda x: x[:, 0, 0]),
    "a pooled map": (lambda x: Output(pooler_output=x[:, :, :1, :1]), None, lambda x: x[:, :, 0, 0]),
    "an object": (lambda x: Named(tokens(x), x[:, 0, 0]), None, lambda x: x[:, 0, 0]),
    "an object's tokens": (lambda x: Named(tokens(x), x[:, 0, 0]), "first", lambda x: tokens(x)[:, 0]),
    "a mapping's map": (lambda x: Output(last_hidden_state=x), "mean", lambda x: x.mean(dim=(2, 3))),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_vectors_of_an_output_are_pooled_as_asked(name):
    network, pool, expected = OUTPUTS[name]
    torch.testing.assert_close(ModuleEncoder(network, pool=pool).pooled(IMAGES), expected(IMAGES))
    features = annulus.extract_features(network, IMAGES, pool=pool, layers=["pooled"])
    torch.testing.assert_close(features.layer("pooled"), expected(IMAGES))


@pytest.mark.parametrize(
    ("network", "pool", "message"),
    [
        (lambda x: Named(x), None, "the network's output is a Named without pooler_output; give annulus.ModuleEncoder"),
        (lambda x: (x, x), "mean", "the network's output is a tuple without last_hidden_state"),
        (lambda x: x, "first", r"shape \(4, 3, 6, 6\) for 4 images; .* annulus.ModuleEncoder\(NETWORK, DIM, pool="),
        (tokens, None, r"shape \(4, 3, 36\) for 4 images; .* or annulus.ModuleEncoder\(NETWORK, DIM, pool=.mean.\)"),
    ],
)
def test_an_output_without_vectors_names_pool(network, pool, message):
    with pytest.raises(InputError, match=message):
        ModuleEncoder(network, 3, pool=pool)(IMAGES)


class Transformer(nn.Module):
    """A vision model that returns an object."""

    def __init__(self):
        super().__init__()
        self.layer = nn.utils.skip_init(nn.Linear, 36, 8)
        nn.init.normal_(self.layer.weight, generator=torch.Generator().manual_seed(0))
        nn.init.zeros_(self.layer.bias)

    def forward(self, pixel_values):
        return Output(last_hidden_state=self.layer(tokens(pixel_values)))


def test_a_method_trains_a_network_that_returns_an_object():
    encoder, index = ModuleEncoder(Transformer(), dim=8, pool="mean"), torch.arange(4)
    method = annulus.MoCo.create(encoder, images=9, queue=8, shuffle_groups=2)
    step = method.loss([IMAGES, IMAGES], index)
    step.estimate.loss.backward()
    method.after_step(index, step)
    assert encoder.network.layer.weight.grad.abs().sum() > 0
    torch.testing.assert_close(*step.stored, encoder(IMAGES).detach())


def test_features_of_a_plain_network_and_of_a_function_are_its_outputs():
    network = nn.Sequential(nn.Flatten(), nn.utils.skip_init(nn.Linear, 108, 5), nn.BatchNorm1d(5))
    nn.init.normal_(network[1].weight, generator=torch.Generator().manual_seed(0))
    nn.init.zeros_(network[1].bias)
    pixels = (255 * IMAGES).byte()
    for model in (network, lambda images: network(images)):
        features = annulus.extract_features(model, pixels)
        expected = network.eval()(pixels / 255).detach()
        torch.testing.assert_close(features.layer("pooled"), expected)
        torch.testing.assert_close(features.layer("embedding"), expected / expected.norm(dim=1, keepdim=True))


def test_create_pools_a_plain_network_and_refuses_to_pool_an_encoder_s_output():
    network, index = nn.Conv2d(3, 8, 3), torch.arange(4)
    for method, settings in (
        (annulus.SimCLR, {}),
        (annulus.MoCo, {"queue": 8, "shuffle_groups": 1}),
        (annulus.IR, {}),
        (annulus.methods.SiMo, {"batch_norm": "shuffle", "shuffle_groups": 1}),
    ):
        learner = method.create(network, images=9, dim=8, pool="mean", **settings)
        expected = torch.stack([each.flatten(1).mean(dim=1) for each in network(IMAGES)])
        torch.testing.assert_close(learner.encoder.pooled(IMAGES), expected)
        learner.loss([IMAGES, IMAGES], index).estimate.loss.backward()
        with pytest.raises(
            InputError, match="pool is for a plain network; this encoder has its own, so leave out pool"
        ):
            method.create(ModuleEncoder(network, 8, pool="mean"), images=9, pool="mean", **settings)

"""Networks of timm by their names, with timm's own preprocessing."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

import annulus
from annulus.device.rng import first_weights
from annulus.encoders import by_name
from annulus.encoders.timm_encoder import TimmEncoder
from annulus.errors import InputError

timm = pytest.importorskip("timm")
NAME = "timm/test_resnet"


@pytest.fixture
def photographs():
    """Smooth images in bytes, like photographs."""
    coarse = torch.rand(3, 3, 9, 12, generator=torch.Generator().manual_seed(0))
    return (255 * F.interpolate(coarse, size=(190, 240), mode="bicubic").clamp(0, 1)).byte()


def weights(encoder):
    return torch.cat([weight.detach().flatten() for weight in encoder.parameters()])


@pytest.mark.usefixtures("untouched_global_randomness")
def test_a_method_by_name_trains_timm_s_network_of_its_seed_and_a_linear_head():
    index, views = torch.arange(4), torch.rand(4, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    method, again, other = (
        annulus.MoCo.create(NAME, images=9, dim=16, queue=8, shuffle_groups=2, seed=seed) for seed in (0, 0, 1)
    )
    assert torch.equal(weights(method.encoder), weights(again.encoder))
    assert not torch.equal(weights(method.encoder), weights(other.encoder))
    with first_weights(2):
        plain = timm.create_model("test_resnet", num_classes=0).train()
    plain.load_state_dict(method.encoder.network.state_dict())
    config = timm.data.resolve_model_data_config(plain)
    normalised = (views - torch.tensor(config["mean"]).view(3, 1, 1)) / torch.tensor(config["std"]).view(3, 1, 1)
    pooled = plain(normalised)
    torch.testing.assert_close(method.encoder.pooled(views), pooled)
    torch.testing.assert_close(method.encoder(views), F.normalize(method.encoder.head(pooled), dim=1))
    step = method.loss([views, views], index)
    step.estimate.loss.backward()
    method.after_step(index, step)
    assert (step.queries.shape, step.pooled[0].shape) == ((4, 16), (4, plain.head_hidden_size))


def test_bytes_are_seen_as_timm_s_own_evaluation_shows_them(photographs):
    """timm transforms Pillow's images; a tensor's resampling differs by at most one level."""
    encoder = TimmEncoder(NAME, dim=None, pretrained=False)
    config = timm.data.resolve_model_data_config(encoder.network)
    transform = timm.data.create_transform(**config, is_training=False)
    images = [Image.fromarray(np.ascontiguousarray(each.permute(1, 2, 0).numpy())) for each in photographs]
    expected = torch.stack([transform(image) for image in images])
    view = encoder.view(photographs)
    assert view.shape == (3, *config["input_size"])
    deviation = torch.tensor(config["std"]).view(3, 1, 1)
    assert ((encoder.prepared(view) - expected) * deviation).abs().max() < 1.01 / 255
    features = annulus.extract_features(encoder, photographs).layer("pooled")
    with torch.no_grad():
        torch.testing.assert_close(features, encoder.network.eval()(encoder.prepared(view)))


def test_features_by_name_are_of_timm_s_weights(photographs, monkeypatch, tmp_path):
    saved, make = timm.create_model("test_resnet"), timm.create_model
    torch.save(saved.state_dict(), tmp_path / "weights.pth")

    def offline(name, **settings):
        return make(
            name, pretrained_cfg_overlay={"file": str(tmp_path / "weights.pth"), "custom_load": False}, **settings
        )

    monkeypatch.setattr(timm, "create_model", offline)
    features = annulus.extract_features("timm/test_resnet.r160_in1k", photographs, layers=["pooled", "embedding"])
    encoder = TimmEncoder(NAME, dim=None, pretrained=False)
    encoder.network.load_state_dict({k: v for k, v in saved.state_dict().items() if not k.startswith("fc.")})
    with torch.no_grad():
        pooled = encoder.eval().pooled(encoder.view(photographs))
    torch.testing.assert_close(features.layer("pooled"), pooled)
    torch.testing.assert_close(features.layer("embedding"), F.normalize(pooled, dim=1))


def test_names_that_timm_has_not_are_sentences(monkeypatch):
    for name, message in (
        (
            "resnet18",
            "encoder 'resnet18': give a torch.nn.Module, or a name of timm or torchvision, such as 'timm/resnet18'",
        ),
        ("timm/resnet19", "timm has no model 'resnet19'; timm.list_models.. names them; did you mean 'resnet18'?"),
    ):
        with pytest.raises(InputError, match=message):
            annulus.SimCLR.create(name, images=9, dim=4)
    with pytest.raises(InputError, match=r"timm/test_resnet\.other cannot be made by timm: Invalid pretrained tag"):
        annulus.extract_features("timm/test_resnet.other", torch.zeros(1, 3, 8, 8))
    monkeypatch.setattr(by_name, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="encoder 'timm/resnet18' needs timm; pip install timm"):
        annulus.SimCLR.create("timm/resnet18", images=9, dim=4)


def test_a_network_of_one_size_names_it():
    method = annulus.SimCLR.create("timm/test_vit", images=9, dim=4)
    with pytest.raises(
        InputError, match="images are 32 x 32 pixels, and timm/test_vit takes 160 x 160; give such views"
    ):
        method.encoder(torch.rand(2, 3, 32, 32))


@pytest.mark.parametrize("method", [annulus.methods.PIRL, annulus.methods.MoCoJigsaw])
def test_a_jigsaw_by_name_learns_with_a_head_on_the_network_s_features(method):
    settings = {"queue": 8, "shuffle_groups": 1} if method is annulus.methods.MoCoJigsaw else {}
    learner = method.create(NAME, images=9, dim=16, **settings)
    (head,) = learner.jigsaw.heads
    assert head.each.in_features == learner.encoder.network.head_hidden_size
    index = torch.arange(4)
    views = [torch.rand(4, 3, 96, 96, generator=torch.Generator().manual_seed(seed)) for seed in range(3)]
    step = learner.loss(views, index)
    step.estimate.loss.backward()
    assert head.each.weight.grad.abs().sum() > 0
    learner.after_step(index, step)

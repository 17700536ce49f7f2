"""Encoders of any network as files: saved, built again by a name or an import path, loaded bit for bit."""

import json
import sys

import pytest
import torch
import torchvision
from torch import nn

import annulus
from annulus.encoders import layers
from annulus.encoders.encoder import build_encoder
from annulus.encoders.rebuilt import ModuleConfig
from annulus.errors import InputError

IMAGES = torch.rand(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))


def perturb(encoder: nn.Module) -> nn.Module:
    """Adds noise to the weights and statistics, and sets evaluation mode."""
    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in [*encoder.parameters(), *encoder.buffers()]:
            if tensor.is_floating_point() and not any(tensor is getattr(encoder, n, None) for n in ("mean", "std")):
                tensor.add_(0.1 * torch.rand(tensor.shape, generator=random))
    return encoder.eval()


def loaded_as_saved(encoder, folder, network=None, trust=False):
    perturb(encoder)
    annulus.save_encoder(encoder, folder / "encoder.safetensors", network)
    loaded = annulus.load_encoder(folder / "encoder.safetensors", trust=trust)
    assert not loaded.training
    assert not any(weight.requires_grad for weight in loaded.parameters())
    with torch.no_grad():
        assert torch.equal(loaded.pooled(IMAGES), encoder.pooled(IMAGES))
        assert torch.equal(loaded(IMAGES), encoder(IMAGES))
    annulus.save_encoder(loaded, folder / "again.safetensors")
    for ending in ("safetensors", "json"):
        assert (folder / f"again.{ending}").read_bytes() == (folder / f"encoder.{ending}").read_bytes()
    return loaded


HEAD = nn.Sequential(nn.Linear(512, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 8))


@pytest.mark.usefixtures("untouched_global_randomness")
@pytest.mark.parametrize("name", ["timm/test_resnet", "timm/test_vit.r160_in1k", "torchvision/resnet18"])
def test_an_encoder_by_name_comes_back_with_its_preprocessing(name, tmp_path, monkeypatch):
    if name.startswith("timm"):
        pytest.importorskip("timm")
    method = annulus.SimCLR.create(name, images=9, dim=8)
    size = method.encoder.view_size
    monkeypatch.setitem(globals(), "IMAGES", torch.rand(2, 3, size, size, generator=torch.Generator().manual_seed(0)))
    loaded = loaded_as_saved(method.encoder, tmp_path)
    pixels = (255 * torch.rand(2, 3, 190, 240, generator=torch.Generator().manual_seed(0))).byte()
    assert loaded.config == method.encoder.config
    assert torch.equal(loaded.view(pixels), method.encoder.view(pixels))


def test_a_later_library_s_other_normalisation_does_not_change_a_saved_encoder(tmp_path):
    pytest.importorskip("timm")
    encoder = annulus.SimCLR.create("timm/test_resnet", images=9, dim=8).encoder
    annulus.save_encoder(encoder, tmp_path / "encoder.safetensors")
    described = json.loads((tmp_path / "encoder.json").read_text())
    described["preprocessing"]["mean"] = [0.1, 0.2, 0.3]  # the mean of another version of timm
    (tmp_path / "encoder.json").write_text(json.dumps(described))
    loaded = annulus.load_encoder(tmp_path / "encoder.safetensors")
    torch.testing.assert_close(loaded.mean.flatten(), torch.tensor([0.1, 0.2, 0.3]))
    described["preprocessing"]["mean"] = "dark"
    (tmp_path / "encoder.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match=r"preprocessing .* is not that of timm/test_resnet, such as"):
        annulus.load_encoder(tmp_path / "encoder.safetensors")


def test_a_network_of_timm_that_the_user_made_is_known(tmp_path):
    timm = pytest.importorskip("timm")
    network = timm.create_model("test_resnet", num_classes=0)
    loaded = loaded_as_saved(annulus.ModuleEncoder(network, 8, nn.Linear(network.head_hidden_size, 8)), tmp_path)
    assert loaded.name == "timm/test_resnet"
    other = timm.create_model("test_vit", num_classes=0, img_size=32)
    with pytest.raises(InputError, match=r"timm/test_vit builds another network than this encoder's \(network.pos_emb"):
        annulus.save_encoder(annulus.ModuleEncoder(other, 8, nn.Linear(64, 8)), tmp_path / "other.safetensors")


def test_a_network_of_torchvision_is_named_as_it_is_saved(tmp_path):
    network = torchvision.models.resnet18()
    network.fc = nn.Identity()
    encoder = annulus.ModuleEncoder(network, 8, HEAD)
    assert repr(loaded_as_saved(encoder, tmp_path, "torchvision/resnet18").head) == repr(HEAD)
    with pytest.raises(
        InputError, match=r"network None: name what builds this ResNet: save_encoder\(ENCODER, FILE, net"
    ):
        annulus.save_encoder(encoder, tmp_path / "unnamed.safetensors")
    with pytest.raises(InputError, match="torchvision/resnet34 builds another network than this encoder's"):
        annulus.save_encoder(encoder, tmp_path / "other.safetensors", "torchvision/resnet34")
    network.layer4[0].conv1.stride = (1, 1)  # same shapes, other outputs
    with pytest.raises(InputError, match=r"torchvision/resnet18 builds another network .*stride=\(1, 1\)"):
        annulus.save_encoder(encoder, tmp_path / "other.safetensors", "torchvision/resnet18")


def test_networks_of_transformers_bring_their_configuration(tmp_path):
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    residual = library.ResNetConfig(depths=[1, 1], hidden_sizes=[8, 16], embedding_size=8)
    small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    for configuration, pool in ((residual, None), (library.ViTConfig(**small, image_size=64), "first")):
        network = library.AutoModel.from_config(configuration)
        loaded_as_saved(annulus.ModuleEncoder(network, 8, nn.Linear(16, 8), pool), tmp_path)
    described = json.loads((tmp_path / "encoder.json").read_text())
    described["settings"]["auto_map"] = {"AutoModel": "somebody/code--modeling.Model"}
    described["settings"]["model_type"] = "no-such-network"
    (tmp_path / "encoder.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="transformers does not build this network"):
        annulus.load_encoder(tmp_path / "encoder.safetensors")


CODE = """
from pathlib import Path
from torch import nn
import annulus
(Path(__file__).parent / "executed").touch()

class Small(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.append(self[0].__class__(4, 6, 3))

def with_a_head_of_its_own():
    return annulus.ModuleEncoder(Small(), 4, Head(), lambda output: output.amax(dim=(2, 3)))

class Head(nn.Linear):
    def __init__(self):
        super().__init__(6, 4)

number = 3
"""


@pytest.fixture
def own_code(tmp_path, monkeypatch):
    (tmp_path / "nets_of_a_user.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("nets_of_a_user")
    sys.modules.pop("nets_of_a_user")


def test_an_import_path_is_executed_with_trust_alone(own_code, tmp_path):
    encoder = annulus.ModuleEncoder(own_code.Small(), 6, pool="mean")
    loaded_as_saved(encoder, tmp_path, "nets_of_a_user:Small", trust=True)
    assert json.loads((tmp_path / "encoder.json").read_text())["network"] == "nets_of_a_user:Small"
    (tmp_path / "executed").unlink()
    sys.modules.pop("nets_of_a_user")
    with pytest.raises(InputError, match="built by code, nets_of_a_user:Small, and nothing is executed; look at that"):
        annulus.load_encoder(tmp_path / "encoder.safetensors")
    assert not (tmp_path / "executed").exists()
    annulus.load_encoder(tmp_path / "encoder.safetensors", trust=True)
    assert (tmp_path / "executed").exists()


def test_a_function_may_build_the_whole_encoder(own_code, tmp_path):
    encoder = own_code.with_a_head_of_its_own()
    with pytest.raises(
        InputError, match=r"pool is a function, which no file keeps; name a function that builds the wh"
    ):
        annulus.save_encoder(encoder, tmp_path / "e.safetensors", "nets_of_a_user:Small")
    mean = annulus.ModuleEncoder(own_code.Small(), 4, own_code.Head(), "mean")
    with pytest.raises(
        InputError, match=r"the head has a layer Head, and a file describes heads of Sequential, Linear"
    ):
        annulus.save_encoder(mean, tmp_path / "e.safetensors", "nets_of_a_user:Small")
    loaded_as_saved(encoder, tmp_path, "nets_of_a_user:with_a_head_of_its_own", trust=True)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such_module:build", "network 'no_such_module:build' is not built .No module named 'no_such_module'"),
        ("nets_of_a_user:missing", "is not built .module 'nets_of_a_user' has no attribute 'missing'"),
        ("nets_of_a_user:number", "is not built .'int' object is not callable"),
        ("nets_of_a_user:Small.mro", "network 'nets_of_a_user:Small.mro' gives a list; give a function of a torch"),
        ("__main__:build", "a later process has another __main__; move the function into a module"),
        ("resnet18", "network 'resnet18': name what builds this Small: save_encoder"),
    ],
)
def test_paths_that_build_nothing_are_sentences(path, message, own_code, tmp_path):
    with pytest.raises(InputError, match=message):
        annulus.save_encoder(annulus.ModuleEncoder(own_code.Small(), 6, pool="mean"), tmp_path / "e.safetensors", path)


def test_a_layer_that_stands_at_two_places_is_saved(own_code, tmp_path):
    own_code.Shared = lambda: nn.Sequential(*[nn.Conv2d(3, 3, 3)] * 2)
    loaded_as_saved(annulus.ModuleEncoder(own_code.Shared(), 3, pool="mean"), tmp_path, "nets_of_a_user:Shared", True)


def test_an_encoder_of_annulus_takes_no_name(tmp_path):
    file = tmp_path / "e.safetensors"
    config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    with pytest.raises(InputError, match=r"network is for an annulus.ModuleEncoder; leave it out"):
        annulus.save_encoder(build_encoder(config, seed=0), file, "timm/resnet18")


VALID = {"network": "a:b", "settings": None, "preprocessing": None, "dim": 8, "head": None, "pool": None}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"network": "os.system('x')"}, "expected LIBRARY/MODEL or MODULE:FUNCTION"),
        ({"network": ["a:b"]}, "expected LIBRARY/MODEL or MODULE:FUNCTION"),
        ({"network": "hub/x"}, "expected LIBRARY/MODEL or MODULE:FUNCTION"),
        ({"dim": True}, "dim is True, expected null or a whole number"),
        ({"pool": "max"}, "pool is 'max', expected null, mean or first"),
        ({"settings": []}, "settings is .*, expected null or an object"),
        ({"head": {"layer": "Conv2d"}}, "head is .*, expected layers of Linear"),
        ({"head": {"layers": "x"}}, "head is .*, expected layers of Linear"),
        ({"head": {"layer": "Dropout", "p": 7}}, "head has a Dropout that torch does not build"),
        ({"head": {"layer": "Linear", "in_features": "a", "out_features": 1, "bias": True}}, "head has a Linear that"),
        ({"more": 1}, "it holds .*more.*, expected dim, head, network"),
    ],
)
def test_a_damaged_configuration_is_refused(change, message):
    assert ModuleConfig.checked(VALID) == ModuleConfig(**VALID)
    with pytest.raises(ValueError, match=message):
        ModuleConfig.checked(VALID | change)


@pytest.mark.parametrize(
    "layer",
    [
        nn.Linear(3, 4, bias=False),
        nn.BatchNorm1d(4, eps=1e-3, momentum=None, affine=False),
        nn.LayerNorm(4, bias=False),
        nn.Dropout(0.25),
        nn.Sequential(nn.ReLU(), nn.Sequential(nn.GELU("tanh"), nn.SiLU()), nn.Identity()),
    ],
    ids=lambda layer: type(layer).__name__,
)
def test_a_head_is_built_again_as_it_was(layer):
    again = layers.build(json.loads(json.dumps(layers.describe(layer))))
    assert repr(again) == repr(layer)
    assert again.state_dict().keys() == layer.state_dict().keys()

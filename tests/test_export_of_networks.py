"""Encoders of any network for other programs: the Hub's folder and repository, ONNX, TorchScript, their own library."""

import json
import warnings

import pytest
import torch
import torchvision
from test_detection_levels import trained
from test_encoders_saved import IMAGES, perturb
from test_export_hub import CIFAR, LAB, front_matter
from torch import nn

import annulus
from annulus.errors import InputError
from annulus.export.card import About
from annulus.export.command import main
from annulus.export.folder import write_hub
from annulus.export.licences import hub_licence
from annulus.export.onnx import write_onnx
from annulus.export.torchscript import write_torchscript


def torchvision_encoder():
    network = torchvision.models.resnet18()
    network.fc = nn.Identity()
    return perturb(annulus.ModuleEncoder(network, 8, nn.Linear(512, 8)))


def test_the_hub_s_folder_has_the_encoder_and_a_card_that_names_its_network(tmp_path):
    encoder = torchvision_encoder()
    write_hub(encoder, tmp_path, About(licence="MIT"), network="torchvision/resnet18")
    with torch.no_grad():
        assert torch.equal(annulus.load_encoder(tmp_path)(IMAGES), encoder(IMAGES))
    front, text = front_matter((tmp_path / "README.md").read_text())
    assert (front["license"], front["library_name"]) == ("mit", "annulus")
    for words in (
        "# torchvision/resnet18, pretrained without labels by contrast",
        "Embeddings of 8 numbers on the unit sphere",
        "annulus.load_encoder(FOLDER)  # this folder, downloaded",
        "normalised as its network needs them",
    ):
        assert words in text


def test_a_card_says_where_code_is_executed(tmp_path, monkeypatch):
    (tmp_path / "nets_of_a_card.py").write_text("from torch import nn\ndef build(): return nn.Conv2d(3, 4, 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = annulus.ModuleEncoder(nn.Conv2d(3, 4, 3), 4, pool="mean")
    write_hub(encoder, tmp_path / "hub", network="nets_of_a_card:build")
    text = (tmp_path / "hub/README.md").read_text()
    assert "annulus.load_encoder(FOLDER, trust=True)  # executes nets_of_a_card:build" in text


def test_licences_are_the_hub_s_whatever_their_case():
    assert [hub_licence(name) for name in ("Apache-2.0", " CC-BY-4.0", "openrail++", "")] == [
        "apache-2.0",
        "cc-by-4.0",
        "openrail++",
        "",
    ]
    with pytest.raises(InputError, match=r"licence 'apache2': the Hub has no such name; did you mean 'apache-2\.0'\?"):
        hub_licence("apache2")


NETWORKS = {
    "annulus": lambda: trained(architecture="convnet"),
    "resnet": lambda: trained(**CIFAR),
    "vit": lambda: trained(architecture="vit_small", stem="patch8"),
    "a name": lambda: annulus.SimCLR.create("timm/test_resnet", images=9, dim=8).encoder.eval(),
    "a map": lambda: annulus.ModuleEncoder(nn.Conv2d(3, 4, 3), 4, pool="mean"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_gives_the_pooled_features_of_any_batch(name, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    if name == "a name":
        pytest.importorskip("timm")
    encoder, size = NETWORKS[name](), 16 if name == "vit" else 32
    write_onnx(encoder, tmp_path / "encoder.onnx", size)
    assert [path.name for path in tmp_path.iterdir()] == ["encoder.onnx"]
    session = runtime.InferenceSession(tmp_path / "encoder.onnx")
    for batch in (1, 2, 5):
        images = torch.rand(batch, 3, size, size, generator=torch.Generator().manual_seed(batch))
        (pooled,) = session.run(["pooled"], {"images": images.numpy()})
        with torch.no_grad():
            torch.testing.assert_close(torch.from_numpy(pooled), encoder.pooled(images), atol=1e-5, rtol=1e-5)


class Counting(nn.Module):
    def forward(self, images):
        return images.mean(dim=(2, 3)) * len(images)


class Eigenvalues(nn.Module):  # ONNX has no such operator
    def forward(self, images):
        return torch.linalg.eigvals(images).abs().mean(dim=2)


@pytest.mark.slow
def test_what_onnx_cannot_hold_is_a_sentence(tmp_path):
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    file = tmp_path / "encoder.onnx"
    with pytest.raises(InputError, match=r"computes with the number of images of a batch, .* use images.shape\[0\]"):
        write_onnx(annulus.ModuleEncoder(Counting()), file, 8)
    with pytest.raises(InputError, match=r"torch cannot export this network to ONNX \(\w+: .*export to torchscript or"):
        write_onnx(annulus.ModuleEncoder(Eigenvalues()), file, 8)
    with pytest.raises(InputError, match=r"two networks, .*export an encoder trained with split: none"):
        write_onnx(trained(architecture="alexnet", **LAB), file)
    with pytest.raises(InputError, match=r"this network has no size of its own; name the side of its images, su"):
        write_onnx(annulus.ModuleEncoder(nn.Flatten()), file)
    with pytest.raises(InputError, match=r"encoder\.pt ends in '\.pt'; for onnx name a file that ends in \.onnx"):
        write_onnx(trained(), tmp_path / "encoder.pt")
    assert not [*tmp_path.iterdir()]


def test_torchscript_gives_the_pooled_features_of_a_network_of_the_user(tmp_path):
    encoder = torchvision_encoder()
    write_torchscript(encoder, tmp_path / "encoder.pt", 64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = torch.jit.load(tmp_path / "encoder.pt")
    for images in (IMAGES, IMAGES[:1], torch.rand(5, 3, 40, 72, generator=torch.Generator().manual_seed(0))):
        with torch.no_grad():
            torch.testing.assert_close(network(images), encoder.pooled(images), atol=1e-5, rtol=1e-5)


def load_printed(command, capsys):
    """Runs the command, and returns the network that the printed lines load."""
    main(command)
    names = {}
    exec(capsys.readouterr().out, names)
    return names["network"].eval()


def test_the_command_takes_a_network_back_to_its_own_library(tmp_path, capsys):
    timm = pytest.importorskip("timm")
    network = timm.create_model("test_resnet", num_classes=0)
    timm_encoder = perturb(annulus.ModuleEncoder(network, 8, nn.Linear(network.head_hidden_size, 8)))
    encoders = ("timm", timm_encoder, None), ("torchvision", torchvision_encoder(), "torchvision/resnet18")
    for library, encoder, name in encoders:
        source = tmp_path / f"{library}.safetensors"
        annulus.save_encoder(encoder, source, name)
        loaded = load_printed([str(source), "--to", library, str(tmp_path / f"own.{library}.safetensors")], capsys)
        with torch.no_grad():
            assert torch.equal(loaded(IMAGES), encoder.pooled(IMAGES))
    with pytest.raises(InputError, match=r"the network is torchvision/resnet18, which timm does not build; export to"):
        main([str(tmp_path / "torchvision.safetensors"), "--to", "timm", str(tmp_path / "x.safetensors")])


def test_the_command_takes_a_network_back_to_transformers(tmp_path, capsys):
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    network = library.AutoModel.from_config(library.ResNetConfig(depths=[1], hidden_sizes=[8], embedding_size=8))
    encoder = perturb(annulus.ModuleEncoder(network, 8))
    annulus.save_encoder(encoder, tmp_path / "e.safetensors")
    loaded = load_printed([str(tmp_path / "e.safetensors"), "--to", "transformers", str(tmp_path / "own")], capsys)
    with torch.no_grad():
        assert torch.equal(loaded(IMAGES).pooler_output, encoder.network(IMAGES).pooler_output)


def test_the_command_executes_code_with_trust_alone(tmp_path, monkeypatch, capsys):
    (tmp_path / "nets_of_a_command.py").write_text("from torch import nn\ndef build(): return nn.Conv2d(3, 4, 3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    encoder = annulus.ModuleEncoder(nn.Conv2d(3, 4, 3), 4, pool="mean")
    source = str(tmp_path / "e.safetensors")
    annulus.save_encoder(encoder, source, "nets_of_a_command:build")
    with pytest.raises(InputError, match="built by code, nets_of_a_command:build, and nothing is executed"):
        main([source, "--to", "torchscript"])
    main([source, "--to", "torchscript", "--view-size", "16", "--trust"])
    assert (tmp_path / "e.torchscript.pt").exists()


def test_the_command_s_processor_knows_the_side_of_the_prepared_images(tmp_path):
    source = tmp_path / "e.safetensors"
    annulus.save_encoder(trained(), source)
    sides, options = {}, {"views": [], "prepared": [], "named": ["--image-size", "48"]}
    for name, known in (("views", {}), ("prepared", {"image_size": 40}), ("named", {"image_size": 40})):
        words = [str(source), "--to", "transformers", str(tmp_path / name), *options[name]]
        main(words, lambda path, licence, known=known: About(data=known))
        sides[name] = json.loads((tmp_path / name / "preprocessor_config.json").read_text())["size"]["shortest_edge"]
    assert sides == {"views": trained().config.view_size, "prepared": 40, "named": 48}

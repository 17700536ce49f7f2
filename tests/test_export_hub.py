"""Encoders for other programs: the Hub's folder with its card, transformers' folder, TorchScript."""

import hashlib
import json
import shutil
import subprocess
import warnings
from dataclasses import replace

import pytest
import torch
import warm
import yaml
from by_path import ROOT
from PIL import Image
from safetensors import safe_open
from stated import stated_text
from test_detection_levels import CONFIG, trained

import annulus
from annulus.datasets.decode import decode
from annulus.encoders.encoder import build_encoder
from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.export import torchscript, transformers
from annulus.export.card import About, model_card
from annulus.export.command import main
from annulus.export.folder import write_hub
from annulus.views.recipe import center_view
from annulus.views.splits import ColourSplit
from annulus_lab.export import about_main_line

LAB = {"split": ColourSplit("lab"), "mean": (50.0, 3.0, -8.0), "std": (22.0, 11.0, 17.0)}
CIFAR = {"architecture": "resnet18", "stem": "cifar"}


def front_matter(card):
    _, front, text = card.split("---\n", 2)
    return yaml.safe_load(front), text


@pytest.mark.parametrize(
    "changes",
    [
        {"architecture": "convnet"},
        CIFAR,
        {"architecture": "alexnet"} | LAB,
        {"architecture": "vit_small", "stem": "patch8"},
    ],
    ids=["convnet", "resnet", "split", "vit"],
)
def test_load_encoder_reads_the_folder_bit_for_bit(changes, generator, tmp_path):
    encoder = trained(**changes)
    write_hub(encoder, tmp_path / "hub")
    loaded, images = annulus.load_encoder(str(tmp_path / "hub")), torch.rand(3, 3, 16, 16, generator=generator)
    assert loaded.config == encoder.config
    with torch.no_grad():
        assert torch.equal(loaded(images), encoder(images))
        assert torch.equal(loaded.pooled(images), encoder.pooled(images))
    assert sorted(path.name for path in (tmp_path / "hub").iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]
    with safe_open(tmp_path / "hub/model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}


def test_huggingface_hub_reads_the_card_and_would_upload_the_three_files(tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    write_hub(trained(), tmp_path, About(dataset="cifar10", licence="mit"))
    data = hub.ModelCard.load(tmp_path / "README.md").data
    assert (data.library_name, data.license, data.pipeline_tag) == ("annulus", "mit", "image-feature-extraction")


def test_a_card_says_not_stated_of_what_is_not_known():
    front, text = front_matter(model_card(CONFIG, About()))
    assert "license" not in front
    for words in (
        "data set | not stated",
        "## Setting\n\nnot stated",
        "## Results\n\nnot stated",
        "weights: not stated",
    ):
        assert words in text
    assert "This encoder: not stated. Encoders that the intervals are over: not stated." in text


def test_a_card_has_data_setting_seeds_intervals_and_licence():
    about = About(
        dataset="shapes",
        data={"train_images": 3600},
        setting={"sampler": "ring"},
        seed=1,
        seeds=(0, 1),
        results={"knn_top1_percent": (59.37, 1.15, 60.84), "alignment": (0.5, None, None)},
        licence="cc-by-4.0",
    )
    front, text = front_matter(model_card(CONFIG, about))
    assert front["license"] == "cc-by-4.0"
    for words in (
        "| data set | shapes |\n| train images | 3600 |",
        "| `sampler` | `ring` |",
        "This encoder: 1. Encoders that the intervals are over: 0, 1.",
        "| `knn_top1_percent` | 59.37 ± 1.15 | 60.84 |",
        "| `alignment` | 0.5 |  |",
        "Of the weights: cc-by-4.0.",
    ):
        assert words in text


# Seeds of the stated params.yaml, independent of this checkout's seeds.
SUMMARY = """number,mean,interval,seed50,seed51,seed52,seed53,seed54
knn_top1_percent,59.37,1.15,58.15,61.25,59.06,59.61,58.78
"""


def test_the_main_line_s_checkout_fills_the_card_unless_its_metrics_are_of_other_code(tmp_path, monkeypatch):
    (tmp_path / "data/main/encoders").mkdir(parents=True)
    (tmp_path / "metrics/main").mkdir(parents=True)
    shutil.copy(ROOT / "metrics/main/prepare.json", tmp_path / "metrics/main/prepare.json")
    (tmp_path / "metrics/summary.csv").write_text(SUMMARY, encoding="utf-8")
    params = stated_text().replace("dataset: shapes", "dataset: photos", 1)
    (tmp_path / "params.yaml").write_text(params, encoding="utf-8")
    weights = tmp_path / "data/main/encoders/51.safetensors"
    save_encoder(trained(), weights)
    monkeypatch.setattr("annulus_lab.export.stale", lambda files: [])

    def lock() -> None:
        files = sorted(weights.parent.iterdir())
        listed = [{"md5": hashlib.md5(file.read_bytes()).hexdigest(), "relpath": file.name} for file in files]
        digest = hashlib.md5(json.dumps(listed).encode()).hexdigest()
        outs = [{"path": "data/main/encoders", "md5": f"{digest}.dir"}]
        (tmp_path / "dvc.lock").write_text(json.dumps({"stages": {"pretrain": {"outs": outs}}}))

    lock()
    stored = weights.rename(tmp_path / "stored")  # a cache of links
    weights.symlink_to(stored)
    about = about_main_line(weights, "mit")
    assert (about.dataset, about.seed, about.seeds, about.licence) == ("photos", 51, (50, 51, 52, 53, 54), "mit")
    assert "datasets.photos.image_size" in about.setting
    assert "datasets.photos.root" not in about.setting, "the name of a folder may be a person's"
    assert about.setting["samplers.ring.outer"] == 0.1
    assert not any(key.startswith(("samplers.cave", "scales.paper")) for key in about.setting)
    assert list(about.results["knn_top1_percent"]) == [59.37, 1.15, 61.25], "its own number is that of its seed"
    assert about.data.keys() <= json.loads((ROOT / "metrics/main/prepare.json").read_text()).keys()
    stored.write_bytes(stored.read_bytes() + b" ")
    assert about_main_line(weights) == About(seed=51), "of another branch"
    lock()
    assert about_main_line(weights).dataset == "photos"
    monkeypatch.setattr("annulus_lab.export.stale", lambda files: ["metrics were made with other code"])
    assert about_main_line(weights) == About(seed=51)
    (tmp_path / "params.yaml").write_text(params.replace("sampler: ring", "sampler: rign", 1), encoding="utf-8")
    assert about_main_line(weights) == About(seed=51), "parameters of no run may name what there is not"
    for other in ("encoder.safetensors", "data/main/others/1.safetensors", "data/main/encoders/best.safetensors"):
        assert about_main_line(tmp_path / other) == About()


@pytest.mark.parametrize(
    "changes",
    [{"architecture": "convnet"}, {"architecture": "alexnet"}, CIFAR, {"architecture": "vit_small", "stem": "patch8"}],
    ids=["convnet", "alexnet", "resnet", "vit"],
)
def test_torchscript_gives_the_pooled_features_of_any_batch(changes, generator, tmp_path):
    encoder, file = trained(**changes), tmp_path / "encoder.pt"
    torchscript.write_torchscript(encoder, file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = torch.jit.load(file)
    for batch, size in ((1, 16), (5, 16), *(() if encoder.config.patch else ((3, 24),))):
        images = torch.rand(batch, 3, size, size, generator=generator)
        with torch.no_grad():
            torch.testing.assert_close(network(images), encoder.pooled(images), atol=1e-5, rtol=1e-5)


def test_torchscript_needs_no_annulus(tmp_path):
    torchscript.write_torchscript(trained(architecture="convnet"), tmp_path / "encoder.pt")
    code = (
        "import sys, torch; network = torch.jit.load(sys.argv[1])\n"
        "print(tuple(network(torch.rand(2, 3, 20, 20)).shape), 'annulus' in sys.modules)"
    )
    command = [warm.folder() / "python", "-c", code, "encoder.pt"]
    done = subprocess.run(command, cwd=tmp_path, env={}, capture_output=True, text=True)
    assert done.stdout.strip() == "(2, 128) False", done.stderr


@pytest.mark.parametrize("architecture", ["resnet18", "resnet50"])
def test_transformers_loads_the_folder_and_gives_the_same_features(architecture, generator, tmp_path):
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    encoder = trained(architecture=architecture)
    transformers.write_transformers(encoder, tmp_path)
    network, report = library.AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    images = torch.rand(2, 3, 64, 64, generator=generator)
    with torch.no_grad():
        actual = network.eval()((images - encoder.mean) / encoder.std).pooler_output.flatten(1)
        torch.testing.assert_close(actual, encoder.pooled(images), atol=1e-5, rtol=1e-5)


def test_transformers_processor_shows_the_pixels_that_probes_see(tmp_path):
    """Photographs are smooth; resampled bytes and floats differ by at most two levels."""
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    encoder = trained()
    size = encoder.config.view_size
    transformers.write_transformers(encoder, tmp_path / "folder", image_size=size + 8)
    processor = library.AutoImageProcessor.from_pretrained(tmp_path / "folder")
    for height, width in ((180, 240), (400, 160)):  # their long sides need no rounding
        coarse = torch.rand(1, 3, 9, 12, generator=torch.Generator().manual_seed(0))
        smooth = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic").clamp(0, 1)
        pixels = (255 * smooth[0]).byte()
        Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy()).save(tmp_path / "image.png")
        stored = torch.from_numpy(decode(tmp_path / "image.png", size + 8).copy()).permute(2, 0, 1)[None]
        expected = center_view(stored, size)[0]
        actual = processor(pixels, return_tensors="pt")["pixel_values"][0]
        assert actual.shape == expected.shape
        assert (actual * encoder.std + encoder.mean - expected).abs().max() < 2.01 / 255


@pytest.mark.parametrize("architecture", transformers.DEPTHS)
def test_transformers_is_told_the_sizes_of_the_network_and_of_its_input(architecture):
    with torch.device("meta"):
        encoder = build_encoder(replace(CONFIG, architecture=architecture), seed=0)
    shapes = {name: tensor.shape for name, tensor in encoder.backbone.state_dict().items()}
    blocks = [{name.split(".")[1] for name in shapes if name.startswith(f"layer{stage}.")} for stage in range(1, 5)]
    last = "conv2" if architecture in ("resnet18", "resnet34") else "conv3"
    config = transformers.network_config(encoder.config)
    assert config["depths"] == [len(names) for names in blocks]
    assert config["hidden_sizes"] == [shapes[f"layer{stage}.0.{last}.weight"][0] for stage in range(1, 5)]
    assert config["embedding_size"] == shapes["conv1.weight"][0]
    assert config["layer_type"] == ("basic" if last == "conv2" else "bottleneck")
    config = transformers.processor_config(encoder.config, image_size=40)
    assert (config["image_mean"], config["image_std"]) == (list(CONFIG.mean), list(CONFIG.std))
    assert (config["rescale_factor"], config["size"]) == (1 / 255, {"shortest_edge": 40})
    assert config["crop_size"] == {"height": CONFIG.view_size, "width": CONFIG.view_size}
    assert config["resample"] == Image.Resampling.BILINEAR


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"architecture": "convnet"}, "transformers cannot build convnet of annulus; export one of resnet18, resnet34"),
        (CIFAR, "cifar stem, a 3 x 3 convolution without pooling, which transformers cannot build"),
        ({"architecture": "resnet18"} | LAB, "two networks, each of a part of the image"),
    ],
)
def test_what_transformers_cannot_build_is_refused(changes, sentence, tmp_path):
    with pytest.raises(InputError, match=sentence):
        transformers.write_transformers(trained(**changes), tmp_path)


def test_torchscript_refuses_two_networks_and_another_ending(tmp_path):
    with pytest.raises(InputError, match=r"two networks, .*export an encoder trained with split: none"):
        torchscript.write_torchscript(trained(architecture="alexnet", **LAB), tmp_path / "encoder.pt")
    with pytest.raises(InputError, match=r"ends in '\.onnx'; for torchscript name a file that ends in \.pt"):
        torchscript.write_torchscript(trained(architecture="convnet"), tmp_path / "encoder.onnx")


@pytest.mark.parametrize(("library", "out"), [("hub", "hub"), ("transformers", "tf"), ("torchscript", "encoder.pt")])
def test_the_command_writes_each_and_prints_lines_that_load_it(library, out, tmp_path, capsys):
    if library == "transformers":
        pytest.importorskip("transformers", reason="transformers is not installed")
    source = tmp_path / "encoder.safetensors"
    save_encoder(trained(), source)
    main([str(source), "--to", library, str(tmp_path / out)])
    printed = capsys.readouterr().out
    assert printed.startswith(f"# {tmp_path / out}\n")
    lines = [line for line in printed.splitlines() if "images, return" not in line]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("\n".join(lines), {})


def test_the_hub_s_folder_lies_beside_the_encoder_and_has_the_licence_that_is_given(tmp_path):
    source = tmp_path / "encoder.safetensors"
    save_encoder(trained(), source)
    main([str(source), "--to", "hub", str(tmp_path / "licensed"), "--license", "mit"])
    assert front_matter((tmp_path / "licensed/README.md").read_text())[0]["license"] == "mit"
    main([str(source), "--to", "hub"])
    assert (tmp_path / "encoder.hub/config.json").exists()


def test_an_export_never_replaces_the_encoder_that_it_is_of(tmp_path):
    source, folder = tmp_path / "encoder.safetensors", tmp_path / "folder"
    save_encoder(trained(), source)
    write_hub(trained(), folder)
    for encoder, library, out in (
        (source, "timm", source),
        (folder, "transformers", folder),
        (folder / "model.safetensors", "torchvision", folder / "model.safetensors"),
    ):
        before = [file.read_bytes() for file in (source, folder / "model.safetensors", folder / "config.json")]
        (folder / "model.json").write_bytes((folder / "config.json").read_bytes())
        with pytest.raises(InputError, match="the export would overwrite the encoder itself; name another"):
            main([str(encoder), "--to", library, str(out)])
        assert before == [file.read_bytes() for file in (source, folder / "model.safetensors", folder / "config.json")]


@pytest.mark.parametrize("source", ["/", "..", "n" * 5000])
@pytest.mark.parametrize("library", ["hub", "timm"])
def test_a_source_that_is_no_encoder_is_one_sentence(source, library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="or its JSON is missing or not an encoder of annulus"):
        main([source, "--to", library])


def test_a_folder_that_is_no_encoder_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"model\.safetensors or its JSON is missing or not an encoder"):
        annulus.load_encoder(tmp_path)

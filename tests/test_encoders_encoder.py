"""Encoders: shapes, torchvision's network inside, colour spaces, reproducible weights, files that survive mistakes."""

import inspect
import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torchvision import models

from annulus.device.rng import first_weights
from annulus.encoders import resnet
from annulus.encoders.encoder import Encoder, EncoderConfig, SplitEncoder, build_encoder
from annulus.encoders.saved import load_encoder, save_encoder
from annulus.errors import InputError
from annulus.views.splits import ColourSplit, FrequencySplit

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
SMALL = EncoderConfig("alexnet", "cifar", "linear", embedding_dim=16, view_size=16, split=None, mean=MEAN, std=STD)
LAB_MEAN, LAB_STD = (50.0, 3.0, -8.0), (22.0, 11.0, 17.0)
LAB = replace(SMALL, split=ColourSplit("lab"), mean=LAB_MEAN, std=LAB_STD)


@pytest.fixture
def images(generator):
    return torch.rand(3, 3, 16, 16, generator=generator)


def moved(config, images):
    """An encoder after one training batch, with changed batch statistics."""
    encoder = build_encoder(config, seed=0)
    with torch.no_grad():
        encoder.train()(images)
    return encoder.eval()


def without_values(**changes):
    """An encoder on the meta device: shapes without values."""
    with torch.device("meta"):
        config = replace(SMALL, **changes)
        return Encoder(config) if config.split is None else SplitEncoder(config)


def assert_equal(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0)


# --- networks -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("architecture", "stem", "width", "sides"),
    [
        # Width; sides of the map for views of 32 and 96 pixels. The imagenet stem divides a view's side by 32 (AlexNet
        # by 16, the convnet by 8), the cifar stem by 8 (these two by 4). A transformer's map has a place per patch.
        ("resnet18", "imagenet", 512, (1, 3)),
        ("resnet50_x4", "cifar", 8192, (4, 12)),
        ("vit_small", "patch16", 384, (2, 6)),
        ("vit_small", "patch4", 384, (8, 24)),
        ("alexnet", "imagenet", 128, (2, 6)),
        ("alexnet", "cifar", 128, (8, 24)),
        ("convnet", "imagenet", 128, (4, 12)),
        ("convnet", "cifar", 128, (8, 24)),
    ],
)
def test_shapes_for_every_backbone_and_stem(architecture, stem, width, sides):
    for views, side in zip((32, 96), sides, strict=True):
        encoder = without_values(architecture=architecture, stem=stem, view_size=views)
        maps, pooled = encoder.map_and_pooled(torch.empty(2, 3, views, views, device="meta"))
        shapes = (2, width, side, side), (2, width), (2, 16)
        assert (maps.shape, pooled.shape, encoder.embed(pooled).shape) == shapes


def test_the_backbone_is_torchvision_s_network_on_normalised_images(generator):
    images = torch.rand(4, 3, 64, 64, generator=generator)
    encoder = build_encoder(replace(SMALL, architecture="resnet18", stem="imagenet"), seed=0)
    with torch.device("meta"):
        theirs = models.resnet18(weights=None)
    theirs.fc = torch.nn.Identity()
    copied = {name: tensor.clone() for name, tensor in encoder.backbone.state_dict().items()}
    theirs.load_state_dict(copied, assign=True)
    normalised = torch.stack([(images[:, channel] - MEAN[channel]) / STD[channel] for channel in range(3)], dim=1)
    for training in (True, False):  # with the batch's statistics, then with the updated running statistics
        with torch.no_grad():
            actual, expected = encoder.train(training).pooled(images), theirs.train(training)(normalised)
        torch.testing.assert_close(actual, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("architecture", "split", "millions"),
    [  # arXiv:2005.10243, Table 14; CMC has two networks
        ("resnet50", None, 24),
        ("resnet50_x2", None, 94),  # arXiv:2010.01929, Table 7 prints these two as well
        ("resnet50_x4", None, 375),
        ("resnet50_x2", ColourSplit("lab"), 188),
        ("resnet101", None, 43),
        ("resnet152", None, 58),
        ("resnext101_32x8d", None, 87),
        ("resnext152_32x8d", None, 120),
        ("vit_small", None, 22),  # arXiv:2012.12877, Table 1
    ],
)
def test_a_network_has_as_many_weights_as_the_papers_print_and_torchvision_counts(architecture, split, millions):
    stem = "patch16" if architecture == "vit_small" else "imagenet"
    encoder = without_values(architecture=architecture, stem=stem, view_size=224, split=split)
    count = sum(weight.numel() for name, weight in encoder.named_parameters() if "backbone" in name)
    assert round(count / 1e6) == millions
    if split is None and architecture in models.list_models():
        published = models.get_model_weights(architecture).DEFAULT.meta["num_params"]
        assert count == published - 2048 * 1000 - 1000  # without the classifier
    if architecture == "vit_small":
        assert count == 22_050_664 - 384 * 1000 - 1000  # timm's vit_small_patch16_224 without the classifier


@pytest.mark.parametrize(
    ("architecture", "stem", "config"),
    [("resnet50_x2", "imagenet", SMALL), ("resnext152_32x8d", "cifar", SMALL), ("vit_small", "patch8", LAB)],
)
def test_a_gradient_reaches_every_weight(architecture, stem, config, images, generator, monkeypatch):
    for blocks in ("BLOCKS_50", "BLOCKS_152"):
        monkeypatch.setattr(resnet, blocks, [1, 1, 1, 1])  # the same code, a tenth of the time
    encoder = build_encoder(replace(config, architecture=architecture, stem=stem), seed=0).train()
    embedding = encoder(images)
    torch.testing.assert_close(embedding.norm(dim=1), torch.ones(3))
    (embedding * torch.randn(embedding.shape, generator=generator)).sum().backward()
    for name, weight in encoder.named_parameters():
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name
        assert weight.grad.stride() == weight.stride(), f"{name}: the optimiser reads both alike"


def test_a_transformer_s_map_holds_its_patches_in_their_places_and_pooled_is_the_class_token(generator):
    """With blocks that add nothing and without positions, every token is only normalised."""
    encoder = build_encoder(replace(SMALL, architecture="vit_small", stem="patch8", view_size=24), seed=0).eval()
    backbone, images = encoder.backbone, torch.rand(2, 3, 24, 24, generator=generator)
    with torch.no_grad():
        for name, weight in backbone.named_parameters():
            if "out_proj" in name or "mlp.3" in name or "pos_embedding" in name:
                weight.zero_()
        backbone.class_token.uniform_(generator=generator)
        maps, pooled = encoder.map_and_pooled(images)
        for y in range(3):
            for x in range(3):
                patch = images[:, :, 8 * y : 8 * y + 8, 8 * x : 8 * x + 8]
                normalised = (patch - encoder.mean) / encoder.std
                token = normalised.flatten(1) @ backbone.conv_proj.weight.flatten(1).T + backbone.conv_proj.bias
                torch.testing.assert_close(maps[:, :, y, x], F.layer_norm(token, (384,)), atol=1e-4, rtol=1e-4)
        expected = F.layer_norm(backbone.class_token[0, 0], (384,)).expand(2, 384)
        torch.testing.assert_close(pooled, expected, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(encoder(images), encoder.embed(pooled))


def test_images_of_other_types_or_channels_are_refused():
    encoder = build_encoder(SMALL, 0)
    with pytest.raises(InputError, match=r"float32 of shape \(2, 1, 8, 8\); an encoder takes floats .*\(batch, 3, "):
        encoder(torch.zeros(2, 1, 8, 8))
    unchecked = inspect.unwrap(type(encoder).map_and_pooled)  # tests check types first
    with pytest.raises(InputError, match=r"images are uint8 of .* \(bytes: images.float\(\) / 255\)"):
        unchecked(encoder, torch.zeros(2, 3, 8, 8, dtype=torch.uint8))


def test_a_configuration_that_cannot_be_written_leaves_the_files_that_are_there(tmp_path, monkeypatch):
    weights = tmp_path / "encoder.safetensors"
    save_encoder(build_encoder(SMALL, 0), weights)
    other = build_encoder(replace(SMALL), 1)
    object.__setattr__(other.config, "view_size", np.int64(16))
    with pytest.raises(TypeError):
        save_encoder(other, weights)
    assert_equal(load_encoder(weights).state_dict(), build_encoder(SMALL, 0).state_dict())


@pytest.mark.parametrize("name", ["encoder.json", "rate0.5", "encoder"])
def test_weights_are_not_written_where_another_s_configuration_may_go(name, tmp_path):
    with pytest.raises(InputError, match=rf"{name} does not end in \.safetensors; give such a name"):
        save_encoder(build_encoder(SMALL, seed=0), tmp_path / name)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_an_encoder_of_another_precision_is_saved_in_float32_and_loaded(dtype, tmp_path):
    other = build_encoder(SMALL, 0).to(dtype)
    save_encoder(other, tmp_path / "encoder.safetensors")
    loaded = load_encoder(tmp_path / "encoder.safetensors")
    assert_equal(loaded.state_dict(), other.float().state_dict())


def test_a_tilde_is_the_home_folder_as_it_is_for_images(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    save_encoder(build_encoder(SMALL, 0), "~/encoder.safetensors")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder.json", "encoder.safetensors"]
    assert load_encoder("~/encoder.safetensors").config == SMALL


def test_what_no_network_can_be_built_of_is_refused():
    for architecture, stem in (("vit_small", "imagenet"), ("resnet18", "patch16")):
        sentence = rf"{architecture} has no stem {stem}: vit_small takes patch16, patch8 or patch4, the other networks"
        with pytest.raises(InputError, match=sentence):
            replace(SMALL, architecture=architecture, stem=stem)
    with pytest.raises(InputError, match=r"view_size 20 cannot be cut into patches of 16 pixels; .* multiple of 16"):
        replace(SMALL, architecture="vit_small", stem="patch16", view_size=20)
    with pytest.raises(InputError, match=r"for images of 16 x 16 pixels, got 32 x 24; resize"):
        without_values(architecture="vit_small", stem="patch8")(torch.empty(2, 3, 32, 24, device="meta"))


def test_a_convolution_that_torchvision_s_network_lacks_starts_as_he_s_rule_says(monkeypatch):
    monkeypatch.setattr(resnet, "BLOCKS_50", [1, 1, 1, 1])
    two = {"mean": LAB_MEAN[1:], "std": LAB_STD[1:]}  # channels of a split's second part
    for name, stem, changes, shape, stride in (
        ("resnet18", "cifar", {}, (64, 3, 3, 3), 1),
        ("resnet18", "imagenet", two, (64, 2, 7, 7), 2),
        ("resnet50_x2", "imagenet", {}, (128, 3, 7, 7), 2),
    ):
        config = replace(SMALL, architecture=name, stem=stem, **changes)
        with first_weights(0):
            convolution = Encoder(config).backbone.conv1
        assert (convolution.weight.shape, convolution.stride) == (shape, (stride, stride))
        fan_out = shape[0] * shape[-1] ** 2
        assert convolution.weight.std().item() == pytest.approx((2 / fan_out) ** 0.5, rel=0.1)


def test_the_small_networks_have_these_convolutions_each_with_batch_normalisation():
    """alexnet pools after its first two convolutions; convnet's last convolution has no ReLU."""
    alexnet = ["32 96 5 1", "96 192 3 1", "192 128 3 1", "128 128 3 1"], "CBRMCBRMCBRCBRCBR"
    convnet = ["32 64 3 2", "64 128 3 2", "128 128 3 1"], "CBRCBRCBRCB"
    names = {"C": torch.nn.Conv2d, "B": torch.nn.BatchNorm2d, "R": torch.nn.ReLU, "M": torch.nn.MaxPool2d}
    for architecture, stem, first, (rest, order) in (
        ("alexnet", "cifar", "3 32 3 1", alexnet),
        ("alexnet", "imagenet", "3 32 11 4", alexnet),
        ("convnet", "cifar", "3 32 3 1", convnet),
        ("convnet", "imagenet", "3 32 3 2", convnet),
    ):
        layers = list(without_values(architecture=architecture, stem=stem).backbone)
        convolutions = [layer for layer in layers if isinstance(layer, torch.nn.Conv2d)]
        sizes = [f"{one.in_channels} {one.out_channels} {one.kernel_size[0]} {one.stride[0]}" for one in convolutions]
        assert sizes == [first, *rest]
        assert "".join(name for layer in layers for name, kind in names.items() if isinstance(layer, kind)) == order


# --- heads and embeddings -----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_does_not():
    for config in (SMALL, LAB):
        first, again, other = (build_encoder(config, seed=seed).state_dict() for seed in (0, 0, 1))
        assert_equal(first, again)
        assert not all(torch.equal(first[name], other[name]) for name in first)


def test_pooled_is_the_mean_of_the_map_and_an_mlp_head_has_one_hidden_layer_with_a_relu(images):
    encoder = moved(replace(SMALL, head="mlp"), images)
    first, _, second = encoder.head
    with torch.no_grad():
        pooled = encoder.map(images).mean(dim=(2, 3))
        torch.testing.assert_close(encoder.pooled(images), pooled)
        hidden = (pooled @ first.weight.T + first.bias).clamp_min(0)
        assert hidden.shape == (3, 128)
        expected = F.normalize(hidden @ second.weight.T + second.bias, dim=1)
        torch.testing.assert_close(encoder(images), expected)


def test_an_mlp_bn_head_normalises_the_batch_after_each_layer_and_ends_without_a_relu(generator):
    encoder = build_encoder(replace(SMALL, head="mlp-bn"), seed=0).train()
    pooled = torch.rand(6, 128, generator=generator)

    def normalised(features, norm):
        spread = features.var(dim=0, correction=0) + 1e-5
        return (features - features.mean(dim=0)) / spread.sqrt() * norm.weight + norm.bias

    with torch.no_grad():
        for weight in encoder.head.parameters():
            if weight.dim() == 1:  # as after training, when no scale is 1 and no shift 0
                weight.uniform_(0.5, 1.5, generator=generator)
        first, first_norm, _, second, second_norm = encoder.head
        hidden = normalised(pooled @ first.weight.T, first_norm).clamp_min(0)
        expected = F.normalize(normalised(hidden @ second.weight.T, second_norm), dim=1)
        torch.testing.assert_close(encoder.embed(pooled), expected, atol=1e-5, rtol=1e-4)
    assert (first.weight.shape, second.weight.shape) == ((128, 128), (16, 128))


@pytest.mark.parametrize(("split", "first"), [(ColourSplit("hsv"), 1), (FrequencySplit(0.7), 3)], ids=str)
def test_each_part_has_a_network_of_its_own_that_sees_its_planes_normalised(split, first, images):
    """Two networks have the interface of one encoder."""
    planes = sum(split.planes)
    mean, std = (tuple(float(start + plane) for plane in range(planes)) for start in (0, 1))
    encoder = moved(replace(SMALL, split=split, mean=mean, std=std), images)
    with torch.no_grad():
        maps = []
        for network, part, some in zip(encoder.parts, split(images), (slice(first), slice(first, None)), strict=True):
            centre, spread = (torch.tensor(numbers[some])[:, None, None] for numbers in (mean, std))
            maps.append(network.backbone((part - centre) / spread))
        pooled = [each.mean(dim=(2, 3)) for each in maps]
        pair = tuple(F.normalize(one.head(half), dim=1) for one, half in zip(encoder.parts, pooled, strict=True))
        torch.testing.assert_close(encoder.map(images), torch.cat(maps, dim=1))
        torch.testing.assert_close(encoder.pooled(images), torch.cat(pooled, dim=1))
        torch.testing.assert_close(encoder.embeddings(images), pair)
        torch.testing.assert_close(encoder(images), torch.cat(pair, dim=1) / 2**0.5)
        torch.testing.assert_close(encoder.embed(torch.cat(pooled, dim=1)), encoder(images))
    assert encoder.view_size == 16
    weights, others = (network.state_dict() for network in encoder.parts)
    assert not any(torch.equal(weights[name], others[name]) for name in weights if weights[name].dim() > 1)


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [replace(SMALL, head="mlp-bn"), LAB, replace(SMALL, architecture="vit_small", stem="patch16")]
)
def test_what_is_loaded_is_what_was_saved_bit_for_bit_frozen_and_in_evaluation_mode(config, images, tmp_path):
    trained = moved(config, images)
    first, second = tmp_path / "new" / "encoder.safetensors", tmp_path / "again.safetensors"
    with torch.no_grad():
        expected = trained(images)
    for weights in (first, second):
        save_encoder(trained.train(), weights)
    assert first.read_bytes() == second.read_bytes()
    described = json.loads(first.with_suffix(".json").read_text())
    assert described == json.loads(json.dumps(asdict(config)))
    loaded = load_encoder(first)
    assert type(loaded) is (Encoder if config.split is None else SplitEncoder)
    assert_equal(loaded.state_dict(), trained.state_dict())
    assert loaded.config == trained.config
    assert torch.equal(loaded(images), expected)
    assert not any(module.training for module in loaded.modules())
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_files_that_do_not_belong_together_or_hold_no_encoder_are_refused(tmp_path):
    """test_damaged_files.py has more damaged files."""
    weights = tmp_path / "encoder.safetensors"
    save_encoder(build_encoder(SMALL, 0), weights)
    shapes, none = r"not have the shapes of encoder\.json \(.*{}.*\); load the two", "is missing or not an encoder of a"
    for change, sentence in (
        ({"embedding_dim": 8}, shapes.format("head.weight")),
        ({"stem": "imagenet"}, shapes.format("backbone")),
        ({"split": {"space": "hsv"}}, shapes.format("")),
        ({"split": {"space": "luv"}}, none + ".*; give the path of its .safetensors file, with the .json"),
    ):
        weights.with_suffix(".json").write_text(json.dumps(asdict(SMALL) | change))
        with pytest.raises(InputError, match=sentence):
            load_encoder(weights)
    weights.with_suffix(".json").unlink()
    with pytest.raises(InputError, match=none):
        load_encoder(weights)


def test_a_kill_between_its_two_files_never_leaves_another_encoder_s_configuration(tmp_path, monkeypatch):
    weights = tmp_path / "encoder.safetensors"
    save_encoder(build_encoder(SMALL, 0), weights)
    other = build_encoder(replace(SMALL, mean=(0.1, 0.1, 0.1)), 1)
    with monkeypatch.context() as patch:
        patch.setattr("annulus.files.packed.save_file", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save_encoder(other, weights)
    assert load_encoder(weights).config == SMALL, "a full disk leaves both as they were"
    monkeypatch.setattr("annulus.files.weights.write_text", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_encoder(other, weights)
    with pytest.raises(InputError, match="is missing or not an encoder"):
        load_encoder(weights)


@pytest.mark.parametrize("config", [SMALL, LAB])
def test_a_loaded_encoder_refuses_pixels_outside_0_and_1_and_takes_any_precision(config, images, tmp_path):
    save_encoder(build_encoder(config, 0), tmp_path / "encoder.safetensors")
    loaded = load_encoder(tmp_path / "encoder.safetensors")
    broken = images.clone()
    broken[0, 0, 0, 0] = torch.nan
    for pixels, sentence in (
        (images * 255, r"images from \S+ to 2\S+; an encoder takes RGB in \[0, 1\] and normalises by itself: divide"),
        ((images - 0.5) / 0.2, r"images from -\S+ to \S+; an encoder takes RGB"),
        (broken, "images from nan to nan; .*, and leave out NaN"),
    ):
        with pytest.raises(InputError, match=sentence):
            loaded.pooled(pixels)
    torch.testing.assert_close(loaded(images.double()), loaded(images), rtol=0, atol=1e-6, check_dtype=False)


@pytest.mark.parametrize("config", [SMALL, LAB])
def test_a_loaded_encoder_is_exported_by_torch_and_takes_batches_of_any_size(config, images, tmp_path):
    save_encoder(build_encoder(config, 0), tmp_path / "encoder.safetensors")
    loaded = load_encoder(tmp_path / "encoder.safetensors")
    exported = torch.export.export(loaded, (images[:2],), dynamic_shapes=({0: torch.export.Dim("batch")},)).module()
    torch.testing.assert_close(exported(images), loaded(images))


def test_a_channel_that_never_varies_is_left_at_zero(generator):
    images = torch.rand(4, 3, 16, 16, generator=generator)
    images[:, 2] = 0.25
    flat = build_encoder(replace(SMALL, mean=(0.5, 0.5, 0.25), std=(0.2, 0.2, 0.0)), seed=0)
    varied = torch.cat([images[:, :2], torch.rand(4, 1, 16, 16, generator=generator)], dim=1)
    assert flat.std.flatten().tolist() == pytest.approx([0.2, 0.2, 1.0])
    assert flat(images).isfinite().all()
    assert not torch.equal(flat(varied), flat(images)), "where it does vary, it is seen"

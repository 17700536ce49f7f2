"""Features of whole image sets: the encoder's outputs batch by batch, feature files, and the embed stage."""

from argparse import Namespace
from copy import deepcopy
from dataclasses import replace

import embed as stage
import numpy as np
import pytest
import torch

from annulus.device.rng import first_weights
from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.extract import encode, extract, extract_features
from annulus.encoders.features import Features, check_same_classes, load_features, save_features
from annulus.encoders.module_encoder import ModuleEncoder
from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.files.images import ImageSet, save_images
from annulus.files.store import Resident
from annulus.views.recipe import center_view
from annulus.views.splits import ColourSplit

CPU = torch.device("cpu")
CONFIG = EncoderConfig("alexnet", "imagenet", "mlp-bn", 6, 32, None, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.2))
LAB = replace(CONFIG, split=ColourSplit("lab"), mean=(55.0, 2.0, 4.0), std=(24.0, 12.0, 15.0))
LAYERS = ["map", "pooled", "embedding"]
each_kind = pytest.mark.parametrize(("config", "networks"), [(CONFIG, 1), (LAB, 2)], ids=["rgb", "lab"])


def image_set(count):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 36, 36), generator=generator, dtype=torch.uint8)
    return ImageSet(Resident(images), torch.arange(count) % 2, torch.arange(count), ("cat", "dog"))


@each_kind
def test_layers_are_what_the_encoder_gives_for_centre_views_whatever_the_batches(config, networks):
    """An empty set has features too. An encoder in training mode keeps its state; each network sees a batch once."""
    encoder, images, planes_seen = build_encoder(config, seed=0).eval(), image_set(7), []
    views = center_view(images.images.pixels, 32)
    with torch.no_grad():
        expected = {"map": encoder.map(views), "pooled": encoder.pooled(views), "embedding": encoder(views)}
    before = {name: tensor.clone() for name, tensor in encoder.train().state_dict().items()}
    for batch_size in (3, 100):
        actual = extract(encoder, images, LAYERS, CPU, batch_size).layers
        assert (actual["map"].dtype, actual["pooled"].dtype) == (torch.float16, torch.float32)
        torch.testing.assert_close(actual.pop("map").float(), expected["map"], atol=2e-3, rtol=1e-3)
        torch.testing.assert_close(actual, {name: expected[name] for name in actual})
    none = extract(encoder, image_set(0), LAYERS, CPU)
    shapes = [(0, 128 * networks, 2, 2), (0, 128 * networks), (0, 6 * networks)]
    assert [tuple(none.layers[name].shape) for name in LAYERS] == shapes
    assert none.classes == ("cat", "dog")
    for one in getattr(encoder, "parts", [encoder]):
        one.backbone.register_forward_hook(lambda *_, planes=one.config.planes: planes_seen.append(planes))
    encode(encoder, views, LAYERS)
    assert planes_seen == ([3] if networks == 1 else [1, 2])
    torch.testing.assert_close(dict(encoder.state_dict()), before, rtol=0, atol=0)


@torch.no_grad()
def test_a_view_of_another_size_is_the_middle_of_that_size():
    encoder, images = build_encoder(CONFIG, seed=0).eval(), image_set(5)
    actual = extract(encoder, images, ["pooled"], CPU, view_size=24).layer("pooled")
    torch.testing.assert_close(actual, encoder.pooled(center_view(images.images.pixels, 24)))


def own_network(head):
    """A network with batch-norm and dropout, so that its outputs depend on its mode."""
    layers = torch.nn.Flatten(), torch.nn.Linear(3 * 36 * 36, 5), torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5)
    network = torch.nn.Sequential(*layers)
    return ModuleEncoder(network, dim=4, head=torch.nn.Linear(5, 4)) if head else ModuleEncoder(network, dim=5)


@pytest.mark.parametrize("head", [True, False])
def test_features_of_one_s_own_network_are_its_outputs_for_whole_images_in_whatever_batches(head):
    """Images: bytes or floats, in a tensor with labels or in batches of both; other entries of a batch are ignored."""
    encoder, images = own_network(head), image_set(7)
    pixels, labels = images.images.pixels, images.labels
    floats = pixels / 255
    with torch.no_grad():
        pooled = encoder.eval().network(floats)
        embedding = encoder.head(pooled) if head else pooled
    expected = {"pooled": pooled, "embedding": embedding / embedding.square().sum(dim=1, keepdim=True).sqrt()}
    batches = [(floats[:3], labels[:3], ["1.png", "2.png", "3.png"]), [floats[3:], labels[3:]]]
    loader = torch.utils.data.DataLoader([*zip(pixels, labels, strict=True)], batch_size=2)
    for arguments in ((pixels, labels), (floats, labels), (batches,), (loader,)):
        features = extract_features(encoder.train(), *arguments)
        torch.testing.assert_close(features.layers, expected)
        assert (features.labels.tolist(), features.classes) == (labels.tolist(), ("0", "1"))
    assert extract_features(encoder, loader, classes=("cat", "dog", "cow")).classes == ("cat", "dog", "cow")
    assert extract_features(encoder, floats[:0], layers=["pooled"]).layer("pooled").shape == (0, 5)


def test_bytes_in_batches_are_seen_as_an_encoder_of_annulus_sees_a_tensor_of_them():
    encoder, images = build_encoder(CONFIG, seed=0), image_set(5)
    pixels, labels = images.images.pixels, images.labels
    expected = extract(encoder, images, LAYERS, CPU).layers
    for arguments in ((pixels, labels), ([(pixels[:3], labels[:3]), (pixels[3:], labels[3:])],)):
        actual = extract_features(encoder, *arguments, layers=LAYERS).layers
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_a_network_in_half_precision_sees_bytes_in_its_own():
    images = torch.randint(0, 256, (4, 3, 2, 2), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    with first_weights(0):
        encoder = ModuleEncoder(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 5)), dim=5)
    full, half = (extract_features(one, images).layer("pooled") for one in (deepcopy(encoder), encoder.bfloat16()))
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, full, rtol=0.05, atol=0.02)


def test_damaged_weights_are_refused_by_layer_and_image():
    encoder, lab_encoder = build_encoder(CONFIG, seed=0), build_encoder(LAB, seed=0)
    with torch.no_grad():
        encoder.head[-1].bias.fill_(torch.nan)
        lab_encoder.parts[1].backbone[0].weight.fill_(torch.nan)
    for damaged, layer in ((encoder, "embedding"), (lab_encoder, "pooled")):
        error = rf"encoder's {layer} features of image 0 are not finite; .*: train it again with a lower learning rate$"
        with pytest.raises(InputError, match=error):
            extract(damaged, image_set(2), ["pooled", "embedding"], CPU)
    views = torch.zeros(3, 3, CONFIG.view_size, CONFIG.view_size)
    views[2] = torch.nan
    with pytest.raises(InputError, match="pooled features of image 2 are not finite"):
        extract_features(build_encoder(CONFIG, seed=0), views)


def test_features_come_back_from_their_file_and_what_is_not_there_names_the_way_out(tmp_path):
    layers = {"pooled": torch.rand(3, 4), "map": torch.rand(3, 4, 2, 2).half()}
    save_features(tmp_path, "test", Features(layers, torch.tensor([0, 1, 1]), ("cat", "dog")))
    loaded = load_features(tmp_path, "test")
    assert (loaded.classes, loaded.labels.tolist()) == (("cat", "dog"), [0, 1, 1])
    torch.testing.assert_close(loaded.layers, layers, rtol=0, atol=0)
    loaded.layers.pop("map")
    with pytest.raises(InputError, match=r"hold pooled, but map is asked for; make them with it \(in a checkout"):
        loaded.layer("map")
    with pytest.raises(InputError, match="dvc repro"):
        load_features(tmp_path, "train")


@pytest.mark.parametrize("values", [np.ones((3, 4)), [[1.0]] * 3, torch.ones(3)], ids=["array", "list", "one axis"])
def test_features_that_are_no_tensor_of_rows_are_refused(values):
    unchecked = object.__new__(Features)  # tests check types first
    vars(unchecked).update(layers={"pooled": values}, labels=torch.tensor([0, 1, 1]), classes=("cat", "dog"))
    with pytest.raises(InputError, match=r"^pooled is (a ndarray|a list|of 1 axes); give a tensor, a row of numbers"):
        unchecked.__post_init__()


def test_classes_in_a_list_are_those_in_a_tuple():
    named = Features({"pooled": torch.eye(2)}, torch.arange(2), ("cat", "dog"))
    listed = object.__new__(Features)
    vars(listed).update(layers=named.layers, labels=named.labels, classes=["cat", "dog"])
    listed.__post_init__()
    check_same_classes(named, listed)


DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.uint8]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("layer", "stored_dtype"), [("pooled", torch.float32), ("map", torch.float16)])
def test_features_of_a_file_s_type_come_back_and_others_are_refused_before_anything_is_written(
    layer, stored_dtype, dtype, tmp_path
):
    values = torch.arange(12).reshape(3, 4, *[1] * 2 * (layer == "map")).to(dtype)
    features = Features({layer: values}, torch.tensor([0, 1, 1]), ("cat", "dog"))
    if dtype == stored_dtype:
        save_features(tmp_path, "test", features)
        loaded = load_features(tmp_path, "test").layer(layer)
        assert loaded.dtype == dtype
        assert torch.equal(loaded, values)
    else:
        with pytest.raises(InputError, match=rf"test\.safetensors is not written: {layer} is .*, expected .*; give"):
            save_features(tmp_path, "test", features)
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("layers", "labels", "fault"),
    [
        ({"pooled": torch.full((2, 3), torch.nan)}, [0, 1], "pooled holds NaN or infinity, expected finite numbers"),
        ({"pooled": torch.ones(0, 3)}, [], "holds features of no image or without a dimension, expected some"),
        ({"pooled": torch.ones(2, 3)}, [0, -1], "a label is -1, expected 0 to 1"),
        ({"pooled": torch.ones(2, 3), "other": torch.ones(2, 3)}, [0, 1], "holds labels, other, pooled, expected lab"),
    ],
)
def test_what_would_be_refused_when_it_is_read_is_not_written(layers, labels, fault, tmp_path):
    features = Features(layers, torch.tensor(labels, dtype=torch.int64), ("cat", "dog"))
    with pytest.raises(
        InputError, match=rf"train\.safetensors is not written: {fault}.*; give features that a file holds$"
    ):
        save_features(tmp_path, "train", features)
    assert not list(tmp_path.iterdir())


def test_the_stage_writes_three_splits_with_maps_only_where_they_are_read(tmp_path):
    counts = {"train": 5, "validation": 0, "test": 3}
    save_encoder(build_encoder(CONFIG, seed=0), tmp_path / "0.safetensors")
    for split, count in counts.items():
        save_images(tmp_path / f"{split}.safetensors", image_set(count))
    paths = Namespace(images=tmp_path, encoders=tmp_path, features=tmp_path / "features")
    for inputs, layer, more in (("features", "pooled", set()), ("features", "map", {"map"}), ("views", "map", set())):
        results = stage.main({"seeds": [0], "linear.inputs": inputs, "linear.layer": layer}, paths)
        for split, count in counts.items():
            features = load_features(paths.features / "0", split)
            assert set(features.layers) == {"pooled", "embedding", *more}
            assert {len(tensor) for tensor in (*features.layers.values(), features.labels)} == {count}
        assert (results.seeds[0]["pooled_dim"], results.seeds[0]["embedding_dim"]) == (128, 6)

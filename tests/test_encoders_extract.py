from argparse import Namespace
from dataclasses import replace

import embed as stage
import pytest
import torch

from annulus.encoders.encoder import EncoderConfig, build_encoder, save_encoder
from annulus.encoders.extract import encode, extract
from annulus.encoders.features import Features, load_features, save_features
from annulus.errors import InputError
from annulus.files.images import ImageSet, save_images
from annulus.files.store import Resident
from annulus.views.recipe import center_view
from annulus.views.splits import ColourSplit

CPU = torch.device("cpu")
STATISTICS = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.2)}
CONFIG = EncoderConfig("alexnet", "imagenet", "mlp", embedding_dim=6, view_size=32, split=None, **STATISTICS)
LAB = replace(CONFIG, split=ColourSplit("lab"), mean=(55.0, 2.0, 4.0), std=(24.0, 12.0, 15.0))


def image_set(count, seed=0, size=36):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    return ImageSet(Resident(images), torch.arange(count) % 2, torch.arange(count), ("cat", "dog"), "digest")


@pytest.mark.parametrize("config", [CONFIG, LAB], ids=["rgb", "lab"])
def test_layers_are_what_the_encoder_gives_for_centre_views_whatever_the_batches(config):
    encoder, images = build_encoder(config, seed=0).eval(), image_set(7)
    views = center_view(images.images.pixels, 32)
    with torch.no_grad():
        expected = {"map": encoder.map(views), "pooled": encoder.pooled(views), "embedding": encoder(views)}
    for batch_size in (3, 100):
        found = extract(encoder, images, ["map", "pooled", "embedding"], CPU, batch_size).layers
        assert found["map"].dtype == torch.float16
        assert found["pooled"].dtype == found["embedding"].dtype == torch.float32
        torch.testing.assert_close(found["map"].float(), expected["map"], atol=2e-3, rtol=1e-3)
        torch.testing.assert_close(found["pooled"], expected["pooled"])
        torch.testing.assert_close(found["embedding"], expected["embedding"])


@pytest.mark.parametrize(("config", "networks"), [(CONFIG, 1), (replace(LAB, head="mlp-bn"), 2)], ids=["rgb", "lab"])
def test_an_empty_split_has_features_of_the_right_width(config, networks):
    encoder = build_encoder(config, seed=0)
    found = extract(encoder, image_set(0), ["map", "pooled", "embedding"], CPU)
    assert {name: tuple(values.shape) for name, values in found.layers.items()} == {
        "map": (0, 128 * networks, 2, 2),
        "pooled": (0, 128 * networks),
        "embedding": (0, 6 * networks),
    }
    assert found.classes == ("cat", "dog")


def test_each_network_sees_a_batch_once_whatever_the_layers():
    lab_encoder, seen = build_encoder(LAB, seed=0).eval(), []
    for one in lab_encoder.parts:
        one.backbone.register_forward_hook(lambda *_, planes=one.config.planes: seen.append(planes))
    encode(lab_encoder, torch.rand(4, 3, 32, 32), ["map", "pooled", "embedding"])
    assert seen == [1, 2]


@pytest.mark.parametrize("config", [replace(CONFIG, head="mlp-bn"), LAB], ids=["mlp-bn", "lab"])
def test_encoding_leaves_an_encoder_in_training_mode_unchanged(config):
    encoder = build_encoder(config, seed=0).train()
    before = {name: tensor.clone() for name, tensor in encoder.state_dict().items()}
    encode(encoder, torch.rand(8, 3, 32, 32), ["embedding"])
    for name, tensor in encoder.state_dict().items():
        assert torch.equal(tensor, before[name]), name


def test_damaged_weights_are_refused_by_layer_and_image():
    encoder, lab_encoder = build_encoder(CONFIG, seed=0), build_encoder(LAB, seed=0)
    with torch.no_grad():
        encoder.head[-1].bias.fill_(torch.nan)
        lab_encoder.parts[1].backbone[0].weight.fill_(torch.nan)
    for damaged, layer in ((encoder, "embedding"), (lab_encoder, "pooled")):
        with pytest.raises(InputError, match=rf"encoder's {layer} features of image 0 are not finite"):
            extract(damaged, image_set(2), ["pooled", "embedding"], CPU)


def test_features_come_back_from_their_file(tmp_path):
    layers = {"pooled": torch.rand(3, 4), "map": torch.rand(3, 4, 2, 2).half()}
    save_features(tmp_path, "test", Features(layers, torch.tensor([0, 1, 1]), ("cat", "dog")))
    found = load_features(tmp_path, "test")
    assert found.classes == ("cat", "dog")
    assert found.labels.tolist() == [0, 1, 1]
    assert set(found.layers) == {"pooled", "map"}
    assert all(torch.equal(found.layers[name], layers[name]) for name in layers)


def test_features_that_are_not_there_name_the_way_out(tmp_path):
    features = Features({"pooled": torch.rand(3, 4)}, torch.tensor([0, 1, 1]), ("cat", "dog"))
    with pytest.raises(InputError, match="hold pooled, but the probe reads map; run `dvc repro`"):
        features.layer("map")
    with pytest.raises(InputError, match="dvc repro"):
        load_features(tmp_path, "train")


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
        assert (results.metrics["pooled_dim"], results.metrics["embedding_dim"]) == (128, 6)

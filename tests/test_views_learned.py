"""A generator's file, its split, and its use in training, in the key of a run and in a saved encoder."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from settings import CPU, SMALL, load, stripes

from annulus.encoders.saved import load_encoder, save_encoder
from annulus.errors import InputError
from annulus.files.packed import write_packed
from annulus.files.store import Resident
from annulus.training.setup import build_training
from annulus.views import learned
from annulus.views.learned import GeneratorConfig, LearnedSplit, ViewGenerator, load_generator, save_generator
from annulus.views.spaces import rgb_to_ydbdr
from annulus.views.splits import channel_statistics, parse_split
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared.runs import build_trial
from annulus_lab.studies.shared.store import CachedRun

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
YDBDR = GeneratorConfig("ydbdr", "all", couplings=3, hidden=4, volume_preserving=False)


@pytest.fixture
def file(tmp_path):
    save_generator(tmp_path / "generator.safetensors", ViewGenerator(YDBDR, 0))
    return tmp_path / "generator.safetensors"


def run_with(generator):
    params = load(SMALL | {"backbone": "convnet", "views": "gentle", "split": "ydbdr"})
    return build_trial(resolved(params, RUN), 0, generator=generator)


@pytest.mark.parametrize(("changes", "kept"), [("all", 0), ("rest", 1)])  # channels that the flow does not see
def test_the_split_of_a_file_is_what_its_generator_makes_of_the_channels(changes, kept, file, generator):
    images, network = torch.rand(3, 3, 5, 4, generator=generator), ViewGenerator(replace(YDBDR, changes=changes), 0)
    save_generator(file, network)
    split, planes = LearnedSplit.of(file), rgb_to_ydbdr(images)
    expected = torch.cat([planes[:, :kept], network.flow(planes[:, kept:]).detach()], dim=1)
    assert (expected - planes).abs()[:, kept:].mean() > 0.05
    first, second = split(images)
    torch.testing.assert_close(torch.cat([first, second], dim=1), expected)
    assert (first.shape[1], second.shape[1], split.space) == (1, 2, "ydbdr")


def test_a_run_with_a_generator_trains_on_its_views_and_is_named_by_its_weights(file, tmp_path):
    def name(generator):
        return CachedRun(run_with(generator), {}, {}, CPU).name

    encoder = build_training(run_with(file).run, stripes(40, 0), stripes(10, 1), CPU).method.encoder.eval()
    assert encoder.config.split == LearnedSplit.of(file)
    images = stripes(4, 2).images.pixels / 255
    pairs = zip(encoder.parts, ViewGenerator(YDBDR, 0)(images), strict=True)
    expected = tuple(network(view.detach()) for network, view in pairs)
    torch.testing.assert_close(encoder.embeddings(images), expected)
    save_encoder(encoder, tmp_path / "encoder.safetensors")
    assert torch.equal(load_encoder(tmp_path / "encoder.safetensors")(images), encoder(images))
    description, names = json.loads((tmp_path / "encoder.json").read_text())["split"], [name(file), name(None)]
    assert name(file) == names[0]
    save_generator(file, ViewGenerator(YDBDR, seed=1))
    assert len({*names, name(file)}) == 3
    learned._loaded.cache_clear()  # as in another process
    with pytest.raises(InputError, match=r"generator\.safetensors has other weights than in the encoder's training"):
        parse_split(description)(images)


def test_a_file_that_holds_no_generator_is_refused_with_the_way_out(file):
    with pytest.raises(InputError, match=r"none\.safetensors cannot be read .*; run `dvc repro generator`"):
        LearnedSplit.of(file.with_stem("none"))
    with pytest.raises(InputError, match=r"run `dvc repro generator@rgb`"):
        LearnedSplit.of(file.parent / "generators/rgb/3.safetensors")
    state = ViewGenerator(YDBDR, 0).state_dict()
    for tensors, about, fault in [
        (state, {}, "its description has no space"),
        (state, asdict(replace(YDBDR, hidden=5)), "does not hold a view generator"),
        (state, asdict(replace(YDBDR, changes="some")), "does not hold a view generator"),
        (state | {"flow.couplings.0.network.0.bias": torch.full((4,), torch.nan)}, asdict(YDBDR), "a weight is NaN"),
    ]:
        write_packed(file, tensors, about)
        with pytest.raises(InputError, match=f"{fault}.*`dvc repro --force generator"):
            load_generator(file)


def test_images_without_colour_are_refused(file, generator):
    grey = torch.randint(0, 256, (5, 1, 8, 8), generator=generator, dtype=torch.uint8).expand(5, 3, 8, 8)
    with pytest.raises(InputError, match=r"split: ydbdr contrasts G1 with G23, but the images .* have no colour"):
        channel_statistics(Resident(grey), LearnedSplit.of(file))

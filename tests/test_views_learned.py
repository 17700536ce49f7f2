"""A generator's file, the split that it gives, and how it reaches training, the key of a run and a saved encoder."""

import json
from dataclasses import asdict, replace

import pytest
import torch
from settings import CPU, SMALL, load, stripes

from annulus.config.resolved import RUN, resolved
from annulus.encoders.encoder import load_encoder, save_encoder
from annulus.errors import InputError
from annulus.files.packed import write_packed
from annulus.files.store import Resident
from annulus.training.setup import build_training
from annulus.trials.runs import run_of
from annulus.trials.store import Place
from annulus.views.learned import (
    GeneratorConfig,
    LearnedSplit,
    ViewGenerator,
    _loaded,
    load_generator,
    save_generator,
)
from annulus.views.spaces import rgb_to_ydbdr
from annulus.views.splits import channel_statistics, split_of

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
YDBDR = GeneratorConfig("ydbdr", "all", couplings=3, hidden=4, volume_preserving=False)


def file_of(folder, seed=0, config=YDBDR):
    path = folder / f"{config.changes}-{seed}.safetensors"
    save_generator(path, ViewGenerator(config, seed))
    return path


def run_with(generator, **changes):
    params = load(SMALL | {"backbone": "convnet", "views": "gentle", "split": "ydbdr"} | changes)
    return run_of(resolved(params, RUN), 0, generator=generator)


@pytest.mark.parametrize("changes", ["all", "rest"])
def test_the_split_of_a_file_is_what_its_generator_makes_of_the_channels(changes, tmp_path, generator):
    images = torch.rand(3, 3, 5, 4, generator=generator)
    config = replace(YDBDR, changes=changes)
    split = LearnedSplit.of(file_of(tmp_path, config=config))
    planes, flow = rgb_to_ydbdr(images), ViewGenerator(config, seed=0).flow
    kept = 0 if changes == "all" else 1  # channels that the flow does not see
    expected = torch.cat([planes[:, :kept], flow(planes[:, kept:]).images.detach()], dim=1)
    assert (expected - planes).abs()[:, kept:].mean() > 0.05
    first, second = split(images)
    torch.testing.assert_close(torch.cat([first, second], dim=1), expected)
    assert (first.shape[1], second.shape[1], split.space) == (1, 2, "ydbdr")
    torch.testing.assert_close(flow.inverse(expected[:, kept:]), planes[:, kept:], atol=1e-5, rtol=0)


def test_a_run_with_a_generator_trains_on_its_views_and_is_named_by_its_weights(tmp_path):
    file = file_of(tmp_path)
    method = build_training(run_with(file), stripes(40, 0), stripes(10, 1), CPU).method
    split = method.encoder.config.split
    assert split == LearnedSplit.of(file)
    images = stripes(4, 2).images.pixels / 255
    seen = zip(method.encoder.parts, ViewGenerator(YDBDR, 0)(images), strict=True)
    embeddings = method.encoder.eval().embeddings(images)
    for found, (network, view) in zip(embeddings, seen, strict=True):
        torch.testing.assert_close(found, network(view.detach()))

    def name(generator):
        return Place(run_with(generator), {}, {}, CPU).name

    before, without = name(file), name(None)
    save_generator(file, ViewGenerator(YDBDR, seed=1))
    assert len({before, without, name(file)}) == 3
    assert name(file) == name(file)


def test_a_saved_encoder_knows_its_generator_and_refuses_another(tmp_path, generator):
    file = file_of(tmp_path)
    encoder = build_training(run_with(file), stripes(40, 0), stripes(10, 1), CPU).method.encoder.eval()
    save_encoder(encoder, tmp_path / "encoder.safetensors")
    images = torch.rand(2, 3, 16, 16, generator=generator)
    assert torch.equal(load_encoder(tmp_path / "encoder.safetensors")(images), encoder(images))
    described = json.loads((tmp_path / "encoder.json").read_text())["split"]
    save_generator(file, ViewGenerator(YDBDR, seed=1))
    _loaded.cache_clear()  # as in another process
    with pytest.raises(InputError, match=r"all-0\.safetensors has other weights than those that were trained with"):
        split_of(described)(images)


def test_a_file_that_holds_no_generator_is_refused_with_the_way_out(tmp_path):
    rerun = "run `dvc repro --force stages/view_learning/dvc.yaml:generator`"
    with pytest.raises(InputError, match=r"none\.safetensors cannot be read .*; run `dvc repro stages/view_learning"):
        LearnedSplit.of(tmp_path / "none.safetensors")
    path = file_of(tmp_path)
    state = ViewGenerator(YDBDR, 0).state_dict()
    for tensors, about, fault in [
        (state, {}, "its description has no space"),
        (state, asdict(replace(YDBDR, hidden=5)), "holds no view generator"),
        (state, asdict(replace(YDBDR, changes="some")), "holds no view generator"),
        (state | {"flow.couplings.0.network.0.bias": torch.full((4,), torch.nan)}, asdict(YDBDR), "a weight is NaN"),
    ]:
        write_packed(path, tensors, about)
        with pytest.raises(InputError, match=f"{fault}.*{rerun}"):
            load_generator(path)


def test_images_without_colour_are_refused(tmp_path, generator):
    grey = torch.randint(0, 256, (5, 1, 8, 8), generator=generator, dtype=torch.uint8).expand(5, 3, 8, 8)
    with pytest.raises(InputError, match=r"split: ydbdr contrasts G1 with G23, but the images .* have no colour"):
        channel_statistics(Resident(grey), LearnedSplit.of(file_of(tmp_path)))

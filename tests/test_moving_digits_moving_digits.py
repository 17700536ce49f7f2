"""Moving digits: their motion, the factors that two views share, the loss in plain loops, read-outs, refusals."""

import copy
import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from annulus.device.rng import derive
from annulus.device.rng import generator as named
from annulus.errors import InputError
from annulus_lab.config.params import filled, plain
from annulus_lab.studies.moving_digits import digit_readouts, digit_rows, digit_training, film_strips
from annulus_lab.studies.moving_digits.digit_images import load_images, make_images, save_images
from annulus_lab.studies.moving_digits.digit_networks import build_views
from annulus_lab.studies.moving_digits.digit_readouts import Frames, fit_head, read_out
from annulus_lab.studies.moving_digits.digit_rows import evaluate_sharing, pairs, rows
from annulus_lab.studies.moving_digits.digit_scenes import Scenes, draw_scenes
from annulus_lab.studies.moving_digits.digit_tasks import FactorTask, factor_tasks
from annulus_lab.studies.moving_digits.digit_training import contrast, fit, train_supervised, train_views
from annulus_lab.studies.moving_digits.digits_params import FACTORS, DigitsTrainingParams, WorldParams
from annulus_lab.studies.moving_digits.grounds import CLASSES, draw_grounds
from annulus_lab.studies.moving_digits.motion import draw_paths, reflected
from annulus_lab.studies.moving_digits.moving_digits import DigitImages, World

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

SIZES = {"canvas": 16, "digit": 8, "ground": 20, "speed": 0.1, "frames": 3, "target": 5}
WORLD = WorldParams(**SIZES, digits=None, grounds=None, train_grounds=30, test_grounds=20)
RATES = {"learning_rate": 0.01, "momentum": 0.9, "temperature": 0.2, "read_out_decay": 0.01}
COUNTS = {"videos": 8, "batch_size": 4, "epochs": 1, "train_images": 60, "test_images": 40}
TRAINING = DigitsTrainingParams(sharings=[["digit"], ["digit", "position"]], **COUNTS, **RATES)


@pytest.fixture(scope="module")
def worlds() -> tuple[World, World]:
    train, test = make_images(WORLD, 0)
    return World(WORLD, train), World(WORLD, test)


def test_a_path_is_that_of_a_point_which_turns_round_at_each_wall():
    room, speed = 7.0, 5.5  # two walls in one step at most
    paths = draw_paths(200, 40, room, speed, named(0, "paths")).double()
    assert paths.min() >= 0
    assert paths.max() <= room
    angle = 2 * math.pi * torch.rand(50, generator=named(1, "angles"), dtype=torch.float64)
    for first, turn in zip(paths[:50, 0].tolist(), angle.tolist(), strict=True):
        for start, step in zip(first, (speed * math.sin(turn), speed * math.cos(turn)), strict=True):
            place, way = start, step
            for frame in range(40):
                line = torch.tensor(start + step * frame, dtype=torch.float64)
                assert reflected(line, room).item() == pytest.approx(place, abs=1e-9)
                place += way
                while not 0 <= place <= room:
                    place, way = (-place if place < 0 else 2 * room - place), -way


def test_a_video_moves_at_its_speed_in_every_direction_and_starts_anywhere():
    paths = draw_paths(4000, 2, 1000.0, 3.0, named(0, "paths"))
    steps = paths[:, 1] - paths[:, 0]
    inside = ((paths[:, 0] > 3) & (paths[:, 0] < 997)).all(dim=1)
    assert torch.allclose(steps[inside].norm(dim=1), torch.tensor(3.0), atol=1e-3)
    quarters = (torch.atan2(*steps[inside].T) / (math.pi / 2)).floor().long() + 2
    assert quarters.bincount(minlength=4).min() > 900
    assert ((paths[:, 0] / 1000).mean(dim=0) - 0.5).abs().max() < 0.02


def test_a_frame_is_white_ink_at_its_place_on_the_crop_of_its_ground(generator):
    digits = torch.randint(0, 256, (5, 3, 3), generator=generator, dtype=torch.uint8)
    grounds = torch.randint(0, 256, (4, 3, 9, 9), generator=generator, dtype=torch.uint8)
    places = torch.tensor([[0, 0], [4, 4], [1, 3]])
    scenes = Scenes(torch.tensor([4, 0, 4]), torch.tensor([3, 1, 0]), places, torch.tensor([[2, 0], [0, 2], [1, 1]]))
    frames = draw_scenes(scenes, digits, grounds, 7)
    for n, channel, y, x in itertools.product(range(3), range(3), range(7), range(7)):
        pixel = grounds[scenes.ground[n], channel, scenes.crop[n, 0] + y, scenes.crop[n, 1] + x].item() / 255
        (top, left), ink = places[n].tolist(), 0.0
        if top <= y < top + 3 and left <= x < left + 3:
            ink = digits[scenes.digit[n], y - top, x - left].item() / 255
        assert frames[n, channel, y, x].item() == pytest.approx(pixel + (1 - pixel) * ink, abs=1e-6)


@pytest.mark.parametrize("shared", [set(some) for n in range(4) for some in itertools.combinations(FACTORS, n)])
def test_views_share_exactly_the_stated_factors(worlds, shared):
    world, count = worlds[0], 600
    pair = world.pairs(count, shared, named(0, "pairs"))
    labels = world.images.digit_labels
    same = {
        "digit": labels[pair.second.digit] == labels[pair.target.digit],
        "background": pair.second.ground == pair.target.ground,
        "position": (pair.second.place == pair.target.place).all(dim=1),
    }
    chance = {
        "digit": 1 / 10,
        "background": 1 / 30,
        "position": 1 / 64,
    }  # corners are rounded: corners at the rim are rarer
    for factor, each in same.items():
        if factor in shared:
            assert each.all()
        else:
            share = each.double().mean().item()
            assert abs(share - chance[factor]) < 4.5 * math.sqrt(chance[factor] / count)
    assert len(pair.second.digit.unique()) > 400, "any drawing of any class"
    drawings = pair.second.digit == pair.target.digit
    assert drawings.double().mean() < 0.05, "a shared digit is another drawing of its class"
    frames = Scenes(*(each.unflatten(0, (count, WORLD.frames)) for each in pair.first))
    assert (frames.digit == pair.target.digit[:, None]).all()
    assert (frames.ground == pair.target.ground[:, None]).all()
    assert not torch.equal(frames.crop[:, 0], frames.crop[:, 1]), "each frame has a crop of its own"
    for scenes, room in ((pair.first, world.room), (pair.second, world.room), (pair.target, world.room)):
        assert scenes.place.min() >= 0
        assert scenes.place.max() <= room
        assert scenes.crop.max() <= world.margin
    other = world.pairs(count, set(FACTORS) - shared, named(0, "pairs"))
    assert all(map(torch.equal, pair.first, other.first)), "the first view does not depend on what is shared"


def test_a_video_moves_by_its_share_of_the_canvas_a_frame_and_the_target_comes_after_it(worlds):
    world, random = worlds[0], named(0, "pairs")
    pair = world.pairs(50, set(), named(0, "pairs"))
    for _ in ("start", "other"):
        world.scenes(50, random)
    paths = draw_paths(50, WORLD.target, world.room, 0.1 * 16, random).round().long()
    assert torch.equal(pair.first.place.unflatten(0, (50, WORLD.frames)), paths[:, : WORLD.frames])
    assert torch.equal(pair.target.place, paths[:, WORLD.target - 1])


def test_grounds_are_those_of_their_key_and_a_longer_set_begins_with_the_shorter():
    images, labels = draw_grounds(30, 20, 7)
    more, _ = draw_grounds(40, 20, 7)
    other, _ = draw_grounds(30, 20, 8)
    assert torch.equal(more[:30], images)
    assert not torch.equal(other, images)
    assert len(CLASSES) == 10
    assert labels.bincount().tolist() == [3] * 10
    assert len(images.flatten(1).unique(dim=0)) == 30
    assert images.float().mean(dim=(2, 3)).max() < 130, "darker than the ink"


def test_a_ground_shows_the_hue_and_the_pattern_of_its_class():
    images, labels = draw_grounds(400, 32, 3)
    images = images.float()
    patterns = [CLASSES[label].partition("-") for label in labels.tolist()]
    for hue, channel in (("red", 0), ("green", 1), ("blue", 2)):
        colour = images[[place for place, (name, *_) in enumerate(patterns) if name == hue]].mean(dim=(0, 2, 3))
        assert colour.argmax() == channel
    across, down = (images.diff(dim=way).abs().mean(dim=(1, 2, 3)) for way in (3, 2))
    upright = torch.tensor([name == "upright" for *_, name in patterns])
    assert (across / down)[upright].median() > 2 > (across / down)[~upright].median()


def test_a_strip_has_the_video_and_below_it_target_frames_and_second_views_column_by_column(worlds, monkeypatch):
    rows = []
    monkeypatch.setattr(film_strips, "sheet", lambda added: rows.extend(added) or Image.new("L", (1, 1)))
    film_strips.film_strips(worlds[0], [["digit"], ["digit", "position"]], 0)
    names = [
        "a video: frames 1 to 3",
        "frame 5 of this one and others",
        "it shares digit",
        "it shares digit + position",
    ]
    assert [name for name, _ in rows] == names
    pair = worlds[0].pairs(3, ["digit"], named(0, "film strips"))
    expected = [worlds[0].pixels(Scenes(*(field[:3] for field in pair.first)))]
    expected += [worlds[0].pixels(pair.target), worlds[0].pixels(pair.second)]
    for (_, pictures), frames in zip(rows[:3], expected, strict=True):
        for picture, frame in zip(pictures, frames, strict=True):
            pixels = torch.tensor(np.asarray(picture)[::2, ::2]).permute(2, 0, 1)
            torch.testing.assert_close(pixels / 255, frame, atol=0.002, rtol=0)


def test_the_loss_is_that_of_each_video_finding_its_image(generator):
    videos, images = torch.randn(2, 5, 6, generator=generator, dtype=torch.float64)
    expected = 0.0
    for i in range(5):
        scores = [(videos[i] @ image / videos[i].norm() / image.norm()).item() / 0.2 for image in images]
        expected -= math.log(math.exp(scores[i]) / sum(map(math.exp, scores))) / 5
    assert contrast(videos, images, 0.2).item() == pytest.approx(expected, rel=1e-9)
    assert contrast(torch.ones(5, 6), torch.ones(5, 6), 0.2).item() == pytest.approx(math.log(5), rel=1e-6)


def test_a_video_s_embedding_is_the_lstm_s_last_output_over_its_own_frames():
    views = build_views(3).eval()
    frames = torch.rand(6, 3, 16, 16, generator=named(0, "frames"))
    embeddings = views.embed_videos(frames, 3)
    assert embeddings.shape == (2, 64)
    for video in (0, 1):
        features = views.image(frames[3 * video : 3 * video + 3])
        assert features.shape == (3, 64)
        _, (last, _) = views.video(features[None])
        torch.testing.assert_close(embeddings[video], last[0, 0])
    brighter = [views.train().image(images) for images in (frames, frames / 2 + 0.5)]
    torch.testing.assert_close(*brighter, atol=0.01, rtol=0, msg="pixels have mean 0, so that their level is no border")
    layers = [module for module in views.image if isinstance(module, torch.nn.Conv2d)]
    assert views.image[0].weight is None
    assert {layer.bias for layer in layers} == {None}
    assert [(layer.out_channels, layer.kernel_size[0], layer.stride[0]) for layer in layers] == [
        (8, 3, 2),
        (16, 3, 2),
        (32, 3, 2),
        (64, 3, 1),
    ]


def test_training_repeats_itself_and_another_seed_sharing_temperature_or_optimiser_does_not(worlds):
    results = {}
    soft, adam = replace(TRAINING, temperature=1.0), replace(TRAINING, momentum=None)
    for name, shared, seed, params in (
        ("one", ["digit"], 0, TRAINING),
        ("again", ["digit"], 0, TRAINING),
        ("seed", ["digit"], 1, TRAINING),
        ("sharing", ["position"], 0, TRAINING),
        ("temperature", ["digit"], 0, soft),
        ("optimiser", ["digit"], 0, adam),
    ):
        views, loss = train_views(worlds[0], params, shared, seed)
        results[name] = torch.cat([weight.flatten() for weight in views.state_dict().values()]), loss
    assert torch.equal(results["one"][0], results["again"][0])
    for name in ("seed", "sharing", "temperature", "optimiser"):
        assert not torch.equal(results["one"][0], results[name][0])
        assert results[name][1] != results["one"][1]


def test_a_training_whose_loss_or_weight_is_no_longer_finite_ends_with_its_rate():
    """argmax of NaN is a class, and its error would pass for a result."""
    ends = iter([0.0, 0.0, 0.0, torch.nan])
    for loss in (
        lambda weight: weight.sum() * torch.nan,
        lambda weight: weight.sum().clamp(1, 1) + weight.sqrt().sum(),
        lambda weight: weight.sum() + next(ends),
    ):
        network = nn.utils.skip_init(nn.Linear, 1, 1, bias=False)
        nn.init.zeros_(network.weight)
        with pytest.raises(InputError, match=r"not finite in epoch 1 with learning rate 0\.\d+; lower it"):
            fit(network, lambda _, loss=loss, network=network: loss(network.weight), replace(TRAINING, videos=16), 0)


def test_the_rate_falls_along_half_a_cosine_and_the_loss_is_the_mean_of_the_last_epoch():
    """The losses are 1, 2, 3 and 4 with a gradient of 1, in two epochs of two steps."""
    network, values = nn.utils.skip_init(nn.Linear, 1, 1, bias=False), iter((1.0, 2.0, 3.0, 4.0))
    nn.init.zeros_(network.weight)
    params = replace(TRAINING, epochs=2, momentum=0.0)

    def loss(random):
        assert random.initial_seed() == derive(7, "videos")
        return network.weight.sum() - network.weight.sum().detach() + next(values)

    assert fit(network, loss, params, 7) == 3.5
    moved = 0.01 * sum((1 + math.cos(math.pi * step / 4)) / 2 for step in range(4))
    assert -network.weight.item() == pytest.approx(moved, abs=1e-6)


def test_a_head_finds_what_lies_in_the_features_and_nothing_elsewhere(generator):
    features = torch.randn(2000, 6, generator=generator)
    places = features[:, :2] * 3 + 5
    head = fit_head(features, places, FactorTask("position", 2), 1e-6)
    assert FactorTask("position", 2).errors(head(features), places).max() < 0.01
    labels = (features[:, 2] > 0).long()
    visible, hidden = features[:, :3], features[:, 3:]
    for inputs, expected in ((visible, pytest.approx(0, abs=0.01)), (hidden, pytest.approx(0.5, abs=0.05))):
        head = fit_head(inputs, labels, FactorTask("digit", 2), 1e-4)
        assert FactorTask("digit", 2).errors(head(inputs), labels).mean().item() == expected


def test_a_position_s_head_is_ridge_regression_with_the_stated_decay(generator):
    features, places = torch.randn(200, 4, generator=generator) + 1, 3 * torch.randn(200, 2, generator=generator) + 5
    head = fit_head(features, places, FactorTask("position", 2), 0.3)
    x, y = features - features.mean(dim=0), places - places.mean(dim=0)
    expected = torch.linalg.solve(x.T @ x / 200 + 0.3 * torch.eye(4), x.T @ y / 200).T
    torch.testing.assert_close(head.weight, expected, atol=1e-3, rtol=1e-3)


def test_heads_see_features_less_the_mean_and_over_the_one_spread_of_those_they_learn_from(
    worlds, generator, monkeypatch
):
    frames, test = Frames.drawn(worlds[0], 60, 0, "train"), Frames.drawn(worlds[1], 40, 0, "test")
    features, unseen = 3 * torch.randn(60, 5, generator=generator) + 2, torch.rand(40, 5, generator=generator)
    inputs = []

    def record(batch, truth, task, decay):
        inputs.append(batch)
        return lambda batch: inputs.append(batch) or torch.zeros(len(batch), task.outputs)

    monkeypatch.setattr(Frames, "through", lambda self, _: features if self is frames else unseen)
    monkeypatch.setattr(digit_readouts, "fit_head", record)
    read_out(nn.Identity(), frames, test, TRAINING)
    spread = (features - features.mean(dim=0)).square().mean() ** 0.5
    for batch, expected in zip(inputs, [features, unseen] * 3, strict=True):
        torch.testing.assert_close(batch, (expected - features.mean(dim=0)) / spread)


def test_errors_are_of_unseen_frames_and_a_supervised_network_is_asked_its_own_task(worlds):
    train, unseen = worlds
    frames, test = Frames.drawn(train, 60, 0, "train"), Frames.drawn(unseen, 40, 0, "test")
    errors_by_factor = read_out(build_views(0).image, frames, test, TRAINING)
    assert {name: len(errors) for name, errors in errors_by_factor.items()} == dict.fromkeys(FACTORS, 40)
    assert set(errors_by_factor["digit"].tolist()) == set(errors_by_factor["background"].tolist()) == {0.0, 1.0}
    assert errors_by_factor["position"].max() <= 2 * 8 * math.sqrt(2)
    assert factor_tasks(train) == [FactorTask("digit", 10), FactorTask("background", 10), FactorTask("position", 2)]
    network = train_supervised(train, TRAINING, FactorTask("background", 10), 0)
    assert test.through(network).shape == (40, 10)
    fresh = build_views(derive(0, "weights")).image
    weight_pairs = zip(network[0].parameters(), fresh.parameters(), strict=True)
    assert not any(torch.equal(*pair) for pair in weight_pairs if pair[0].ndim > 1), (
        "the backbone learns, not the head alone"
    )


@pytest.mark.parametrize("task", [FactorTask("digit", 10), FactorTask("background", 10), FactorTask("position", 2)])
def test_a_supervised_network_learns_the_truth_of_the_frames_that_it_sees(task, worlds, monkeypatch):
    losses = []
    monkeypatch.setattr(digit_training, "fit", lambda network, loss, *_: losses.append(loss))
    network, scenes = train_supervised(worlds[0], TRAINING, task, 0), worlds[0].scenes(4, named(0, "frames"))
    expected = task.loss(network(worlds[0].pixels(scenes)), task.truth(worlds[0], scenes))
    torch.testing.assert_close(losses[0](named(0, "frames")), expected)


def test_a_frame_is_read_out_by_itself_and_a_read_out_leaves_the_network_as_it_is(worlds):
    """A read-out uses evaluation mode: batch-norm applies its running statistics and keeps them."""
    network, frames = build_views(0).train(), Frames.drawn(worlds[0], 6, 0, "train")
    for layer in network.modules():
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean += 0.1
    before = copy.deepcopy(network.state_dict())
    features = frames.through(network.image)
    alone = Frames(frames.world, Scenes(*(each[:1] for each in frames.scenes))).through(network.image)
    torch.testing.assert_close(alone, features[:1])
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)


def test_rows_are_means_over_seeds_and_frames_and_pairs_take_differences_frame_by_frame():
    digit = {0: [1.0, 0.0, 1.0, 1.0], 1: [1.0, 0.0, 0.0, 1.0]}
    both = {0: [0.0, 0.0, 1.0, 1.0], 1: [0.0, 0.0, 0.0, 1.0]}
    errors_of_sharings = {
        name: {
            seed: dict.fromkeys(("digit", "background"), torch.tensor(errors))
            | {"position": torch.tensor(errors) * 3, "loss_nats": 1.0 + seed}
            for seed, errors in seed_errors.items()
        }
        for name, seed_errors in (("digit", digit), ("digit + position", both))
    }
    first, second = rows(errors_of_sharings, TRAINING)
    assert (first["sharing"], first["digit_error_percent"], first["position_error_pixels"]) == ("digit", 62.5, 1.875)
    assert (first["digit_error_seed0_percent"], first["position_error_seed1_pixels"]) == (75.0, 1.5)
    assert second["bound_nats"] == pytest.approx(math.log(4) - 1.5)
    (pair,) = pairs(errors_of_sharings, TRAINING)
    assert (pair["sharing"], pair["over"], pair["digit_gain_percent"]) == ("digit + position", "digit", -25.0)
    assert [pair[f"{task}_verdict"].split()[-1] for task in FACTORS] == ["points)", "points)", "pixels)"]
    table = np.array([[-1, 0, 0, 0], [-1, 0, 0, 0]])
    assert pair["digit_gain_interval_percent"] == pytest.approx(100 * 3.182446 * table.mean(axis=0).std(ddof=1) / 2)


def test_a_sharing_with_smaller_errors_is_better():
    sharings = {
        name: {seed: dict.fromkeys(FACTORS, torch.full((4,), error)) for seed in (0, 1)}
        for name, error in (("digit", 1.0), ("digit + position", 0.0))
    }
    (pair,) = pairs(sharings, TRAINING)
    assert {pair[f"{task}_verdict"] for task in FACTORS} == {"better"}


def test_all_seeds_are_tested_on_the_same_unseen_frames_and_each_learns_from_its_own(worlds, tmp_path, monkeypatch):
    path, calls = tmp_path / "images.safetensors", []
    save_images(path, tuple(world.images for world in worlds))
    run = {"world": plain(WORLD), "training": plain(TRAINING), "images": str(path), "test_seed": 3}
    monkeypatch.setattr(digit_rows, "read_out", lambda *arguments: calls.append(arguments[:3]) or {})
    for seed in (3, 4):
        evaluate_sharing(run, ("untrained", seed))
    for (image, frames, test), seed in zip(calls, (3, 4), strict=True):
        assert torch.equal(image[1].weight, build_views(derive(seed, "weights")).image[1].weight)
        drawn = (Frames.drawn(worlds[0], 60, seed, "read-out frames"), Frames.drawn(worlds[1], 40, 3, "test frames"))
        for frame, expected in zip((frames, test), drawn, strict=True):
            assert all(map(torch.equal, frame.scenes, expected.scenes))
            assert torch.equal(frame.world.images.digits, expected.world.images.digits)


def folder(root, size=28, classes=("0", "1"), splits=("train", "test")):
    for split, name in itertools.product(splits, classes):
        (root / split / name).mkdir(parents=True)
        for number in range(3):
            Image.new("L", (size, size), 40 * number + 100).save(root / split / name / f"{number}.png")
    return root


def test_digits_and_grounds_may_come_from_folders_and_are_packed_as_they_are(tmp_path):
    root, path = str(folder(tmp_path / "own")), tmp_path / "images.safetensors"
    both = replace(WORLD, digits=root, grounds=root)
    images = make_images(both, 0)
    save_images(path, images)
    for split, again in zip(images, load_images(path), strict=True):
        assert (split.digits.shape, split.grounds.shape) == ((6, 8, 8), (6, 3, 20, 20))
        assert split.digit_labels.tolist() == [0, 0, 0, 1, 1, 1]
        assert split.digits[:3, 0, 0].tolist() == [100, 140, 180]
        assert all(map(torch.equal, split, again))
    run = {"world": plain(both), "training": plain(TRAINING), "images": path, "test_seed": 0}
    assert len(evaluate_sharing(run, ("digit", 0))["digit"]) == 40


def test_a_folder_without_images_of_classes_is_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    bare = folder(tmp_path / "bare", classes=())
    (bare / "train").mkdir(parents=True)
    (bare / "test").mkdir()
    broken = folder(tmp_path / "broken")
    (broken / "train/0/9.png").write_bytes(b"no picture")
    unlike = folder(tmp_path / "unlike")
    (unlike / "test/1").rename(unlike / "test/7")
    for root, sentence in (
        (
            "none",
            r"world\.digits: .*none has no folder train; images lie .*, or null for scikit-learn",
        ),
        ("empty", "has no folder train"),
        ("bare", "bare/train has no class folders; images lie in train/CLASS"),
        ("broken", r"train/0/9\.png \(.*\) cannot be read; replace it or move it away"),
        ("unlike", "train and test of .*unlike have other classes; give both the same folders"),
    ):
        with pytest.raises(InputError, match=sentence):
            make_images(replace(WORLD, digits=str(tmp_path / root)), 0)


def test_a_size_or_a_factor_that_cannot_be_is_refused():
    for model, base, changes, sentence in (
        (WorldParams, WORLD, {"digit": 16}, "digit: 16 px on a canvas of 16 px cannot move; take a smaller digit"),
        (WorldParams, WORLD, {"ground": 15}, "ground: 15 px, of which a frame crops 16 px; take ground at least"),
        (
            DigitsTrainingParams,
            TRAINING,
            {"sharings": [["postion"]]},
            "factor 'postion' is none of digit, background, .*'position'",
        ),
        (DigitsTrainingParams, TRAINING, {"sharings": [["digit", "digit"]]}, "a factor stands twice; name each once"),
        (
            DigitsTrainingParams,
            TRAINING,
            {"sharings": [["digit"], ["digit"]]},
            "sharings: digit stands twice; delete one",
        ),
        (DigitsTrainingParams, TRAINING, {"videos": 3}, "videos: 3 fill no batch of 4; take more videos"),
    ):
        with pytest.raises(ValueError, match=sentence):
            filled(model, plain(base) | changes)
    filled(DigitsTrainingParams, plain(TRAINING) | {"videos": 4})
    filled(WorldParams, plain(WORLD) | {"train_grounds": 10, "ground": 16, "digit": 15})
    filled(WorldParams, plain(WORLD) | {"train_grounds": 9, "grounds": "photos"})


def test_images_hold_both_splits_apart():
    train, test = make_images(WORLD, 0)
    assert isinstance(train, DigitImages)
    assert (len(train.digits), len(test.digits), len(train.grounds), len(test.grounds)) == (1297, 500, 30, 20)
    other, _ = make_images(WORLD, 1)
    assert torch.equal(train.digits, other.digits)
    assert not torch.equal(train.grounds, other.grounds)
    assert not set(map(bytes, train.digits.flatten(1).numpy())) & set(map(bytes, test.digits.flatten(1).numpy()))
    assert (train.digits.amin(), train.digits.amax()) == (0, 255), "black to white, not scikit-learn's 0 to 16"

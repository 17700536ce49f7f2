"""The engine of torchvision: trained and frozen weights, the same bits again, and correct targets."""

from dataclasses import replace

import pytest
import torch
from detector_cases import SIDE, detector_params, encoder, rectangles, training_params
from torch import nn

from annulus.errors import InputError
from annulus.running.checkpoint import Checkpoint
from annulus_lab.studies.detection import fitting
from annulus_lab.studies.detection.annotated import decode_mask
from annulus_lab.studies.detection.detector import Detector, DetectorInput
from annulus_lab.studies.detection.levels import Levels
from annulus_lab.studies.detection.samples import (
    category_labels,
    keypoint_pixels,
    mirrored,
    order,
    read_sample,
    repeat_factors,
)
from annulus_lab.studies.detection.torchvision_engine import Reader, build_detector, detect, train_detector


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return rectangles(tmp_path_factory.mktemp("keypoints"), "keypoints")


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return rectangles(tmp_path_factory.mktemp("masks"))


def train(scenes, params=None, seed=0, checkpoint=None, **training):
    params = params or detector_params()
    return train_detector(encoder(), scenes, params, training_params(**training), seed, checkpoint)


@pytest.mark.parametrize("neck", ["fpn", "c4"])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_backbone_keeps_weights_and_statistics_and_only_that(neck, frozen, scenes):
    network, params = encoder(), detector_params(outputs="masks", neck=neck, frozen=frozen)
    detector, _ = train_detector(network, scenes, params, training_params(iterations=3, drops=[]), 0, None)
    before = encoder().state_dict()
    equal = [torch.equal(value, before[name]) for name, value in network.state_dict().items() if "head" not in name]
    assert all(equal) if frozen else not any(equal)
    fresh = build_detector(encoder(), scenes, params, 0).rpn.state_dict()
    assert not any(torch.equal(value, fresh[name]) for name, value in detector.rpn.named_parameters())


def test_the_last_stage_of_c4_sees_boxes_alone(scenes):
    """Otherwise batch normalisation would mix statistics of whole images into the boxes' statistics."""
    detector = build_detector(encoder(), scenes, detector_params(neck="c4", frozen=False), 0).train()
    detector.losses(Reader(detector, scenes, 0).batch([0, 1], step=0))
    counts = [
        [module.num_batches_tracked.item() for module in stage.modules() if isinstance(module, nn.BatchNorm2d)]
        for stage in detector.levels.stages
    ]
    assert {count for stage in counts for count in stage} == {1}


def test_the_same_seed_gives_the_same_bits_and_leaves_torchs_generator_alone(scenes):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    runs = [train(scenes, detector_params(outputs="masks"), seed) for seed in (0, 0, 1)]
    assert torch.equal(torch.get_rng_state(), before)
    assert runs[0][1] == runs[1][1] != runs[2][1]
    torch.testing.assert_close(runs[0][0].state_dict(), runs[1][0].state_dict(), rtol=0, atol=0)


def test_weights_and_biases_decay_and_those_of_batch_normalisation_do_not():
    network = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Conv2d(4, 2, 1))
    nn.init.ones_(network[1].bias)
    before = {name: value.clone() for name, value in network.named_parameters()}
    params = training_params(iterations=1, drops=[], warmup=0, learning_rate=0.1, weight_decay=0.5).scaled()
    fitting.fit(network, lambda step: {"none": 0 * sum(one.sum() for one in network.parameters())}, params, 0, None)
    for name, value in network.named_parameters():
        times = 1 if name.startswith("1.") else 1 - params.rate(0) * 0.5
        torch.testing.assert_close(value, times * before[name])
        assert before[name].any()


def test_a_detector_s_loss_is_the_mean_of_the_last_tenth_of_its_steps():
    network, params = nn.Linear(1, 1), training_params(iterations=20, drops=[])
    assert fitting.fit(network, lambda step: {"one": 0 * network.weight.sum() + step}, params, 0, None) == 18.5


def test_proposals_and_heads_have_the_papers_thresholds_and_shares_and_the_stated_counts():
    """Ren et al. 2015, arXiv:1506.01497, Section 3.1.2; Girshick 2015, arXiv:1504.08083, Section 2.3."""
    params = detector_params(proposals_train=[50, 20], proposals_test=[30, 10])
    detector = Detector(Levels(encoder()), params, 2, 0).train()
    rpn = detector.rpn
    assert (rpn.pre_nms_top_n(), rpn.post_nms_top_n()) == (50, 20)
    rpn.eval()
    assert (rpn.pre_nms_top_n(), rpn.post_nms_top_n()) == (30, 10)
    for part, high, low, nms, positive in ((rpn, 0.7, 0.3, 0.7, 0.5), (detector.heads, 0.5, 0.5, 0.5, 0.25)):
        matcher = part.proposal_matcher
        assert (matcher.high_threshold, matcher.low_threshold, part.nms_thresh) == (high, low, nms)
        assert part.fg_bg_sampler.positive_fraction == positive


def test_anchors_lie_a_stride_apart_on_every_map(scenes):
    """The coarsest map halves 5 x 5 to 3 x 3: its stride is 16, while 40 pixels over 3 places would give 13."""
    detector = build_detector(encoder(), scenes, detector_params(shorter=[40], shorter_test=40), 0).eval()
    read = detector.read(read_sample(scenes.pictures[0], category_labels(scenes), "boxes"))
    maps, images = detector._maps([read])
    sizes = [level.shape[2:] for level in maps.values()]
    assert [tuple(size) for size in sizes] == [(20, 20), (10, 10), (5, 5), (3, 3)]
    (anchors,) = detector.rpn.anchor_generator(images, list(maps.values()))
    levels = anchors.split([3 * size.numel() for size in sizes])
    for level, size, stride in zip(levels, sizes, (2, 4, 8, 16), strict=True):
        corners = level.unflatten(0, (*size, 3))[:, :, 0]
        assert (corners[1:, :, 1] - corners[:-1, :, 1] == stride).all()
        assert (corners[:, 1:, 0] - corners[:, :-1, 0] == stride).all()


@pytest.mark.parametrize("frozen", [True, False])
def test_a_killed_run_goes_on_at_the_same_bits(frozen, scenes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fitting, "SAVE_EVERY", 3)
    params, path = detector_params(frozen=frozen), tmp_path / "state.pt"
    whole, loss = train(scenes, params)
    with Checkpoint("detection", {"piece": 0}) as checkpoint:
        monkeypatch.setattr(checkpoint, "save", lambda state: torch.save(state, path))
        train(scenes, params, checkpoint=checkpoint)
        state = torch.load(path)
        assert state["step"] == 3
        assert any(name.startswith("levels") for name in state["network"]) != frozen
        monkeypatch.setattr(checkpoint, "load", lambda: state)
        again, loss_again = train(scenes, params, checkpoint=checkpoint)
    assert loss_again == loss
    torch.testing.assert_close(again.state_dict(), whole.state_dict(), rtol=0, atol=0)


def test_kept_maps_are_those_of_the_network_and_are_made_once_of_images_that_always_look_alike(scenes, monkeypatch):
    network = encoder()
    detector = build_detector(network, scenes, detector_params(), 0).train()
    reader = Reader(detector, scenes, 0)
    first = reader.batch([2, 4], step=0)
    sample = read_sample(reader.pictures[2], reader.labels, "boxes")
    torch.testing.assert_close(first[0].maps[-1][None], network.map(sample.image[None]), atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(detector, "read", lambda _: pytest.fail("computed again"))
    assert reader.batch([4, 2], step=1)[1] is first[0]
    for changes in ({"flip": True}, {"shorter": [SIDE, 40]}, {"frozen": False}):
        assert not Reader(build_detector(encoder(), scenes, detector_params(**changes), 0), scenes, 0).same


@pytest.mark.parametrize("flip", [True, False])
def test_half_of_the_training_pictures_are_mirrored_where_asked_and_none_elsewhere(flip, scenes, monkeypatch):
    detector = build_detector(encoder(), scenes, detector_params(flip=flip, frozen=False), 0)
    monkeypatch.setattr(detector, "read", lambda sample: DetectorInput([sample.image], (SIDE, SIDE), sample.target))
    reader, flips = Reader(detector, scenes, 0), 0
    plain = read_sample(reader.pictures[0], reader.labels, "boxes")
    for read in reader.batch([0] * 400, step=3):
        expected = plain if torch.equal(read.maps[0], plain.image) else mirrored(plain, None)
        assert torch.equal(read.target["boxes"], expected.target["boxes"])
        flips += expected is not plain
    assert 160 < flips < 240 if flip else flips == 0  # four standard deviations


def test_targets_are_the_annotations(scenes):
    labels, picture = category_labels(scenes), scenes.pictures[0]
    assert labels == {3: 1, 7: 2}
    target = read_sample(picture, labels, "masks").target
    for place, instance in enumerate(picture.instances):
        left, top, width, height = instance.box
        assert target["boxes"][place].tolist() == [left, top, left + width, top + height]
        assert target["labels"][place] == labels[instance.category]
        assert torch.equal(target["masks"][place].bool(), torch.from_numpy(decode_mask(instance, SIDE, SIDE)))


def test_a_mirrored_picture_has_mirrored_targets(scenes, people):
    masks = read_sample(scenes.pictures[0], category_labels(scenes), "masks")
    assert torch.equal(mirrored(masks, None).target["masks"], masks.target["masks"].flip(-1))
    sample = read_sample(people.pictures[0], category_labels(people), "keypoints")
    mirror = mirrored(sample, people.flip_pairs)
    assert torch.equal(mirror.image[:, :, 0], sample.image[:, :, -1])
    for (left, top, right, bottom), box in zip(sample.target["boxes"], mirror.target["boxes"], strict=True):
        assert box.tolist() == [SIDE - right, top, SIDE - left, bottom]
    points, other = sample.target["keypoints"], mirror.target["keypoints"]
    assert other[0, 1, 0] == SIDE - points[0, 2, 0], "the left eye was the right one"
    assert not other[0, 0].any(), "a point that is not labelled has no place"
    at = people.pictures[0].instances[0].keypoints
    torch.testing.assert_close(points[0, :, :2], torch.tensor(at).reshape(-1, 3)[:, :2] + 0.5)  # the middle of a pixel
    assert keypoint_pixels(points[0]) == pytest.approx(at)
    labelled, twice = points[..., 2] > 0, mirrored(mirror, people.flip_pairs).target
    torch.testing.assert_close(twice["keypoints"][labelled], points[labelled])
    assert torch.equal(twice["boxes"], sample.target["boxes"])


def test_rare_categories_are_repeated(scenes):
    categories = [{one.category for one in picture.instances} for picture in scenes.pictures]
    shares = {category: sum(category in some for some in categories) / len(categories) for category in (3, 7)}
    expected = [max((2 / shares[category]) ** 0.5 for category in some) for some in categories]
    assert repeat_factors(scenes.pictures, 2.0) == pytest.approx(expected)
    assert repeat_factors(scenes.pictures, 1e-9) == [1.0] * len(categories)
    endless = order([1.0, 2.5], seed=0)
    draws = [next(endless) for _ in range(7000)]
    assert draws.count(1) / draws.count(0) == pytest.approx(2.5, rel=0.02)


def test_boxes_of_an_image_of_another_size_are_in_the_pixels_of_the_file(scenes):
    params = detector_params(shorter_test=48, score_threshold=0.0, detections=1000)
    detections = detect(build_detector(encoder(), scenes, params, 0), scenes)
    assert {one.picture for one in detections} == {picture.id for picture in scenes.pictures}
    assert 0.7 * SIDE < max(one.box[0] + one.box[2] for one in detections) <= SIDE, "of 48 pixels it would be larger"
    assert {one.category for one in detections} <= {3, 7}


def test_a_detector_that_cannot_be_built_for_its_encoder_or_scenes_is_refused(scenes):
    with pytest.raises(InputError, match=r"\[8, 16\] for 3 levels .*strides 2, 4, 8\) and a smaller one; give 4 sizes"):
        build_detector(encoder(), scenes, detector_params(anchors=[8, 16]), 0)
    with pytest.raises(InputError, match="no training picture has an object with keypoints"):
        train(scenes, detector_params(outputs="keypoints"))


def test_a_loss_that_is_no_number_stops_the_run(scenes):
    with pytest.raises(InputError, match=r"the loss is (nan|inf) at step \d+ \(.*loss_classifier.*lower training.lear"):
        train(scenes, learning_rate=1000.0, iterations=40)


def test_an_image_that_is_not_as_annotated_is_refused(scenes):
    picture = replace(scenes.pictures[0], width=99)
    with pytest.raises(InputError, match=r"0.png has 32 x 32 pixels, its annotation says 99 x 32"):
        read_sample(picture, {3: 1, 7: 2}, "boxes")
    with pytest.raises(InputError, match="no image that can be read"):
        read_sample(replace(picture, file=picture.file.with_name("none.png")), {3: 1, 7: 2}, "boxes")

"""The engine of torchvision: what learns and what does not, the same bits again, and targets that are kept right."""

import pytest
import torch
from detector_cases import SIDE, detector_params, encoder, rectangles, same_weights, training_params

from annulus.detection import fitting
from annulus.detection.annotated import mask_of
from annulus.detection.samples import labels_of, mirrored, order, pixels_of, read_sample, repeat_factors
from annulus.detection.torchvision_engine import Reader, build_detector, detect, train_detector
from annulus.errors import InputError
from annulus.pipeline.checkpoint import Checkpoint


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return {kind: rectangles(tmp_path_factory.mktemp(kind), 6, kind) for kind in ("masks", "keypoints")}


@pytest.mark.parametrize("neck", ["fpn", "c4"])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_backbone_keeps_weights_and_statistics_and_only_that(neck, frozen, scenes):
    network = encoder()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    params = detector_params(outputs="masks", neck=neck, frozen=frozen)
    detector, _ = train_detector(network, scenes["masks"], params, training_params(iterations=3, drops=[]), 0, None)
    backbone = {name: value for name, value in network.state_dict().items() if "head" not in name}
    equal = [torch.equal(value, before[name]) for name, value in backbone.items()]
    assert all(equal) if frozen else not any(equal)
    fresh = build_detector(encoder(), scenes["masks"], params, 0)
    learned = [
        name for name, value in detector.rpn.named_parameters() if not torch.equal(value, fresh.rpn.state_dict()[name])
    ]
    assert len(learned) == len(list(detector.rpn.parameters()))


def test_the_same_seed_gives_the_same_bits_and_leaves_torchs_generator_alone(scenes):
    torch.manual_seed(5)
    expected, found = torch.rand(3, generator=torch.Generator().manual_seed(5)), []
    for seed in (0, 0, 1):
        detector, loss = train_detector(
            encoder(), scenes["masks"], detector_params(outputs="masks"), training_params(), seed, None
        )
        found.append((loss, detector.state_dict()))
        torch.randperm(3)
        torch.manual_seed(5)
    assert torch.equal(torch.rand(3), expected)
    assert found[0][0] == found[1][0] != found[2][0]
    assert all(torch.equal(value, found[1][1][name]) for name, value in found[0][1].items())


@pytest.mark.parametrize("frozen", [True, False])
def test_a_killed_run_goes_on_at_the_same_bits(frozen, scenes, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fitting, "SAVE_EVERY", 3)
    params, training = detector_params(frozen=frozen), training_params()
    whole, loss = train_detector(encoder(), scenes["masks"], params, training, 0, None)
    with Checkpoint("detection", {"piece": 0}) as checkpoint:
        kept = {}
        monkeypatch.setattr(checkpoint, "save", lambda state: kept.update(torch.load(_written(state, tmp_path))))
        train_detector(encoder(), scenes["masks"], params, training, 0, checkpoint)
        assert kept["step"] == 3
        assert any(name.startswith("levels") for name in kept["network"]) != frozen
        monkeypatch.setattr(checkpoint, "load", lambda: kept)
        again, loss_again = train_detector(encoder(), scenes["masks"], params, training, 0, checkpoint)
    assert loss_again == loss
    assert same_weights(again, whole.state_dict())


def _written(state, folder):
    torch.save(state, folder / "state.pt")
    return folder / "state.pt"


def test_kept_maps_are_those_of_the_network_and_are_made_once(scenes, monkeypatch):
    network = encoder()
    detector = build_detector(network, scenes["masks"], detector_params(), 0).train()
    reader = Reader(detector, scenes["masks"], 0)
    first = reader.batch([2, 4], step=0)
    sample = read_sample(reader.pictures[2], reader.labels, "boxes")
    torch.testing.assert_close(first[0].maps[-1][None], network.map(sample.image[None]), atol=1e-5, rtol=1e-5)
    monkeypatch.setattr(detector, "read", lambda _: pytest.fail("computed again"))
    assert reader.batch([4, 2], step=1)[1] is first[0]


def test_maps_of_images_that_differ_by_look_are_not_kept(scenes):
    for changes in ({"flip": True}, {"shorter": [SIDE, 40]}, {"frozen": False}):
        detector = build_detector(encoder(), scenes["masks"], detector_params(**changes), 0)
        assert not Reader(detector, scenes["masks"], 0).same


def test_targets_are_the_annotations(scenes):
    annotated = scenes["masks"]
    labels = labels_of(annotated)
    assert labels == {3: 1, 7: 2}
    picture = annotated.pictures[0]
    target = read_sample(picture, labels, "masks").target
    for place, instance in enumerate(picture.instances):
        left, top, width, height = instance.box
        assert target["boxes"][place].tolist() == [left, top, left + width, top + height]
        assert target["labels"][place] == labels[instance.category]
        assert torch.equal(target["masks"][place].bool(), torch.from_numpy(mask_of(instance, SIDE, SIDE)))


def test_a_mirrored_picture_has_mirrored_targets(scenes):
    annotated = scenes["keypoints"]
    sample = read_sample(annotated.pictures[0], labels_of(annotated), "keypoints")
    turned = mirrored(sample, annotated.flip_pairs)
    assert torch.equal(turned.image[:, :, 0], sample.image[:, :, -1])
    for (left, top, right, bottom), box in zip(sample.target["boxes"], turned.target["boxes"], strict=True):
        assert box.tolist() == [SIDE - right, top, SIDE - left, bottom]
    points, other = sample.target["keypoints"], turned.target["keypoints"]
    assert other[0, 1, 0] == SIDE - points[0, 2, 0], "the left eye was the right one"
    assert not other[0, 0].any(), "a point that is not labelled has no place"
    twice = mirrored(turned, annotated.flip_pairs)
    labelled = points[..., 2] > 0
    at = torch.tensor(annotated.pictures[0].instances[0].keypoints).reshape(-1, 3)
    torch.testing.assert_close(points[0, :, :2], at[:, :2] + 0.5)  # the middle of a pixel
    assert pixels_of(points[0]) == pytest.approx(annotated.pictures[0].instances[0].keypoints)
    torch.testing.assert_close(twice.target["keypoints"][labelled], points[labelled])
    assert torch.equal(twice.target["boxes"], sample.target["boxes"])


def test_rare_categories_are_repeated(scenes):
    pictures = scenes["masks"].pictures
    shares = {
        category: sum(any(one.category == category for one in picture.instances) for picture in pictures)
        / len(pictures)
        for category in (3, 7)
    }
    factors = repeat_factors(pictures, 2.0)
    for picture, factor in zip(pictures, factors, strict=True):
        assert factor == pytest.approx(max((2 / shares[one.category]) ** 0.5 for one in picture.instances))
    assert repeat_factors(pictures, 1e-9) == [1.0] * len(pictures)
    endless, shown = order([1.0, 2.5], seed=0), []
    for _ in range(7000):
        shown.append(next(endless))
    assert shown.count(1) / shown.count(0) == pytest.approx(2.5, rel=0.02)


def test_boxes_of_an_image_of_another_size_are_in_the_pixels_of_the_file(scenes):
    annotated = scenes["masks"]
    detector = build_detector(
        encoder(), annotated, detector_params(shorter_test=48, score_threshold=0.0, detections=1000), 0
    )
    found = detect(detector, annotated)
    assert found
    assert {one.picture for one in found} == {picture.id for picture in annotated.pictures}
    right = max(one.box[0] + one.box[2] for one in found)
    assert 0.7 * SIDE < right <= SIDE, "of 48 pixels it would be larger"
    assert {one.category for one in found} <= {3, 7}


def test_a_wrong_number_of_anchors_is_refused(scenes):
    with pytest.raises(
        InputError,
        match=r"anchors: \[8, 16\] for 3 levels of this encoder \(strides 2, 4, 8\) and a smaller one; give 4 sizes",
    ):
        build_detector(encoder(), scenes["masks"], detector_params(anchors=[8, 16]), 0)


def test_keypoints_of_c4_are_refused(scenes):
    with pytest.raises(InputError, match="outputs: keypoints with neck: c4 is not built; take neck: fpn"):
        build_detector(encoder(), scenes["keypoints"], detector_params(outputs="keypoints", neck="c4"), 0)


def test_a_loss_that_is_no_number_stops_the_run(scenes):
    with pytest.raises(
        InputError, match=r"the loss is (nan|inf) at step \d+ \(.*loss_classifier.*lower training.learning_rate"
    ):
        train_detector(
            encoder(), scenes["masks"], detector_params(), training_params(learning_rate=1000.0, iterations=40), 0, None
        )


def test_scenes_without_what_is_asked_for_are_refused(scenes):
    with pytest.raises(InputError, match="no training picture has an object with keypoints"):
        train_detector(encoder(), scenes["masks"], detector_params(outputs="keypoints"), training_params(), 0, None)


def test_an_image_of_another_size_than_its_annotation_is_refused(scenes):
    from dataclasses import replace

    picture = replace(scenes["masks"].pictures[0], width=99)
    with pytest.raises(InputError, match=r"0.png has 32 x 32 pixels, its annotation says 99 x 32"):
        read_sample(picture, {3: 1, 7: 2}, "boxes")
    with pytest.raises(InputError, match="no image that can be read"):
        read_sample(replace(picture, file=picture.file.with_name("none.png")), {3: 1, 7: 2}, "boxes")

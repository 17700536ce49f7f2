"""The engine of Detectron2 beside torchvision's, where Detectron2 is installed, and its refusals."""

from dataclasses import replace

import pytest
import torch
from detector_cases import detector_params, encoder, rectangles, training_params
from test_detection_levels import MEAN, STD, trained
from torch import nn

from annulus.errors import InputError
from annulus.running.checkpoint import Checkpoint
from annulus.views.splits import ColourSplit
from annulus_lab.studies.detection import fitting
from annulus_lab.studies.detection.average_precision import evaluate
from annulus_lab.studies.detection.levels import Levels
from annulus_lab.studies.detection.roi_align import masks_in_boxes
from annulus_lab.studies.detection.samples import category_labels, read_sample
from annulus_lab.studies.detection.torchvision_engine import build_detector

pytest.importorskip("detectron2", reason="Detectron2 is not installed; it is built from source, as its own pages say")

from detectron2.structures import BitMasks, Boxes

from annulus_lab.studies.detection import detectron2_engine as engine

ANCHORS = [8, 12, 16, 24, 32]


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    return {kind: rectangles(tmp_path_factory.mktemp(kind), kind) for kind in ("masks", "keypoints")}


def build_model(network, annotated, **changes):
    params = detector_params(outputs="masks", anchors=ANCHORS, **changes)
    config = engine.build_config(network, annotated, params)
    return engine.build(network, config, params, 0), config, params


@torch.no_grad()
@pytest.mark.parametrize("neck", ["fpn", "c4"])
@pytest.mark.parametrize("architecture", ["resnet18", "resnet50"])
def test_every_level_is_the_encoders_and_the_pixels_are_normalised_alike(architecture, neck, scenes, generator):
    network = trained(architecture=architecture)
    levels, images = Levels(network), torch.rand(1, 3, 64, 96, generator=generator)
    model = build_model(network, scenes["masks"], neck=neck)[0].eval()
    planes = model.preprocess_image([{"image": 255 * images[0]}]).tensor
    expected = (images - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    for each in (planes, levels.planes(images)):
        torch.testing.assert_close(each, expected, atol=1e-5, rtol=1e-5)
    theirs = list((model.backbone.bottom_up if neck == "fpn" else model.backbone)(planes).values())
    if neck == "c4":
        theirs.append(model.roi_heads.res5(theirs[0]))
    for one, other in zip(theirs, levels(images)[2 if neck == "c4" else 0 :], strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)


def test_both_engines_make_the_same_pixels_of_a_file(scenes):
    """The picture is not resized: the pixels depend on reading, order of channels and normalisation."""
    annotated, network = scenes["masks"], trained()
    model, config, params = build_model(network, annotated)
    picture = annotated.pictures[0]
    read = engine.build_mapper(config, annotated, training=False)(engine.picture_record(picture, {}, None))
    theirs = model.preprocess_image([read]).tensor
    sample = read_sample(picture, category_labels(annotated), "masks")
    images, _ = build_detector(network, annotated, params, 0).eval().transform([sample.image], [sample.target])
    torch.testing.assert_close(theirs, images.tensors, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("neck", ["fpn", "c4"])
def test_both_engines_read_the_same_of_a_box_and_teach_masks_the_same(neck, scenes):
    """The map grows evenly: any number of samples in a bin reads the same value."""
    annotated, network = scenes["masks"], trained()
    model, _, params = build_model(network, annotated, neck=neck)
    ours = build_detector(network, annotated, params, 0)
    pools = (ours.heads.box_roi_pool, model.roi_heads.box_pooler if neck == "fpn" else model.roi_heads.pooler)
    boxes = torch.tensor([[8.3, 9.1, 40.7, 33.2], [20.0, 12.0, 28.0, 44.0]])
    places = torch.stack(torch.meshgrid(torch.arange(64.0), torch.arange(64.0), indexing="ij"))[None]
    maps = [places] * len(pools[0].scales)
    mine = pools[0](dict(zip(pools[0].featmap_names, maps, strict=True)), [boxes], [(64, 64)])
    torch.testing.assert_close(mine, pools[1](maps, [Boxes(boxes)]), rtol=1e-5, atol=1e-4)
    masks = torch.rand(2, 64, 64, generator=torch.Generator().manual_seed(0)) < 0.5
    cut = masks_in_boxes(masks.byte(), torch.tensor([0, 1]), boxes, 14)
    assert torch.equal(cut >= 0.5, BitMasks(masks).crop_and_resize(boxes, 14))


@pytest.mark.parametrize("neck", ["fpn", "c4"])
@pytest.mark.parametrize("frozen", [True, False])
def test_a_frozen_backbone_keeps_weights_and_statistics_and_only_that(neck, frozen, scenes):
    model, config, params = build_model(trained(), scenes["masks"], neck=neck, frozen=frozen)
    kept = {name: value.clone() for name, value in model.state_dict().items() if "res" in name or "stem" in name}
    training = training_params(iterations=2, drops=[], learning_rate=0.1)
    engine.train_model(model.train(), config, scenes["masks"], params, training, 0, None)
    now = model.state_dict()
    moved = [name for name, value in kept.items() if not torch.equal(now[name], value)]
    assert moved == [] if frozen else {name.split(".res")[-1][0] for name in moved if ".res" in name} == set("2345")


@pytest.mark.parametrize("kind", ["masks", "keypoints"])
def test_it_trains_detects_and_is_measured_as_torchvision_is(kind, scenes):
    params = detector_params(outputs=kind, anchors=ANCHORS, score_threshold=0.0, flip=True)
    training, some = training_params(), scenes[kind]
    results = [engine.train_and_detect(trained(), some, some, params, training, 0, None) for _ in range(2)]
    assert results[0] == results[1], "the same seed, the same detections"
    assert 0 <= evaluate(some, results[0][0])[f"{kind[:-1]}_ap_percent"] <= 100


def test_run_lengths_in_numbers_are_read_too(scenes):
    annotated = scenes["masks"]
    _, config, _ = build_model(trained(), annotated)
    one = replace(annotated.pictures[0].instances[0], segmentation={"size": [32, 32], "counts": [330, 40, 654]})
    record = engine.picture_record(
        replace(annotated.pictures[0], instances=(one,)), category_labels(annotated), "masks"
    )
    read = engine.build_mapper(config, annotated, training=True)(record)
    assert read["instances"].gt_masks.tensor.sum() == 40


class Recorder(nn.Module):
    """A model that keeps the pictures of each step."""

    def __init__(self):
        super().__init__()
        self.weight, self.pictures = nn.Parameter(torch.ones(1)), []

    def forward(self, batch):
        self.pictures.append([one["image"] for one in batch] + [torch.rand(3)])
        return {"one": 0 * self.weight.sum()}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_killed_run_goes_on_with_the_same_pictures_sizes_and_flips(device, scenes, tmp_path, monkeypatch):
    """With `cuda`, workers read the pictures; the model stays on the CPU here."""
    monkeypatch.chdir(tmp_path)
    annotated = scenes["masks"]
    params = detector_params(outputs="masks", anchors=ANCHORS, flip=True, shorter=[32, 40, 48, 56])
    config = engine.build_config(trained(), annotated, params)
    config.MODEL.DEVICE = device
    pictures = {}
    for begin in (0, 3):
        recorder = Recorder()
        with Checkpoint("detection", {"piece": begin}) as checkpoint:
            if begin:
                optimizer = fitting.SGD([recorder.weight], 0.1, momentum=0.9).state_dict()
                state = {"step": begin, "last": [], "network": {}, "optimizer": optimizer}
                monkeypatch.setattr(checkpoint, "load", lambda state=state: state)
            engine.train_model(recorder, config, annotated, params, training_params(), 0, checkpoint)
        pictures[begin] = recorder.pictures
    assert len(pictures[0]) == 6
    torch.testing.assert_close(pictures[3], pictures[0][3:], rtol=0, atol=0)


@pytest.mark.parametrize("changes", [{}, {"architecture": "resnet18", "stem": "cifar"}, {"split": ColourSplit("lab")}])
def test_an_encoder_that_it_cannot_hold_is_refused(changes, scenes):
    mean = {"mean": MEAN, "std": STD}
    with pytest.raises(InputError, match=r"cannot hold this encoder's backbone.*take engine: torchvision"):
        engine.build_config(encoder(**mean | changes), scenes["masks"], detector_params(anchors=ANCHORS))


@pytest.mark.parametrize("anchors", [[32], [8, 16, 32]])
def test_anchors_that_are_not_one_for_each_map_are_refused_as_torchvisions(anchors, scenes):
    """Detectron2 itself uses one size for all maps, and raises an AssertionError for three."""
    sentence = r"anchors: \[.*\] for 4 levels of this encoder \(strides 4, 8, 16, 32\) and a smaller one; give 5 sizes"
    with pytest.raises(InputError, match=sentence):
        engine.build_config(trained(), scenes["masks"], detector_params(anchors=anchors))

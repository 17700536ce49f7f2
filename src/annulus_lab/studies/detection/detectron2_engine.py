"""Engine `detectron2`: pictures, order, schedule and metrics of `torchvision`, with another library's detector.

Detectron2 has no ResNet-18 for C4: its head is three new bottlenecks for every backbone. Here the head is the
backbone's own last stage. A frozen head does not learn either; Detectron2's FREEZE_AT freezes only the backbone.
"""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from detectron2.config import CfgNode
from detectron2.data import DatasetFromList, DatasetMapper
from detectron2.data.detection_utils import build_augmentation
from detectron2.layers import ShapeSpec
from detectron2.modeling import build_model
from detectron2.modeling.backbone.resnet import build_resnet_backbone
from detectron2.structures import BoxMode
from detectron2.utils.events import EventStorage
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from annulus.device.device import pick_device
from annulus.device.rng import derive, first_weights
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.encoders.libraries import backbone_state
from annulus.running.checkpoint import Checkpoint
from annulus_lab.studies.detection.annotated import Annotated, Detection, Picture, decode_mask, run_lengths
from annulus_lab.studies.detection.detection_params import DetectorParams, DetectorTrainingParams
from annulus_lab.studies.detection.detectron2_config import configured
from annulus_lab.studies.detection.fitting import fit
from annulus_lab.studies.detection.samples import (
    category_labels,
    keypoint_pixels,
    keypoint_places,
    learnable,
    learnable_instances,
    order,
    repeat_factors,
)


def train_and_detect(
    encoder: Encoder | SplitEncoder,
    train: Annotated,
    test: Annotated,
    params: DetectorParams,
    training: DetectorTrainingParams,
    seed: int,
    checkpoint: Checkpoint | None,
) -> tuple[list[Detection], float]:
    """Trains a Detectron2 model on `train`; returns its detections in `test` and its last loss.

    Raises:
        InputError: when Detectron2's ResNet cannot hold the encoder.
    """
    config = build_config(encoder, train, params)
    model = build(encoder, config, params, seed).train()
    loss = train_model(model, config, train, params, training.scaled(), seed, checkpoint)
    return detect(model, config, test), loss


def build_config(encoder: Encoder | SplitEncoder, train: Annotated, params: DetectorParams) -> CfgNode:
    """Detectron2's settings for these categories and keypoints."""
    points = len(train.keypoint_names or ())
    return configured(encoder.config, params, len(train.categories), points, pick_device().type)


def build(encoder: Encoder | SplitEncoder, config: CfgNode, params: DetectorParams, seed: int) -> nn.Module:
    """Builds a detector with the encoder's backbone; a missing or superfluous weight raises an error."""
    with first_weights(derive(seed, "detector")):
        model = build_model(config)
    whole = config.clone()
    whole.MODEL.RESNETS.OUT_FEATURES = ["res2", "res3", "res4", "res5"]
    resnet = build_resnet_backbone(whole, ShapeSpec(channels=3))
    weights = backbone_state(encoder, "detectron2")
    fresh = resnet.state_dict()
    counts = {name: value for name, value in fresh.items() if name.endswith("num_batches_tracked")}
    resnet.load_state_dict({**counts, **weights})  # strict: every tensor of both sides has its place
    resnet.to(config.MODEL.DEVICE)
    backbone = model.backbone.bottom_up if params.neck == "fpn" else model.backbone
    for name, _ in list(backbone.named_children()):
        setattr(backbone, name, getattr(resnet, name))
    backbone.stages = [getattr(resnet, name) for name in backbone.stage_names]
    if params.neck == "c4":
        model.roi_heads.res5 = resnet.res5
        if params.frozen:
            for block in resnet.res5:
                block.freeze()
    return model


def train_model(
    model: nn.Module,
    config: CfgNode,
    train: Annotated,
    params: DetectorParams,
    training: DetectorTrainingParams,
    seed: int,
    checkpoint: Checkpoint | None,
) -> float:
    batches, loaded = Detectron2Batches(config, train, params, training, seed), []

    def losses(step: int) -> dict[str, Tensor]:
        if not loaded:  # a resumed run begins with its step's batch
            loader = DataLoader(
                batches,
                batch_size=None,
                sampler=range(step, training.iterations),
                num_workers=4 if config.MODEL.DEVICE == "cuda" else 0,
                collate_fn=list,
                generator=torch.Generator(),  # otherwise it draws a seed from torch's own generator, as the model does
            )
            loaded.append(iter(loader))
        return model(next(loaded[0]))

    with EventStorage():  # Detectron2's modules write counts into it
        return fit(model, losses, training, seed, checkpoint)


@torch.no_grad()
def detect(model: nn.Module, config: CfgNode, test: Annotated) -> list[Detection]:
    """Detections in the pictures of a split."""
    model.eval()
    mapper, ids = build_mapper(config, test, training=False), {label: id for id, label in category_labels(test).items()}
    detections: list[Detection] = []
    for picture in test.pictures:
        instances = model([mapper(picture_record(picture, {}, None))])[0]["instances"].to("cpu")
        detections += _detections(picture, instances, ids)
    return detections


class Detectron2Batches(Dataset):
    """Batches by step; pictures, sizes and flips depend only on the seed and the step."""

    def __init__(
        self, config: CfgNode, train: Annotated, params: DetectorParams, training: DetectorTrainingParams, seed: int
    ) -> None:
        """`training`: scaled to its batch."""
        pictures, labels = learnable(train, params.outputs), category_labels(train)
        threshold = training.repeat_threshold
        factors = [1.0] * len(pictures) if threshold is None else repeat_factors(pictures, threshold)
        self.seed, self.size = seed, training.batch_size
        self.places = list(islice(order(factors, seed), training.iterations * self.size))
        records = [picture_record(picture, labels, params.outputs) for picture in pictures]
        self.records = DatasetFromList(records, copy=False)  # packed, which workers share
        self.mapper = build_mapper(config, train, training=True)

    def __getitem__(self, step: int) -> list[dict[str, Any]]:
        # Detectron2's augmentations draw from numpy's own generator.
        np.random.seed(derive(self.seed, "augmentations", step) % 2**32)  # noqa: NPY002
        return [self.mapper(self.records[place]) for place in self.places[step * self.size : (step + 1) * self.size]]


def build_mapper(config: CfgNode, annotated: Annotated, training: bool) -> DatasetMapper:
    """Builds Detectron2's reader of a record: resizing, mirroring, targets."""
    turned = None
    if config.MODEL.KEYPOINT_ON:
        turned = np.arange(len(annotated.keypoint_names or ()))
        for left, right in annotated.flip_pairs or ():
            turned[[left, right]] = right, left
    return DatasetMapper(
        is_train=training,
        augmentations=build_augmentation(config, training),
        image_format="RGB",
        use_instance_mask=config.MODEL.MASK_ON,
        use_keypoint=config.MODEL.KEYPOINT_ON,
        instance_mask_format="bitmask",
        keypoint_hflip_indices=turned,
    )


def picture_record(picture: Picture, labels: dict[int, int], outputs: str | None) -> dict[str, Any]:
    """Record of a picture in the form of Detectron2's data sets; without annotations if `outputs` is None."""
    record = {"file_name": str(picture.file), "height": picture.height, "width": picture.width, "image_id": picture.id}
    if outputs is None:
        return record
    annotations = []
    for one in learnable_instances(picture, outputs):
        annotation = {
            "bbox": list(one.box),
            "bbox_mode": BoxMode.XYWH_ABS,
            "category_id": labels[one.category] - 1,
            "iscrowd": 0,
        }
        if outputs == "masks":
            shape = one.segmentation  # Detectron2 reads only compressed run lengths
            packed = isinstance(shape, list) or isinstance(shape["counts"], str)
            annotation["segmentation"] = (
                shape if packed else run_lengths(decode_mask(one, picture.height, picture.width))
            )
        if outputs == "keypoints":
            annotation["keypoints"] = keypoint_places(one)
        annotations.append(annotation)
    return record | {"annotations": annotations}


def _detections(picture: Picture, instances: Any, ids: dict[int, int]) -> Iterator[Detection]:
    fields = instances.get_fields()
    for place, (corners, score, label) in enumerate(
        zip(
            fields["pred_boxes"].tensor.tolist(),
            fields["scores"].tolist(),
            fields["pred_classes"].tolist(),
            strict=True,
        )
    ):
        left, top, right, bottom = corners
        mask = fields["pred_masks"][place].numpy() if "pred_masks" in fields else None
        points = fields["pred_keypoints"][place] if "pred_keypoints" in fields else None
        yield Detection(
            picture=picture.id,
            category=ids[label + 1],
            box=(left, top, right - left, bottom - top),
            score=score,
            segmentation=None if mask is None else run_lengths(mask),
            keypoints=None if points is None else keypoint_pixels(points),
        )

"""Translates the study's settings into Detectron2's, under the names of the papers' configuration files."""

from typing import Any

from detectron2.config import CfgNode, get_cfg

from annulus.encoders.encoder import EncoderConfig
from annulus.encoders.libraries import detectron2_sizes
from annulus.errors import InputError
from annulus_lab.studies.detection.detection_params import DetectorParams


def check_backbone(config: EncoderConfig) -> None:
    """Checks that Detectron2's ResNet can hold an encoder.

    Raises:
        InputError: when it cannot.
    """
    if config.split is not None or not config.architecture.startswith("resne") or config.stem != "imagenet":
        networks = "one network" if config.split is None else f"two networks of {config.split}"
        raise InputError(
            f"engine: detectron2 cannot hold this encoder's backbone ({networks}, {config.architecture}, stem "
            f"{config.stem}): it takes one ResNet or ResNeXt with the imagenet stem; take engine: torchvision, or "
            "pretrain with backbone: resnet18"
        )


def configured(encoder: EncoderConfig, params: DetectorParams, classes: int, points: int, device: str) -> CfgNode:
    """Detectron2's defaults with the study's values.

    Raises:
        InputError: when Detectron2's ResNet cannot hold the encoder, or a pyramid lacks one anchor size for each map.

    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.4; Wu et al. 2020, arXiv:2010.02037, Appendix D.
    """
    check_backbone(encoder)
    params.check_anchors([2**stage for stage in range(2 + params.skipped, 6)])
    config = get_cfg()
    pyramid = params.neck == "fpn"
    around = {"none": "", "batch": "BN"}[params.normalisation]
    stages = [f"res{stage}" for stage in range(2 + params.skipped, 6)]
    maps = [f"p{stage}" for stage in range(2 + params.skipped, 6)]
    values: dict[str, Any] = {
        "INPUT.FORMAT": "RGB",
        "INPUT.MIN_SIZE_TRAIN": tuple(params.shorter),
        "INPUT.MIN_SIZE_TEST": params.shorter_test,
        "INPUT.MAX_SIZE_TRAIN": params.longer,
        "INPUT.MAX_SIZE_TEST": params.longer,
        "INPUT.RANDOM_FLIP": "horizontal" if params.flip else "none",
        "MODEL.DEVICE": device,
        "MODEL.MASK_ON": params.outputs == "masks",
        "MODEL.KEYPOINT_ON": params.outputs == "keypoints",
        "MODEL.PIXEL_MEAN": [255 * value for value in encoder.mean],
        "MODEL.PIXEL_STD": [255 * value for value in encoder.std],
        "MODEL.BACKBONE.FREEZE_AT": 5 if params.frozen else 0,
        "MODEL.RESNETS.STRIDE_IN_1X1": False,
        "MODEL.RESNETS.NORM": "FrozenBN" if params.frozen else "BN",
        "MODEL.ROI_HEADS.NUM_CLASSES": classes,
        "MODEL.ROI_HEADS.BATCH_SIZE_PER_IMAGE": params.sampled_boxes,
        "MODEL.ROI_HEADS.SCORE_THRESH_TEST": params.score_threshold,
        "MODEL.ROI_BOX_HEAD.SMOOTH_L1_BETA": 0.5 if params.outputs == "keypoints" else 0.0,  # as its configurations
        "MODEL.ROI_BOX_HEAD.POOLER_RESOLUTION": params.box_size * (1 if pyramid else 2),
        "MODEL.ROI_MASK_HEAD.POOLER_RESOLUTION": params.box_size * 2,
        "MODEL.ROI_MASK_HEAD.CONV_DIM": params.mask_width,
        "MODEL.ROI_KEYPOINT_HEAD.POOLER_RESOLUTION": params.box_size * 2,
        "MODEL.ROI_KEYPOINT_HEAD.CONV_DIMS": (params.keypoint_width,) * params.keypoint_convolutions,
        "MODEL.ROI_KEYPOINT_HEAD.NUM_KEYPOINTS": points or 17,
        "MODEL.RPN.BATCH_SIZE_PER_IMAGE": params.sampled_anchors,
        "MODEL.RPN.PRE_NMS_TOPK_TRAIN": params.proposals_train[0],
        "MODEL.RPN.POST_NMS_TOPK_TRAIN": params.proposals_train[1],
        "MODEL.RPN.PRE_NMS_TOPK_TEST": params.proposals_test[0],
        "MODEL.RPN.POST_NMS_TOPK_TEST": params.proposals_test[1],
        "TEST.DETECTIONS_PER_IMAGE": params.detections,
    }
    values |= {f"MODEL.RESNETS.{name}": size for name, size in detectron2_sizes(encoder.architecture).items()}
    if pyramid:
        values |= {
            "MODEL.BACKBONE.NAME": "build_resnet_fpn_backbone",
            "MODEL.RESNETS.OUT_FEATURES": stages,
            "MODEL.FPN.IN_FEATURES": stages,
            "MODEL.FPN.OUT_CHANNELS": params.pyramid_width,
            "MODEL.FPN.NORM": around,
            "MODEL.ANCHOR_GENERATOR.SIZES": [[size] for size in params.anchors],
            "MODEL.RPN.IN_FEATURES": [*maps, "p6"],
            "MODEL.ROI_HEADS.NAME": "CascadeROIHeads" if params.cascade else "StandardROIHeads",
            "MODEL.ROI_HEADS.IN_FEATURES": maps,
            "MODEL.ROI_BOX_HEAD.NAME": "FastRCNNConvFCHead",
            "MODEL.ROI_BOX_HEAD.CLS_AGNOSTIC_BBOX_REG": params.cascade,
            "MODEL.ROI_BOX_HEAD.NUM_CONV": params.box_convolutions,
            "MODEL.ROI_BOX_HEAD.CONV_DIM": params.pyramid_width,
            "MODEL.ROI_BOX_HEAD.NUM_FC": 1 if params.box_convolutions else 2,
            "MODEL.ROI_BOX_HEAD.FC_DIM": params.box_width,
            "MODEL.ROI_BOX_HEAD.NORM": around,
            "MODEL.ROI_MASK_HEAD.NUM_CONV": params.mask_convolutions,
            "MODEL.ROI_MASK_HEAD.NORM": around,
        }
    else:
        values |= {"MODEL.ANCHOR_GENERATOR.SIZES": [list(params.anchors)]}
    config.merge_from_list([part for pair in values.items() for part in pair])
    return config

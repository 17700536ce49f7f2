import json
from argparse import Namespace

import pytest
import summary

from annulus.errors import InputError

MEASURED = {
    "prepare": {"train_images": 3600, "test_images": 1000},
    "pretrain": {"loss_nats": 3.25, "bound_nats": 3.5, "ceiling_nats": 6.9324, "validation_nn1_percent": 61.0},
    "knn": {"nn1_top1_percent": 60.5, "top1_percent": 64.1, "top5_percent": 97.0},
    "linear": {"top1_percent": 70.25, "top5_percent": 98.5},
    "diagnostics": {"alignment": 0.5, "uniformity": -2.5, "effective_rank": 40.0}
    | {"false_negatives_training_percent": 21.5},
}
VARIANT = {name: f"some-{name}" for name in summary.READS} | {"seed": 0}


@pytest.fixture
def paths(tmp_path):
    for stage, metrics in MEASURED.items():
        (tmp_path / f"{stage}.json").write_text(json.dumps(metrics))
    return Namespace(**{stage: tmp_path / f"{stage}.json" for stage in MEASURED})


def test_headlines_come_from_the_stages_that_measured_them(paths):
    assert summary.main(VARIANT, paths).metrics == {
        "knn_top1_percent": 64.1,
        "nn1_top1_percent": 60.5,
        "linear_top1_percent": 70.25,
        "pretrain_loss_nats": 3.25,
        "bound_nats": 3.5,
        "bound_ceiling_nats": 6.9324,
        "validation_nn1_percent": 61.0,
        "alignment": 0.5,
        "uniformity": -2.5,
        "effective_rank": 40.0,
        "false_negatives_percent": 21.5,
        "train_images": 3600,
    }


@pytest.mark.parametrize(
    ("stage", "name", "headline"),
    [
        ("pretrain", "validation_nn1_percent", "validation_nn1_percent"),  # without a validation part
        ("diagnostics", "false_negatives_training_percent", "false_negatives_percent"),  # where the set is empty
    ],
)
def test_a_number_that_need_not_be_there_is_left_out(paths, stage, name, headline):
    left = {key: value for key, value in MEASURED[stage].items() if key != name}
    getattr(paths, stage).write_text(json.dumps(left))
    assert headline not in summary.main(VARIANT, paths).metrics


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{}", r"has no top1_percent; run `dvc repro -f knn`"),
        (None, "is missing or not a metrics file .*run `dvc repro`"),
        ("{", "is missing or not a metrics file .*run `dvc repro`"),
    ],
)
def test_what_a_stage_did_not_write_is_asked_for_by_name(paths, content, sentence):
    paths.knn.unlink() if content is None else paths.knn.write_text(content)
    with pytest.raises(InputError, match=rf"knn\.json {sentence}"):
        summary.main(VARIANT, paths)

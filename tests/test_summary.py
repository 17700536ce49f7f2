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


def test_the_table_names_the_variant_its_numbers_and_where_to_look(paths, capsys):
    summary.main(VARIANT, paths)
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    for name, choice in VARIANT.items():
        assert any(line.split()[:2] == [name, str(choice)] for line in lines)
    shown = [line.rsplit(maxsplit=2)[-2:] for line in lines]
    for expected in (["linear_top1_percent", "70.25"], ["bound_nats", "3.5000"], ["train_images", "3,600"]):
        assert expected in shown
    numbers = [line for line in lines if line.endswith(("64.10", "3,600", "6.9324"))]
    assert len({len(line) for line in numbers}) == 1  # right-aligned
    for place in ("metrics/", "dvc plots show", "make mlflow", "-S sampler=cave", "--only-changed"):
        assert place in printed


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

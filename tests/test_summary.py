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
    "diagnostics": {
        "alignment": 0.5,
        "uniformity": -2.5,
        "effective_rank": 40.0,
        "false_negatives_training_percent": 21.5,
    },
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


def test_without_a_validation_part_its_number_is_left_out(paths):
    metrics = {name: value for name, value in MEASURED["pretrain"].items() if name != "validation_nn1_percent"}
    paths.pretrain.write_text(json.dumps(metrics))
    assert "validation_nn1_percent" not in summary.main(VARIANT, paths).metrics


def test_where_the_sampler_s_set_is_empty_its_false_negatives_are_left_out(paths):
    left = {name: value for name, value in MEASURED["diagnostics"].items() if not name.startswith("false_negatives")}
    paths.diagnostics.write_text(json.dumps(left))
    assert "false_negatives_percent" not in summary.main(VARIANT, paths).metrics


def test_a_number_that_a_stage_did_not_write_is_asked_for_by_name(paths):
    paths.knn.write_text("{}")
    with pytest.raises(InputError, match=r"knn\.json has no top1_percent; run `dvc repro -f knn`"):
        summary.main(VARIANT, paths)


@pytest.mark.parametrize("content", [None, "{"])
def test_a_missing_or_broken_file_is_named(paths, content):
    paths.linear.unlink() if content is None else paths.linear.write_text(content)
    with pytest.raises(InputError, match=r"linear\.json is missing or not a metrics file .*run `dvc repro`"):
        summary.main(VARIANT, paths)

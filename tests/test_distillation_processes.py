"""Two processes that share each batch train the same student as one process."""

import pytest
import torch
from declared import ROOT
from gloo import together

from annulus.datasets.shapes import draw_shapes
from annulus.device.distributed import rank
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.store import Resident
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.objective import Supervised
from annulus_lab.studies.distillation.classifiers.training import train
from annulus_lab.studies.distillation.contrast import build_contrast
from annulus_lab.studies.distillation.distillation_params import ContrastParams, WeightParams
from annulus_lab.studies.distillation.distillation_study import loss_settings
from annulus_lab.studies.distillation.memories import ContrastiveDistillation
from annulus_lab.studies.distillation.objective import Distillation
from annulus_lab.studies.shared.study import OwnStudy

FIT = {"epochs": 2, "batch_size": 8, "learning_rate": 0.05, "momentum": 0.9, "weight_decay": 5e-4}
FIT |= {"schedule": {"at": [0.5], "factor": 0.1}, "padding": 1, "flip": 0.5}


def images(count, key):
    rows = torch.arange(count)
    return ImageSet(Resident(draw_shapes(rows.numpy(), 8, key)), rows % 4, rows, tuple("abcd"))


def whole_fit(loss, count=28):
    """Results of a training with batches of 8, and a last batch of 4 in each epoch."""
    torch.manual_seed(rank())  # draws from the global generator would differ
    data = images(count, 0)
    student = build_classifier("resnet8", 4, seed=0).double()
    objective = Supervised(student)
    if loss != "alone":
        settings = loss_settings(OwnStudy(ROOT / "stages/distillation/params.yaml"), loss)
        contrast = None
        if settings["weights"]["contrast"] > 0:
            params = filled(ContrastParams, settings["contrast"] | {"negatives": 6, "dim": 4})
            contrast = ContrastiveDistillation((64, 64), data.labels, params, build_contrast(params), 0, 4)
        teacher = build_classifier("resnet8", 4, seed=1).double()
        objective = Distillation(student, teacher, filled(WeightParams, settings["weights"]), contrast)
    fitted = train(student, objective, data, images(12, 1), filled(FitParams, FIT), 0, torch.device("cpu"))
    return {
        "history": fitted.history,
        "student": student.state_dict(),
        "besides": {name: value for name, value in objective.state_dict().items() if isinstance(value, torch.Tensor)},
    }


@pytest.mark.parametrize("loss", ["alone", "kd", "crd", "mlcpc-005-ring"])
def test_two_processes_train_the_student_that_one_trains(loss):
    """Losses, weights, batch statistics, linear maps and memories; the losses are computed in float32."""
    one, (two, other) = whole_fit(loss), together(whole_fit, loss)
    assert bool(one["besides"]) == (loss not in ("alone", "kd"))
    for actual, expected in zip(two["history"], one["history"], strict=True):
        assert actual == pytest.approx(expected, rel=1e-6)
    for kind in ("student", "besides"):
        for name, expected in one[kind].items():
            torch.testing.assert_close(two[kind][name], expected, rtol=1e-4, atol=1e-6, msg=name)
            assert torch.equal(two[kind][name], other[kind][name]), name


def refusal(count):
    with pytest.raises(InputError) as refused:
        whole_fit("alone", count)
    return str(refused.value)


def test_a_last_batch_that_processes_cannot_share_is_refused_before_the_first_step():
    sentence = "27 images end with a batch of 3, which 2 processes cannot share evenly; take another batch_size, or"
    assert all(error.startswith(sentence) for error in together(refusal, 27))

"""Time of a CRD step for each of the paper's thirteen pairs, of a step of its teachers, and of whole trainings.

On a GPU these are the minutes of `scale: gpu`. On a CPU they tell which pairs are within reach. The number of
operators in a step helps to estimate a GPU's time: a GPU takes some microseconds to launch each. A CRD step includes
the teacher's forward pass. Evaluation, once after 240 epochs, is left out.

Source: Song and Ermon 2020, arXiv:2007.09852, Tables 1 and 2, Appendix C.3.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from steps import random_images
from timing import ROOT, calls_per_turn, medians, write
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from annulus.device.device import pick_device
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.objective import Objective, Supervised
from annulus_lab.studies.distillation.classifiers.training import _Run
from annulus_lab.studies.distillation.contrast import build_contrast
from annulus_lab.studies.distillation.distillation_params import ContrastParams, WeightParams
from annulus_lab.studies.distillation.distillation_study import loss_settings
from annulus_lab.studies.distillation.memories import ContrastiveDistillation
from annulus_lab.studies.distillation.objective import Distillation
from annulus_lab.studies.shared.study import OwnStudy

IMAGES, SIZE, CLASSES = 50_000, 32, 100  # of CIFAR-100
TURNS = 3
STUDY = OwnStudy(ROOT / "stages" / "distillation" / "params.yaml")
STUDY.params = replace(STUDY.params, scale="paper")
FIT, TEACHER_FIT = STUDY.section("student", FitParams), STUDY.section("teacher", FitParams)
CRD, PAIRS = loss_settings(STUDY, "crd"), STUDY.content["thirteen"]


class Operators(TorchDispatchMode):
    """Counts the operators that compute; a GPU runs about one kernel for each."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        self.count += not operator.is_view
        return operator(*args, **(kwargs or {}))


def student_step(pair: Mapping[str, Any], device: torch.device) -> Callable[[], None]:
    student, teacher = (build_classifier(pair[role], CLASSES, 0).to(device) for role in ("student", "teacher"))
    params = filled(ContrastParams, CRD["contrast"])
    memories = ContrastiveDistillation(
        (student.width, teacher.width), class_numbers().to(device), params, build_contrast(params), 0, batches(FIT)
    )
    objective = Distillation(student, teacher, filled(WeightParams, CRD["weights"]), memories)
    return build_step(student, objective, FIT, device)


def teacher_step(name: str, device: torch.device) -> Callable[[], None]:
    teacher = build_classifier(name, CLASSES, 0).to(device)
    return build_step(teacher, Supervised(teacher), TEACHER_FIT, device)


def build_step(
    classifier: Classifier, objective: Objective, fit: FitParams, device: torch.device
) -> Callable[[], None]:
    run = _Run(classifier, objective, random_images(IMAGES, SIZE), fit, 0, device)
    run.labels = class_numbers()
    rows = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(0))[: fit.batch_size]
    views = torch.rand(len(rows), 3, SIZE, SIZE, device=device)
    classifier.train()
    return lambda: run._step(rows, views)


def class_numbers() -> torch.Tensor:
    return torch.arange(IMAGES) % CLASSES


def batches(fit: FitParams) -> int:
    return -(-IMAGES // fit.batch_size)


def minutes(step_seconds: float, fit: FitParams) -> int:
    return round(step_seconds * fit.epochs * batches(fit) / 60)


def main() -> None:
    device, numbers = pick_device(), {"images": IMAGES, "batch": FIT.batch_size, "epochs": FIT.epochs}
    for pair in PAIRS:
        step = student_step(pair, device)
        with FlopCounterMode(display=False) as counter:
            step()
        with Operators() as operators:
            step()
        seconds = medians({"step": step}, TURNS, calls_per_turn(device))["step"]
        numbers |= {
            f"{pair['name']}_gflop_a_step": counter.get_total_flops() / 1e9,
            f"{pair['name']}_operators_a_step": operators.count,
            f"{pair['name']}_seconds_a_step": seconds,
            f"{pair['name']}_student_minutes": minutes(seconds, FIT),
        }
    for name in dict.fromkeys(pair["teacher"] for pair in PAIRS):
        step = teacher_step(name, device)
        step()
        seconds = medians({"step": step}, TURNS, calls_per_turn(device))["step"]
        numbers |= {f"{name}_seconds_a_step": seconds, f"{name}_teacher_minutes": minutes(seconds, TEACHER_FIT)}
    write("distillation", device, **numbers)


if __name__ == "__main__":
    main()

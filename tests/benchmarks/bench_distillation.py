"""A step of CRD for each of the paper's thirteen pairs, and how long a student of `scale: paper` takes at that pace.

On a GPU these are the minutes of `scale: gpu`; on a CPU they say which pairs are within reach, and the operators of a
step let one guess at a GPU's, which takes some microseconds to be given each. The teacher is included, its own training
is not. Evaluation, once after 240 epochs, is left out.

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
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.network import build_classifier
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
FIT, CRD, PAIRS = STUDY.section("student", FitParams), loss_settings(STUDY, "crd"), STUDY.content["thirteen"]


class Operators(TorchDispatchMode):
    """Counts the operators that compute, which on a GPU are about as many kernels."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, operator: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        self.count += not operator.is_view
        return operator(*args, **(kwargs or {}))


def step_of(pair: Mapping[str, Any], device: torch.device) -> Callable[[], None]:
    images, labels = random_images(IMAGES, SIZE), torch.arange(IMAGES) % CLASSES
    student, teacher = (build_classifier(pair[role], CLASSES, 0).to(device) for role in ("student", "teacher"))
    params, steps = filled(ContrastParams, CRD["contrast"]), -(-IMAGES // FIT.batch_size)
    memories = ContrastiveDistillation(
        (student.width, teacher.width), labels.to(device), params, build_contrast(params), 0, steps
    )
    objective = Distillation(student, teacher, filled(WeightParams, CRD["weights"]), memories)
    run = _Run(student, objective, images, FIT, 0, device)
    run.labels = labels
    rows = torch.randperm(IMAGES, generator=torch.Generator().manual_seed(0))[: FIT.batch_size]
    views = torch.rand(len(rows), 3, SIZE, SIZE, device=device)
    student.train()
    return lambda: run._step(rows, views)


def main() -> None:
    device, numbers = pick_device(), {"images": IMAGES, "batch": FIT.batch_size, "epochs": FIT.epochs}
    for pair in PAIRS:
        step = step_of(pair, device)
        with FlopCounterMode(display=False) as counter:
            step()
        with Operators() as operators:
            step()
        seconds = medians({"step": step}, TURNS, calls_per_turn(device))["step"]
        steps = FIT.epochs * -(-IMAGES // FIT.batch_size)
        numbers |= {
            f"{pair['name']}_gflop_a_step": counter.get_total_flops() / 1e9,
            f"{pair['name']}_operators_a_step": operators.count,
            f"{pair['name']}_seconds_a_step": seconds,
            f"{pair['name']}_student_minutes": round(seconds * steps / 60),
        }
    write("distillation", device, **numbers)


if __name__ == "__main__":
    main()

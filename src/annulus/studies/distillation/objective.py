"""A student's loss: weighted sum of labels, a frozen teacher's softened answers, and contrast with its features."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local
from annulus.errors import InputError
from annulus.studies.distillation.classifiers.classifier import Classifier
from annulus.studies.distillation.classifiers.objective import Objective
from annulus.studies.distillation.memories import ContrastiveDistillation
from annulus.studies.distillation.params import WeightParams


class Distillation(Objective):
    """Cross-entropy with the labels, softened answers, contrast of the features.

    The teacher sees the student's own views. It is frozen: evaluation mode, running batch-norm statistics.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 3; Hinton et al. 2015, arXiv:1503.02531, Section 2.
    """

    def __init__(
        self, student: Classifier, teacher: Classifier, weights: WeightParams, contrast: ContrastiveDistillation | None
    ) -> None:
        """`contrast` may be None where its weight is 0.

        Raises:
            InputError: when the teacher scores other classes than the student.
        """
        if teacher.config.classes != student.config.classes:
            raise InputError(
                f"the teacher {teacher.config.name} scores {teacher.config.classes} classes, and the student's images "
                f"have {student.config.classes}; take a teacher that was trained on these images"
            )
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.weights, self.contrast = weights, contrast

    def loss(
        self, images: Float[Tensor, "b 3 h w"], rows: Int[Tensor, "all"], labels: Int[Tensor, "all"]
    ) -> Float[Tensor, ""]:
        """The weighed sum in nats. Both networks may compute in lower precision; the losses do not."""
        features = self.student.features(images)
        with torch.no_grad():
            of_teacher = self.teacher.features(images)
        logits = self.student.classify(features).float()
        loss = self.weights.labels * F.cross_entropy(logits, local(labels))
        if self.weights.answers > 0:
            taught = self.teacher.classify(of_teacher).float()
            loss = loss + self.weights.answers * kd_loss(logits, taught, self.weights.answers_temperature)
        if self.contrast is not None:
            with torch.autocast(images.device.type, enabled=False):
                estimate = self.contrast(features.float(), of_teacher.float(), rows, labels)
            loss = loss + self.weights.contrast * estimate.loss
        return loss

    def after_step(self, rows: Int[Tensor, "all"]) -> None:
        """Store the embeddings of the step."""
        if self.contrast is not None:
            self.contrast.after_step(rows)

    def parameters(self) -> Iterable[nn.Parameter]:
        """Those of the linear maps to the embeddings, the teacher's too."""
        return () if self.contrast is None else self.contrast.parameters()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.contrast is None else self.contrast.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.contrast is not None:
            self.contrast.load_state_dict(state)


def kd_loss(student: Float[Tensor, "b c"], teacher: Float[Tensor, "b c"], temperature: float) -> Float[Tensor, ""]:
    """KL divergence of the student's answers from the teacher's in nats, times the temperature squared, mean over b.

    Both are scores of classes, divided by the temperature before the softmax. The square keeps the gradient's size at
    any temperature. 0 for equal scores. No gradient goes to the teacher.

    Source: Hinton et al. 2015, arXiv:1503.02531, Section 2.
    """
    of_student = F.log_softmax(student / temperature, dim=1)
    of_teacher = F.log_softmax(teacher.detach() / temperature, dim=1)
    return F.kl_div(of_student, of_teacher, reduction="batchmean", log_target=True) * temperature**2

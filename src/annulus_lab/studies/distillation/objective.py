"""Loss of a student: weighted sum of labels, a frozen teacher's softened answers, and contrast with its features."""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local
from annulus.errors import InputError
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.objective import Objective
from annulus_lab.studies.distillation.distillation_params import WeightParams
from annulus_lab.studies.distillation.memories import ContrastiveDistillation


class Distillation(Objective):
    """Weighted sum of cross-entropy with the labels, softened answers, and contrast of the features.

    The teacher gets the student's own views. It is frozen: evaluation mode, running batch-norm statistics.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 3; Hinton et al. 2015, arXiv:1503.02531, Section 2.
    """

    def __init__(
        self, student: Classifier, teacher: Classifier, weights: WeightParams, contrast: ContrastiveDistillation | None
    ) -> None:
        """`contrast` may be None if its weight is 0.

        Raises:
            InputError: when teacher and student have different numbers of classes.
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
        """Weighted sum in nats. Both networks may compute in lower precision; the losses do not."""
        features = self.student.features(images)
        with torch.no_grad():
            teacher_features = self.teacher.features(images)
        logits = self.student.classify(features).float()
        loss = self.weights.labels * F.cross_entropy(logits, local(labels))
        if self.weights.answers > 0:
            teacher_logits = self.teacher.classify(teacher_features).float()
            loss = loss + self.weights.answers * kd_loss(logits, teacher_logits, self.weights.answers_temperature)
        if self.contrast is not None:
            with torch.autocast(images.device.type, enabled=False):
                estimate = self.contrast(features.float(), teacher_features.float(), rows, labels)
            loss = loss + self.weights.contrast * estimate.loss
        return loss

    def after_step(self, rows: Int[Tensor, "all"]) -> None:
        """Stores the embeddings of the step."""
        if self.contrast is not None:
            self.contrast.after_step(rows)

    def parameters(self) -> Iterable[nn.Parameter]:
        """Parameters of the linear maps to the embeddings, also of the teacher's map."""
        return () if self.contrast is None else self.contrast.parameters()

    def state_dict(self) -> dict[str, Any]:
        return {} if self.contrast is None else self.contrast.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.contrast is not None:
            self.contrast.load_state_dict(state)


def kd_loss(student: Float[Tensor, "b c"], teacher: Float[Tensor, "b c"], temperature: float) -> Float[Tensor, ""]:
    """KL divergence of the student's answers from the teacher's in nats, times the temperature squared, mean over b.

    Both arguments are logits of classes, and the temperature divides them before the softmax. The square keeps the
    gradient's size at any temperature. The value is 0 for equal logits. The teacher gets no gradient.

    Source: Hinton et al. 2015, arXiv:1503.02531, Section 2.
    """
    student_log = F.log_softmax(student / temperature, dim=1)
    teacher_log = F.log_softmax(teacher.detach() / temperature, dim=1)
    return F.kl_div(student_log, teacher_log, reduction="batchmean", log_target=True) * temperature**2

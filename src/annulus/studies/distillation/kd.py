"""A student's answers against its teacher's, both softened."""

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def kd_loss(student: Float[Tensor, "b c"], teacher: Float[Tensor, "b c"], temperature: float) -> Float[Tensor, ""]:
    """KL divergence of the student's answers from the teacher's in nats, times the temperature squared, mean over b.

    Both are scores of classes, divided by the temperature before the softmax. The square keeps the gradient's size at
    any temperature. 0 for equal scores. No gradient goes to the teacher.

    Source: Hinton et al. 2015, arXiv:1503.02531, Section 2.
    """
    of_student = F.log_softmax(student / temperature, dim=1)
    of_teacher = F.log_softmax(teacher.detach() / temperature, dim=1)
    return F.kl_div(of_student, of_teacher, reduction="batchmean", log_target=True) * temperature**2

"""Student and teacher as two views of an image: each embedding is scored with a memory of the other network."""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.device.distributed import all_gather, local
from annulus.device.rng import derive, first_weights, generator
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import END, ContrastConfig
from annulus.methods.critics import Dot
from annulus.methods.memory import MemoryBank
from annulus.negatives.scores import Scores
from annulus_lab.studies.distillation.distillation_params import ContrastParams
from annulus_lab.studies.distillation.labels import check_other_classes, rows_by_class

SIDES = ("student", "teacher")  # sides of the queries; the memory of the other side holds the candidates


class ContrastiveDistillation(nn.Module):
    """Contrastive representation distillation with any bound and any sampler.

    Linear maps take both networks' features to embeddings on the unit sphere. The positive of an image's embedding is
    the image's row in the other network's memory, and the negatives are other rows of that memory. The loss is the sum
    over both directions.

    With `negatives_from: other-classes` a query's own class is left out: its rows rank after all others. The sampler's
    shares refer to all other rows. Negatives are drawn with replacement, as everywhere here. The authors' code draws
    without replacement if there are enough images.

    Source: Tian et al. 2020, arXiv:1910.10699, Section 3.1; Song and Ermon 2020, arXiv:2007.09852, Section 5.2.
    """

    classes: Int[Tensor, "classes most"]

    def __init__(
        self,
        widths: tuple[int, int],
        labels: Int[Tensor, "n"],
        params: ContrastParams,
        config: ContrastConfig,
        seed: int,
        epoch_steps: int,
    ) -> None:
        """`widths`: of the student's and the teacher's features; `labels`: of the training images, by row.

        Raises:
            InputError: when the sampler's set may hold only images of the query's class.
        """
        super().__init__()
        self.params, self.seed, self.epoch_steps = params, seed, epoch_steps
        device, images = labels.device, len(labels)
        with first_weights(derive(seed, "distillation")):
            self.heads = nn.ModuleList(nn.Linear(width, params.dim) for width in widths).to(device)
        self.banks = nn.ModuleList(
            MemoryBank(images, params.dim, params.bank_rate, generator(seed, "bank", side)) for side in SIDES
        ).to(device)
        self.contrasts = nn.ModuleList(Contrast(config, images, seed, device, side) for side in SIDES).to(device)
        self.critic = Dot(params.temperature)
        if params.negatives_from == "other-classes":
            check_other_classes(labels, config.sampler.shares)
            self.register_buffer("classes", rows_by_class(labels), persistent=False)
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64), persistent=True)
        self._embeddings: tuple[Tensor, ...] = ()

    def forward(
        self,
        student: Float[Tensor, "b s"],
        teacher: Float[Tensor, "b t"],
        rows: Int[Tensor, "all"],
        labels: Int[Tensor, "all"],
    ) -> Estimate:
        """Sum of the estimates of both directions; the teacher's features get no gradient.

        Each of several processes has the features of its own images, and the rows and labels of all images.
        """
        self._cluster()
        rows, labels = local(rows), local(labels)
        embeddings = [
            F.normalize(head(features), dim=1)
            for head, features in zip(self.heads, (student, teacher.detach()), strict=True)
        ]
        self._embeddings = tuple(all_gather(embedding.detach()) for embedding in embeddings)
        own = self.classes[labels] if self.params.negatives_from == "other-classes" else rows
        towards, back = (
            self._against(contrast, self.critic(query, bank.rows), rows, own)
            for contrast, query, bank in zip(self.contrasts, embeddings, reversed(self.banks), strict=True)
        )
        return towards + back

    def after_step(self, rows: Int[Tensor, "all"]) -> None:
        """Stores the embeddings. Backward reads the memories, so this call follows it."""
        for bank, embedding in zip(self.banks, self._embeddings, strict=True):
            bank.update(rows, embedding)
        self.steps += 1

    def _against(
        self, contrast: Contrast, scores: Scores, rows: Int[Tensor, "b"], own: Int[Tensor, "b"] | Int[Tensor, "b w"]
    ) -> Estimate:
        positive = scores.gather(rows[:, None]).squeeze(1)
        return contrast(scores, rows, END, self_index=own, positive=positive)

    def _cluster(self) -> None:
        """Clusters each memory at the start of an epoch, if the sampler needs clusters."""
        if self.contrasts[0].needs_clusters and int(self.steps) % self.epoch_steps == 0:
            for contrast, bank in zip(self.contrasts, reversed(self.banks), strict=True):
                contrast.cluster(bank.rows, int(self.steps) // self.epoch_steps)

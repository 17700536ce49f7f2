"""CMC: the luminance of a view finds its colours, and the colours their luminance."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.device import autocast
from annulus.compute.distributed import all_gather_with_grad
from annulus.compute.rng import generator
from annulus.config.methods import CMCParams
from annulus.encoders.encoder import LabEncoder
from annulus.methods.contrast import Contrast, Progress
from annulus.methods.critics import scaled
from annulus.methods.memory import MemoryBank
from annulus.methods.step import Method, Setting, Step
from annulus.negatives.scores import Products


class ContrastiveMultiviewCoding(Method):
    """Two encoders, of L and of ab of CIELAB, and two banks: each encoder is compared with the other one's bank.

    The sum of two IRs with swapped banks.

    Source: Tian et al. 2019, arXiv:1906.05849, Section 3; Wu et al. 2020, arXiv:2005.13149, Section 3.1 (Lemma 3.1).
    """

    views = 1
    channels = "lab"
    memory = "bank"

    def __init__(self, encoder: LabEncoder, params: CMCParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        size = setting.images, params.embedding_dim, params.bank_rate
        self.l_bank = MemoryBank(*size, generator(setting.seed, "bank", "l"))
        self.ab_bank = MemoryBank(*size, generator(setting.seed, "bank", "ab"))
        common = setting.contrast, setting.images, setting.seed, setting.device
        self.l_contrast, self.ab_contrast = Contrast(*common, name="l"), Contrast(*common, name="ab")
        self.to(setting.device)

    @property
    def stored(self) -> Float[Tensor, "n d2"]:
        """Both banks, as `LabEncoder.embed` joins the two embeddings."""
        return F.normalize(torch.cat([self.l_bank.rows, self.ab_bank.rows], dim=1), dim=1)

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Fill the banks with embeddings of the images, where the parameters say so."""
        if self.params.bank_start == "encoder":
            of_l, of_ab = embed().chunk(2, dim=1)
            self.l_bank.fill(of_l)
            self.ab_bank.fill(of_ab)

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster each bank anew for the queries that read it, where clusters are needed."""
        self.l_contrast.cluster(self.ab_bank.rows, epoch)
        self.ab_contrast.cluster(self.l_bank.rows, epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """IR of the L embeddings in the ab bank, plus IR of the ab embeddings in the L bank."""
        with autocast(views[0].device):
            of_l, of_ab = self.encoder.pair(views[0])
        of_l, of_ab = all_gather_with_grad(of_l), all_gather_with_grad(of_ab)
        from_l = Products(scaled(of_l, self.params.temperature), self.ab_bank.rows)
        from_ab = Products(scaled(of_ab, self.params.temperature), self.l_bank.rows)
        both = self.l_contrast(from_l, index, progress, self_index=index) + self.ab_contrast(
            from_ab, index, progress, self_index=index
        )
        return Step(both, of_l, (of_l.detach(), of_ab.detach()))

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Store the embeddings, each in its own bank."""
        of_l, of_ab = step.stored
        self.l_bank.update(index, of_l)
        self.ab_bank.update(index, of_ab)

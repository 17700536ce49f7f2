"""IR: each image is its own class, told from other images' rows in a memory bank."""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.device import autocast
from annulus.compute.distributed import all_gather_with_grad
from annulus.compute.rng import generator
from annulus.config.methods import IRParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Progress
from annulus.methods.critics import build_critic
from annulus.methods.memory import MemoryBank
from annulus.methods.step import Method, Setting, Step


class InstanceDiscrimination(Method):
    """One encoder; the positive of a view is its image's row in the bank, the negatives are other rows.

    BALL, RING, CAVE and IRing by the sampler, LA by neighbours and bound.

    Source: Wu et al. 2020, arXiv:2005.13149, Eqs. 1 and 7; Wu et al. 2020, arXiv:2010.02037, Section 2.
    """

    views = 1
    memory = "bank"

    def __init__(self, encoder: Encoder, params: IRParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        # The bank starts from CPU draws, so that a GPU starts from the same rows.
        start = generator(setting.seed, "bank")
        self.bank = MemoryBank(setting.images, params.embedding_dim, params.bank_rate, start)
        self.contrast = Contrast(setting.contrast, setting.images, setting.seed, setting.device)
        self.critic = build_critic(params.critic, params.embedding_dim, params.temperature, setting.seed)
        self.to(setting.device)

    @property
    def stored(self) -> Float[Tensor, "n d"]:
        """The bank."""
        return self.bank.rows

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Fill the bank with embeddings of the images, where the parameters say so."""
        if self.params.bank_start == "encoder":
            self.bank.fill(embed())

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], progress: Progress) -> Step:
        """Each view against its own row and negatives from the bank."""
        with autocast(views[0].device):
            query = self.encoder(views[0])
        query = all_gather_with_grad(query)  # (b, d)
        scores = self.critic(query, self.bank.rows)
        return Step(self.contrast(scores, index, progress, self_index=index), query, (query.detach(),))

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Store the embeddings."""
        self.bank.update(index, *step.stored)

"""IR: each image is its own class, told from other images' rows in a memory bank."""

from collections.abc import Callable, Sequence

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.compute.device import autocast
from annulus.compute.distributed import gather
from annulus.compute.rng import generator
from annulus.config.methods import IRParams
from annulus.encoders.encoder import Encoder
from annulus.methods.contrast import Contrast, Moment
from annulus.methods.critics import build_witness
from annulus.methods.memory import MemoryBank
from annulus.methods.step import Setting, Step


class InstanceDiscrimination(nn.Module):
    """One encoder; the positive of a view is its image's row in the bank, the negatives are other rows.

    Source: mutualinfo section 2 (IR, IR-nce, LA), ring section 2 eq. 3; BALL, RING, CAVE and IRing by the sampler,
    LA by neighbours and bound.
    """

    views = 1

    def __init__(self, encoder: Encoder, params: IRParams, setting: Setting) -> None:
        super().__init__()
        self.encoder, self.params = encoder, params
        # The bank starts from CPU draws, so that a GPU starts from the same rows.
        start = generator(setting.seed, "bank")
        self.bank = MemoryBank(setting.images, params.embedding_dim, params.bank_rate, start)
        self.contrast = Contrast(setting.objective, setting.images, setting.seed, setting.device)
        self.witness = build_witness(params, setting.seed)
        self.to(setting.device)

    @property
    def stored(self) -> Float[Tensor, "n d"]:
        """A stored embedding of every training image."""
        return self.bank.rows

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Fill the bank with embeddings of the images, where the parameters say so."""
        if self.params.bank_start == "encoder":
            self.bank.fill(embed())

    def before_epoch(self, epoch: int, embed: Callable[[], Tensor]) -> None:
        """Cluster the bank anew, where clusters are needed."""
        self.contrast.cluster(self.bank.rows, epoch)

    def loss(self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "b"], moment: Moment) -> Step:
        """The objective of each view against its own row and negatives from the bank."""
        with autocast(views[0].device):
            anchor = self.encoder(views[0])
        anchor = gather(anchor)  # (b, d)
        scores = self.witness(anchor, self.bank.rows)
        return Step(self.contrast(scores, index, moment, own=index), anchor, (anchor.detach(),))

    def after_step(self, index: Int[Tensor, "b"], step: Step) -> None:
        """Store the embeddings. Backward reads the bank, so this must follow it."""
        self.bank.update(index, *step.stored)

"""IR: each image is its own class, against other images' rows in a memory bank."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import ClassVar, Literal, Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.bounds.bound import Estimate
from annulus.device.device import without_autocast
from annulus.device.distributed import all_gather, local
from annulus.device.rng import generator
from annulus.encoders.module_encoder import AnyEncoder, Pool
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.critics import Critic, build_critic
from annulus.methods.memory import MemoryBank
from annulus.methods.step import Method, MethodSettings, Setting, Step
from annulus.settings import Share


@dataclass(frozen=True, kw_only=True)
class IRSettings(MethodSettings):
    """Settings of IR, with a memory bank. critic: score of a pair of embeddings.

    bank_rate: share of the old row that an update keeps; bank_start: rows before the first step.

    >>> settings = annulus.methods.IRSettings(
    ...     temperature=0.07, negatives="sampled", embedding_dim=128, warmup=0.0, head="linear",
    ...     bank_rate=0.5, bank_start="encoder", critic="dot",
    ... )
    >>> settings.negative_columns(images=50_000, batch=256, queue=0)
    49999
    """

    keeps_bank: ClassVar = True
    bank_rate: Share
    bank_start: Literal["encoder", "random"]
    head: Literal["linear", "mlp"]
    critic: Critic

    @property
    def method(self) -> "type[IR]":
        return IR

    def negative_columns(self, images: int, batch: int, queue: int) -> int:
        """All rows of the bank except the query's own."""
        return images - 1


class IR(Method):
    """Instance discrimination: the positive of a view is its image's row in a memory bank, negatives are other rows.

    The sampler makes it BALL, RING, CAVE or IRing; neighbours and bound make it LA. With a split it is CMC: two
    networks and two banks, and the loss is the sum of two IRs with swapped banks.

    Source: Wu et al. 2020, arXiv:2005.13149, Eqs. 1 and 7, Section 3.1 (Lemma 3.1); Wu et al. 2020, arXiv:2010.02037,
    Section 2; Tian et al. 2019, arXiv:1906.05849, Section 3.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> method = annulus.IR.create(network, images=100, dim=16)
    >>> index = torch.arange(8)  # rows of the batch's images among the 100
    >>> step = method.loss([torch.rand(8, 3, 8, 8)], index)
    >>> step.estimate.loss.backward()
    >>> method.after_step(index, step)  # after the optimiser's step: writes the bank
    """

    views = 1
    memory = "bank"

    def __init__(self, encoder: AnyEncoder, params: IRSettings, setting: Setting) -> None:
        super().__init__(encoder, params, setting)
        # A bank starts from CPU draws, so that a GPU starts from the same rows.
        size = setting.images, params.embedding_dim, params.bank_rate
        self.banks = nn.ModuleList(MemoryBank(*size, generator(setting.seed, "bank", name)) for name in encoder.names)
        self.critics = nn.ModuleList(
            build_critic(params.critic, params.embedding_dim, params.temperature, setting.seed, name)
            for name in encoder.names
        )
        self.to(setting.device)

    @classmethod
    def create(
        cls,
        encoder: nn.Module | str,
        *,
        images: int,
        dim: int | None = None,
        contrast: ContrastConfig | None = None,
        temperature: float = 0.07,
        bank_rate: float = 0.5,
        critic: Critic = "dot",
        pool: Pool | None = None,
        seed: int = 0,
    ) -> Self:
        """IR for your own loop, with the defaults of Wu et al. 2020, arXiv:2005.13149, Appendix C.2.

        `encoder`: an encoder of annulus, or any module that embeds a batch as (batch, dim), or a name. A name such as
        "timm/resnet18" gives a network with fresh weights and a linear head, and needs `dim`. `pool` turns a module's
        map, tokens or output object into vectors, as in `ModuleEncoder`.
        Training images are numbered from 0 to `images` - 1. `contrast`: negatives and bound. By default InfoNCE with
        4096 uniform negatives. `bank_rate`: share of the old row that an update keeps. The bank starts with random
        rows; `method.banks[0].fill(embeddings)` starts it with embeddings of all images, which learns faster. `critic`:
        each except "dot" has weights, which an optimiser of `method.parameters()` trains.

        Raises:
            InputError: if a setting is outside its limits, or the encoder does not return embeddings of `dim` numbers.
        """
        return cls._by_hand(
            encoder,
            IRSettings,
            images,
            dim,
            contrast or ContrastConfig(negatives=4096),
            seed,
            temperature=temperature,
            bank_rate=bank_rate,
            bank_start="random",
            critic=critic,
            pool=pool,
        )

    @property
    def stored_parts(self) -> list[Float[Tensor, "n d"]]:
        """The banks."""
        return [bank.rows for bank in self.banks]

    def start(self, embed: Callable[[], Tensor]) -> None:
        """Fills the banks with embeddings of the images, if `bank_start` is "encoder"."""
        if self.params.bank_start == "encoder":
            for bank, embeddings in zip(self.banks, embed().chunk(len(self.banks), dim=1), strict=True):
                bank.fill(embeddings)

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"], progress: Progress = END
    ) -> Step:
        """Contrasts each view with its own row and other rows of the bank; with a split, of the other part's bank."""
        self.check(views, index)
        queries, pooled = self.embed(views[0])  # of each part
        estimate = self.among_rows(queries, local(index), progress)
        return Step(estimate, queries[0], tuple(all_gather(query.detach()) for query in queries), pooled)

    def among_rows(
        self, queries: Sequence[Float[Tensor, "b d"]], index: Int[Tensor, "b"], progress: Progress
    ) -> Estimate:
        """Estimate of queries of the images `index`, one batch for each network, against the other network's rows."""
        with without_autocast(index.device):
            estimates = [
                contrast(critic(query, bank.rows), index, progress, self_index=index)
                for contrast, critic, query, bank in zip(
                    self.contrasts, self.critics, queries, reversed(self.banks), strict=True
                )
            ]
        return reduce(add, estimates)

    def after_step(self, index: Int[Tensor, "all"], step: Step, *, follow: bool = True) -> None:
        """Writes each network's embeddings to its own bank; `follow` has no effect."""
        for bank, embedding in zip(self.banks, step.stored, strict=True):
            bank.update(index, embedding)

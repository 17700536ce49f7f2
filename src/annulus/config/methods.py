"""Sections that say who holds the keys."""

from typing import ClassVar, Literal

from pydantic import Field

from annulus.config.params import Params, Rows, Temperature, Width
from annulus.config.training import PretrainScale

Negatives = Literal["sampled", "all"]  # K of the sampler's set, with replacement, or the whole set
Warmup = Field(ge=0, lt=1)  # share of training over which the learning rate rises in a line from zero


class MethodParams(Params):
    """What every method has."""

    keeps_queue: ClassVar = False
    networks: ClassVar = 1  # 2 with a slow copy that gives the keys
    keeps_bank: ClassVar = False  # a row for each image
    temperature: Temperature
    negatives: Negatives
    embedding_dim: Width
    warmup: float = Warmup

    def negative_columns(self, images: int, pretrain: PretrainScale) -> int:
        """How many columns of the memory may be a query's negatives, of so many training images."""
        raise NotImplementedError


class BankParams(MethodParams):
    """A memory bank. bank_rate: share of the old row that an update keeps; bank_start: rows before the first step."""

    keeps_bank: ClassVar = True
    bank_rate: float = Field(ge=0, lt=1)
    bank_start: Literal["encoder", "random"]
    head: Literal["linear", "mlp"]

    def negative_columns(self, images: int, pretrain: PretrainScale) -> int:
        """All rows of the bank but the query's own."""
        return images - 1


class IRParams(BankParams):
    """Instance discrimination: one encoder and a memory bank. critic: how a pair of embeddings is scored."""

    critic: Literal["dot", "bilinear", "concat-linear", "mlp-1", "mlp-2"]


class PIRLParams(IRParams):
    """IR with a jigsaw. jigsaw_weight: share of the loss that the jigsaw's branch has."""

    jigsaw_weight: float = Field(ge=0, le=1)


class MoCoParams(MethodParams):
    """A momentum encoder and a queue of its keys. shuffle_groups: key batches normalised apart, shuffled."""

    keeps_queue: ClassVar = True
    networks: ClassVar = 2
    momentum: float = Field(ge=0, lt=1)
    shuffle_groups: Rows
    head: Literal["linear", "mlp"]

    def negative_columns(self, images: int, pretrain: PretrainScale) -> int:
        """The queue, where an older key of the query's own image may lie or not."""
        return pretrain.queue


class SimCLRParams(MethodParams):
    """Two views of each image in one batch, each the other's positive."""

    head: Literal["linear", "mlp", "mlp-bn"]

    def negative_columns(self, images: int, pretrain: PretrainScale) -> int:
        """Both views of the batch's other images."""
        return 2 * pretrain.batch_size - 2


class SiMoParams(MethodParams):
    """Momentum keys of the current batch. batch_norm: over all processes' batches, or shuffled groups as in MoCo."""

    networks: ClassVar = 2
    momentum: float = Field(ge=0, lt=1)
    batch_norm: Literal["sync", "shuffle"]
    shuffle_groups: Rows
    head: Literal["linear", "mlp", "mlp-bn"]

    def negative_columns(self, images: int, pretrain: PretrainScale) -> int:
        """The keys of the batch's other images."""
        return pretrain.batch_size - 1


AnyMethod = IRParams | PIRLParams | MoCoParams | SimCLRParams | SiMoParams


class Methods(Params):
    ir: IRParams
    pirl: PIRLParams
    moco: MoCoParams
    simclr: SimCLRParams
    simo: SiMoParams

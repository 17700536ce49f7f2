"""Sections that say who holds the keys, and how scores become nats."""

from typing import Literal

from pydantic import Field

from annulus.config.params import Params, Rows, Temperature, Width

Draw = Literal["k", "all"]  # K of the sampler's set, with replacement, or the whole set
Warmup = Field(ge=0, lt=1)  # share of training over which the learning rate rises in a line from zero


class MethodParams(Params):
    """What every method has."""

    temperature: Temperature
    draw: Draw
    embedding_dim: Width
    warmup: float = Warmup


class BankParams(MethodParams):
    """A memory bank. bank_rate: share of the old row that an update keeps; bank_start: rows before the first step."""

    bank_rate: float = Field(ge=0, lt=1)
    bank_start: Literal["encoder", "random"]
    head: Literal["linear", "mlp"]


class IRParams(BankParams):
    """Instance discrimination: one encoder and a memory bank. witness: how a pair of embeddings is scored."""

    witness: Literal["dot", "bilinear", "concat-linear", "mlp-1", "mlp-2"]


class CMCParams(BankParams):
    """Two encoders, of L and of ab, each with a memory bank that the other one reads."""


class MoCoParams(MethodParams):
    """A momentum encoder and a queue of its keys. shuffle_groups: key batches normalised apart, shuffled."""

    momentum: float = Field(ge=0, lt=1)
    shuffle_groups: Rows
    head: Literal["linear", "mlp"]


class SimCLRParams(MethodParams):
    """Two views of each image in one batch, each the other's positive."""

    head: Literal["linear", "mlp", "mlp-bn"]


class SiMoParams(MethodParams):
    """Momentum keys of the current batch. batch_norm: over all processes' batches, or shuffled groups as in MoCo."""

    momentum: float = Field(ge=0, lt=1)
    batch_norm: Literal["sync", "shuffle"]
    shuffle_groups: Rows
    head: Literal["linear", "mlp", "mlp-bn"]


AnyMethod = IRParams | CMCParams | MoCoParams | SimCLRParams | SiMoParams


class Methods(Params):
    ir: IRParams
    cmc: CMCParams
    moco: MoCoParams
    simclr: SimCLRParams
    simo: SiMoParams

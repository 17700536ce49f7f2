"""PIRL: IR with a second query of each image, the nine pieces of its jigsaw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local
from annulus.encoders.module_encoder import AnyEncoder
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.critics import Critic
from annulus.methods.ir import IR, IRSettings
from annulus.methods.jigsaw_branch import JigsawBranch, both_branches, jigsaw_views
from annulus.methods.step import Setting, Step
from annulus.settings import Fraction
from annulus.views.crop import Crop
from annulus.views.settings import ViewSet


@dataclass(frozen=True, kw_only=True)
class PIRLSettings(IRSettings):
    """Settings of IR with a jigsaw.

    jigsaw_weight: the jigsaw branch's share of the loss. jigsaw_crop: crop of the jigsaw's view, which then has a flip
    and no colour changes (as in the authors' code of Tian et al. 2020). None: the set of the other views.

    >>> settings = annulus.methods.PIRLSettings(
    ...     temperature=0.07, negatives="sampled", embedding_dim=128, warmup=0.0, head="linear",
    ...     bank_rate=0.5, bank_start="encoder", critic="dot", jigsaw_weight=0.5, jigsaw_crop=None,
    ... )
    >>> settings.method.__name__
    'PIRL'
    """

    jigsaw_weight: Fraction
    jigsaw_crop: Crop | None

    @property
    def method(self) -> "type[PIRL]":
        return PIRL


class PIRL(IR):
    """IR with a second branch: another view's jigsaw is a query for the same row of the bank.

    The bank holds embeddings of views, not of jigsaws. The reported bound is the unweighted mean of both
    branches. The reported gradients are the gradients of the view's queries.

    Source: Misra and van der Maaten 2020, arXiv:1912.01991, Section 2; Tian et al. 2020, arXiv:2005.10243, Section 7.1.

    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> method = annulus.methods.PIRL.create(annulus.build_encoder(config, seed=0), images=100)
    >>> index = torch.arange(8)
    >>> step = method.loss([torch.rand(8, 3, 32, 32), torch.rand(8, 3, 32, 32)], index)
    >>> step.estimate.loss.backward()
    >>> method.after_step(index, step)
    """

    views = 2

    def __init__(self, encoder: AnyEncoder, params: PIRLSettings, setting: Setting) -> None:
        super().__init__(encoder, params, setting)
        self.jigsaw = JigsawBranch(encoder, params.embedding_dim, setting.seed).to(setting.device)

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
        jigsaw_weight: float = 0.5,
        seed: int = 0,
    ) -> Self:
        """PIRL for your own loop: `IR.create` with the jigsaw's share of the loss.

        `encoder`: an encoder of annulus, or a name such as "timm/resnet18" and `dim`. The optimiser takes
        `method.parameters()`, since the jigsaw's head is outside the encoder.

        Raises:
            InputError: as `IR.create`; for a plain network, since the width of its pooled features is unknown.
        """
        return cls._by_hand(
            encoder,
            PIRLSettings,
            images,
            dim,
            contrast or ContrastConfig(negatives=4096),
            seed,
            temperature=temperature,
            bank_rate=bank_rate,
            bank_start="random",
            critic=critic,
            jigsaw_weight=jigsaw_weight,
            jigsaw_crop=None,
        )

    def view_sets(self, views: ViewSet) -> list[ViewSet]:
        """Returns the set of each view: `views`, and for the last view the jigsaw's own set."""
        return [*super().view_sets(views)[:-1], jigsaw_views(self.params.jigsaw_crop, views)]

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"], progress: Progress = END
    ) -> Step:
        """Computes (1 - weight) * loss of the first view + weight * loss of the second view's jigsaw."""
        step = super().loss(views, index, progress)
        jigsaw = self.among_rows(self.jigsaw(views[1]), local(index), progress)
        return both_branches(step, jigsaw, self.params.jigsaw_weight)

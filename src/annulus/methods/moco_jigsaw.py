"""MoCo with a second query for each key, the nine pieces of a jigsaw: InfoMin's method, with the views `infomin`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.device.distributed import local
from annulus.encoders.module_encoder import AnyEncoder
from annulus.methods.contrast_config import END, ContrastConfig, Progress
from annulus.methods.jigsaw_branch import JigsawBranch, both_branches, jigsaw_views
from annulus.methods.moco import MoCo, MoCoSettings
from annulus.methods.step import Setting, Step
from annulus.settings import Fraction
from annulus.views.batch_share import BatchShare
from annulus.views.crop import Crop
from annulus.views.settings import ViewSet


@dataclass(frozen=True, kw_only=True)
class MoCoJigsawSettings(MoCoSettings):
    """Settings of MoCo with a jigsaw.

    jigsaw_weight: the jigsaw branch's share of the loss. jigsaw_crop: crop of the jigsaw's view, which then has a flip
    and no colour changes (as in the authors' code of Tian et al. 2020). None: the set of the other views.

    >>> settings = annulus.methods.MoCoJigsawSettings(
    ...     temperature=0.15, negatives="all", embedding_dim=128, warmup=0.0, head="mlp",
    ...     momentum=0.999, shuffle_groups=8, jigsaw_weight=0.5, jigsaw_crop=None,
    ... )
    >>> settings.method.__name__
    'MoCoJigsaw'
    """

    jigsaw_weight: Fraction
    jigsaw_crop: Crop | None

    @property
    def method(self) -> "type[MoCoJigsaw]":
        return MoCoJigsaw


class MoCoJigsaw(MoCo):
    """MoCo with a second branch: a third view's jigsaw is a query for the same key.

    The queue holds keys of views, not of jigsaws. The reported bound is the unweighted mean of both branches.
    The reported gradients are the gradients of the view's queries. The jigsaw's head is linear, as in PIRL, for any
    head of the encoder. The jigsaw's view is neither query nor key, as in the authors' code.

    Source: Tian et al. 2020, arXiv:2005.10243, Section 7.3 ("adding JigSaw" to MoCo); Misra and van der Maaten 2020,
    arXiv:1912.01991, Section 2.

    >>> config = annulus.EncoderConfig("convnet", "cifar", "mlp", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> method = annulus.methods.MoCoJigsaw.create(annulus.build_encoder(config, seed=0), images=100, queue=512)
    >>> index = torch.arange(8)
    >>> step = method.loss([torch.rand(8, 3, 32, 32) for _ in range(3)], index)
    >>> step.estimate.loss.backward()
    >>> method.after_step(index, step)
    """

    views = 3

    def __init__(self, encoder: AnyEncoder, params: MoCoJigsawSettings, setting: Setting) -> None:
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
        temperature: float = 0.15,
        momentum: float = 0.999,
        queue: int = 65536,
        shuffle_groups: int = 8,
        keys_per_image: int | None = None,
        jigsaw_weight: float = 0.5,
        seed: int = 0,
    ) -> Self:
        """MoCo with a jigsaw for your own loop: `MoCo.create` with the jigsaw's share of the loss.

        `encoder`: an encoder of annulus, or a name such as "timm/resnet18" and `dim`.
        The temperature is from Tian et al. 2020, arXiv:2005.10243, Figure 11 (with an MLP head). The optimiser takes
        `method.parameters()`, since the jigsaw's head is outside the encoder.

        Raises:
            InputError: as `MoCo.create`; for a plain network, since the width of its pooled features is unknown.
        """
        return cls._by_hand(
            encoder,
            MoCoJigsawSettings,
            images,
            dim,
            contrast or ContrastConfig(),
            seed,
            queue,
            keys_per_image,
            temperature=temperature,
            momentum=momentum,
            shuffle_groups=shuffle_groups,
            jigsaw_weight=jigsaw_weight,
            jigsaw_crop=None,
        )

    def batch_shares(self, batch: int, steps: int) -> list[list[BatchShare]]:
        """MoCo's shares, and the queries' images once more for the jigsaws."""
        return [[query, key, query] for query, key in super().batch_shares(batch, steps)]

    def view_sets(self, views: ViewSet) -> list[ViewSet]:
        """Returns the set of each view: `views`, and for the last view the jigsaw's own set."""
        return [*super().view_sets(views)[:-1], jigsaw_views(self.params.jigsaw_crop, views)]

    def loss(
        self, views: Sequence[Float[Tensor, "b 3 h w"]], index: Int[Tensor, "all"], progress: Progress = END
    ) -> Step:
        """Computes (1 - weight) * loss of the first view + weight * loss of the third view's jigsaw."""
        step = super().loss(views, index, progress)
        jigsaw = self.among_keys(self.jigsaw(views[2]), step.stored, local(index), progress)
        return both_branches(step, jigsaw, self.params.jigsaw_weight)

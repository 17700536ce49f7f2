"""Linear classifier trained beside the encoder, on features of each step's own pass: accuracy in the papers' unit.

It does not change the encoder's gradient and draws no random numbers, so the encoder has the same bits without it.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.distributed import all_gather, local
from annulus.encoders.encoder import Encoder, SplitEncoder
from annulus.files.images import UNLABELLED
from annulus.methods.step import Step
from annulus.training.loop import Observer, Training

MOMENTUM = 0.9
STATISTICS_RATE = 0.05  # share of a batch in the running mean and variance of the features
EPS = 1e-5


class OnlineProbe(Observer):
    """Softmax regression of a view's class from its pooled features, one step of SGD for each of the encoder's.

    Features are standardised by the batch, at evaluation by running statistics. Weights start at zero. The learning
    rate is 4 / width. The largest eigenvalue of the features' covariance is at most the width, and the softmax's
    curvature is at most one half. So a step never overshoots by more than momentum damps.
    The optimiser is written out, since autograd and torch.optim take several times as long at a batch of 32 images.
    Images without a class have no gradient. Each of several processes learns from the whole batch.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 5 (linear evaluation, there of frozen encoders).

    >>> from annulus.training.online_probe import OnlineProbe
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, None, mean=(0.5,) * 3, std=(0.25,) * 3)
    >>> encoder = annulus.build_encoder(config, seed=0)
    >>> probe = OnlineProbe(encoder, labels=torch.arange(8) % 2, classes=2, device=torch.device("cpu"))
    >>> probe.learn(torch.arange(8), [encoder.pooled(torch.rand(8, 3, 32, 32)).detach()])
    >>> probe.accuracy(torch.rand(4, 128), torch.tensor([0, 1, 0, 1])) in (0, 25, 50, 75, 100)
    True
    """

    def __init__(
        self, encoder: Encoder | SplitEncoder, labels: Int[Tensor, "n"], classes: int, device: torch.device
    ) -> None:
        """`labels`: the class of every training image, UNLABELLED without one."""
        self.labels = labels.to(device)
        self.all_labelled = bool((labels != UNLABELLED).all())
        width = encoder.width * len(encoder.names)
        self.rate = 4 / width
        self.weight, self.velocity = torch.zeros(2, width + 1, classes, device=device)  # the last row is the bias
        self.mean, self.var = torch.zeros(width, device=device), torch.ones(width, device=device)

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        self.learn(index, step.pooled)

    @torch.no_grad()
    def learn(self, index: Int[Tensor, "all"], pooled: Sequence[Float[Tensor, "v _"]]) -> None:
        """One step of SGD on the features of views of images `index`, from each of the encoder's networks.

        All first views come before all second views.
        """
        features = (pooled[0] if len(pooled) == 1 else torch.cat(pooled, dim=1)).float()
        views = len(features) // len(local(index))
        if views > 1 or len(features) < len(index):  # in each process's part the first views come first
            features = torch.cat([all_gather(view) for view in features.chunk(views)])
        labels = self.labels[index]
        labels = labels[:, None] if views == 1 else labels.repeat(views)[:, None]
        features = self._standardised(features, training=True)
        gradient = (features @ self.weight).softmax(dim=1)
        if self.all_labelled:
            gradient.scatter_(1, labels, -1.0, reduce="add")
        else:
            gradient.scatter_(1, labels.clamp_min(0), -1.0, reduce="add").mul_(labels != UNLABELLED)
        self.velocity.addmm_(features.T, gradient, beta=MOMENTUM, alpha=1 / len(features))
        self.weight.sub_(self.velocity, alpha=self.rate)

    def accuracy(self, features: Float[Tensor, "m c"], labels: Int[Tensor, "m"]) -> float:
        """Percent of the images with the right class, predicted from their pooled features; 100 / classes at chance."""
        classes = (self._standardised(features.to(self.mean.device), training=False) @ self.weight).argmax(dim=1)
        return 100 * (classes == labels.to(classes.device)).double().mean().item()

    def _standardised(self, features: Float[Tensor, "m c"], training: bool) -> Float[Tensor, "m c1"]:
        """Scales each feature to mean 0 and variance 1, and appends a one for the bias."""
        features = F.batch_norm(features, self.mean, self.var, training=training, momentum=STATISTICS_RATE, eps=EPS)
        return F.pad(features, (0, 1), value=1.0)

    def state_dict(self) -> dict[str, Any]:
        return {"weight": self.weight, "velocity": self.velocity, "mean": self.mean, "var": self.var}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])

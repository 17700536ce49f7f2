"""Adversarial game: estimators of the views' shared information against the generator of the views."""

import math
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.encoders.encoder import SplitEncoder
from annulus.optim.torch_optimizers import Adam
from annulus.views.learned import Parts, ViewGenerator
from annulus_lab.studies.view_learning.batches import GeneratorBatch
from annulus_lab.studies.view_learning.view_learning_params import GeneratorParams

STATE = ("generator", "estimators", "classifiers", "climbing", "descending")


class GameLosses(NamedTuple):
    """Losses of a step in nats: I_NCE, and the sum of both classifiers' cross-entropies; None: not used."""

    shared: Float[Tensor, ""] | None
    classified: Float[Tensor, ""] | None


class ViewLearning:
    """Generator with two classifiers, and two estimators against them; each side has its own Adam.

    min over generator and classifiers, max over estimators, of

        I_NCE(g(X)_1; g(X)_2:3) + CE(c1(g(X)_1), y) + CE(c2(g(X)_2:3), y).

    An unsupervised generator leaves out the cross-entropies, a supervised one I_NCE.

    Source: Tian et al. 2020, arXiv:2005.10243, Eq. 6.1, Eq. 6.2, Appendix B.5.
    """

    def __init__(
        self, params: GeneratorParams, generator: ViewGenerator, estimators: SplitEncoder, classifiers: SplitEncoder
    ) -> None:
        """`classifiers`: encoders whose head has an output for each class."""
        self.params, self.generator, self.estimators, self.classifiers = params, generator, estimators, classifiers
        self.climbing = Adam(estimators.parameters(), lr=params.estimator_rate)
        self.descending = Adam(
            [
                {"params": list(generator.parameters()), "lr": params.generator_rate},
                {"params": list(classifiers.parameters()) if params.sees_labels else [], "lr": params.estimator_rate},
            ]
        )

    def step(self, batch: GeneratorBatch) -> GameLosses:
        """Estimators climb I_NCE of the views; then generator and classifiers descend the objective."""
        shared = classified = None
        if self.params.reduces_information:
            with torch.no_grad():
                views = self.generator(batch.images)
            _descend(-self.shared(views), self.climbing)
            shared = self.shared(self.generator(batch.images))
        if self.params.sees_labels:
            classified = self.classified(self.generator(batch.labelled), batch.labels)
        terms = [term for term in (shared, classified) if term is not None]
        _descend(sum(terms), self.descending)
        return GameLosses(*(None if term is None else term.detach() for term in (shared, classified)))

    def state_dict(self) -> dict[str, Any]:
        """State of the networks and optimisers: the next step depends on it and on its batch."""
        return {name: getattr(self, name).state_dict() for name in STATE}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for name in STATE:
            getattr(self, name).load_state_dict(state[name])

    def shared(self, views: Parts) -> Float[Tensor, ""]:
        """I_NCE of a batch in nats, mean of both directions; at most the log of the number of images.

        Source: Tian et al. 2020, arXiv:2005.10243, Eq. 3.1, Eq. 3.2.
        """
        first, second = (network(view) for network, view in zip(self.estimators.parts, views, strict=True))
        scores = first @ second.T / self.params.temperature
        own = torch.arange(len(scores), device=scores.device)
        return math.log(len(scores)) - (F.cross_entropy(scores, own) + F.cross_entropy(scores.T, own)) / 2

    def classified(self, views: Parts, labels: Int[Tensor, "b"]) -> Float[Tensor, ""]:
        """Sum of both classifiers' cross-entropies, in nats."""
        pairs = zip(self.classifiers.parts, views, strict=True)
        return sum(F.cross_entropy(network.head(network.pooled(view)), labels) for network, view in pairs)


def _descend(loss: Float[Tensor, ""], optimizer: Adam) -> None:
    """Steps the optimizer's own weights; computes no gradients of the other weights behind the loss."""
    optimizer.zero_grad()
    loss.backward(inputs=[weight for group in optimizer.param_groups for weight in group["params"]])
    optimizer.step()

"""Any method as a LightningModule, and its online measurement as a callback.

The classes derive from the package `lightning` if it is installed, else from `pytorch_lightning`: a Trainer takes only
modules of its own package.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from annulus.device.distributed import all_gather, rank, world_size
from annulus.encoders.extract import extract_features
from annulus.errors import require
from annulus.evals.knn import KnnSettings, evaluate_knn
from annulus.evals.linear import probe_features
from annulus.evals.linear_settings import LinearBudget
from annulus.methods.contrast_config import Progress
from annulus.methods.step import Method
from annulus.negatives.annealing import Annealing, ConstantAnnealing

if find_spec("lightning") is not None:
    from lightning.pytorch import Callback, LightningModule, Trainer
else:
    require(__name__, "lightning", ["pytorch_lightning"])
    from pytorch_lightning import Callback, LightningModule, Trainer


class Pretraining(LightningModule):
    """Trains a method with Lightning's Trainer; logs `loss_nats` and `bound_nats` of each step.

    `optimizer` takes the weights and returns the result of Lightning's `configure_optimizers`. `annealing` depends on
    the completed share of training, so the Trainer needs an end. `embed()` returns the embeddings of all training
    images on the method's device; methods that cluster them need it before each epoch. A batch is (views, the images'
    numbers). If a method needs no numbers, such as SimCLR, only the views are read.

    A checkpoint holds the weights, memory and random states of the method, and torch's global random state in each
    process. On a CPU, a run that resumes at the end of an epoch has the same bits as an uninterrupted run.

    >>> from functools import partial
    >>> from annulus.lightning import Pretraining
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(3072, 128))
    >>> method = annulus.MoCo.create(network, images=1000, dim=128)
    >>> module = Pretraining(method, partial(torch.optim.SGD, lr=0.03, momentum=0.9))
    """

    def __init__(
        self,
        method: Method,
        optimizer: Callable[[Iterator[nn.Parameter]], Any],
        annealing: Annealing | None = None,
        embed: Callable[[], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.method, self.optimizer, self.embed = method, optimizer, embed
        self.annealing = annealing or ConstantAnnealing()
        self.random_states: list[Tensor] = []

    def configure_optimizers(self) -> Any:
        return self.optimizer(self.method.parameters())

    def on_train_start(self) -> None:
        self.steps, self.followed = self.trainer.estimated_stepping_batches, self.trainer.global_step

    def on_train_epoch_start(self) -> None:
        if self.embed is not None:
            self.method.before_epoch(self.current_epoch, self.embed)
            self.train()

    def training_step(self, batch: Sequence[Any], number: int) -> Tensor:
        share = self.trainer.global_step / self.steps
        self.index = all_gather(batch[1]) if self.method.needs_index else None
        self.step = self.method(batch[0], self.index, Progress(share, self.annealing.progress(share)))
        estimate = self.step.estimate
        self.log_dict({"loss_nats": estimate.loss_nats, "bound_nats": estimate.bound_nats})
        return estimate.loss

    def on_train_batch_end(self, outputs: Any, batch: Sequence[Any], number: int) -> None:
        follow = self.trainer.global_step > self.followed  # false while gradients of several batches add up
        self.method.after_step(self.index, self.step, follow=follow)
        self.followed = self.trainer.global_step
        del self.step  # and its graph

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        states = (random.get_state()[None].to(self.device) for random in self._generators())
        checkpoint["random_states"] = [all_gather(state).cpu() for state in states]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.random_states = checkpoint["random_states"]

    def on_fit_start(self) -> None:
        for random, states in zip(self._generators(), self.random_states, strict=False):
            if len(states) == world_size():
                random.set_state(states[rank()].clone())  # torch reads a part of another tensor wrongly
        self.random_states = []

    def _generators(self) -> list[torch.Generator]:
        gpu = self.device.type == "cuda"
        return [torch.default_generator, *([torch.cuda.default_generators[self.device.index]] if gpu else [])]


class ProbeCallback(Callback):
    """Logs `knn_top1_percent` and `linear_top1_percent` of a `Pretraining` after each n-th epoch (`every`).

    `train` and `test` are batches (images, labels), as `annulus.extract_features` takes them: a DataLoader, or a list
    of one batch. `classes`: the classes' names; give them if a split may lack the last class. The callback changes no
    bit of the training.

    >>> from annulus.lightning import ProbeCallback
    >>> images, labels = torch.randint(256, (60, 3, 32, 32), dtype=torch.uint8), torch.arange(60) % 2
    >>> callback = ProbeCallback([(images[:40], labels[:40])], [(images[40:], labels[40:])], every=10)
    """

    def __init__(
        self,
        train: Iterable[Sequence[Tensor]],
        test: Iterable[Sequence[Tensor]],
        every: int = 1,
        knn: KnnSettings | None = None,
        linear: LinearBudget | None = None,
        classes: Sequence[str] | None = None,
    ) -> None:
        self.splits, self.every, self.knn, self.linear, self.classes = (train, test), every, knn, linear, classes

    def on_train_epoch_end(self, trainer: Trainer, module: LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every:
            return
        encoder, settings = module.method.encoder, {"classes": self.classes, "device": module.device}
        with torch.random.fork_rng(devices=[]):  # a DataLoader draws
            train, test = (extract_features(encoder, split, **settings) for split in self.splits)
        module.train()
        knn, linear = evaluate_knn(train, test, self.knn), probe_features(train, test, scale=self.linear)
        module.log("knn_top1_percent", knn.metrics["top1_percent"])
        module.log("linear_top1_percent", linear.metrics["top1_percent"])

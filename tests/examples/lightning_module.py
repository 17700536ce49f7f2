"""MoCo with ring negatives as a Lightning module (chance: log 65 nats)."""

import pytorch_lightning as pl
import torch

import annulus


class MoCoRing(pl.LightningModule):
    def __init__(self, network: torch.nn.Module, images: int) -> None:
        super().__init__()
        ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.5), negatives=64)
        self.method = annulus.MoCo.create(network, images=images, dim=64, queue=64, temperature=0.2, contrast=ring)

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        views = [annulus.views.augment(batch[0], "crop", 8, torch.default_generator) for _ in range(2)]
        self.step = self.method.loss(views, index=batch[1])
        return self.step.estimate.loss

    def on_train_batch_end(self, outputs: object, batch: list[torch.Tensor], number: int) -> None:
        print(f"{self.step.estimate.loss_nats:.3f} nats"), self.method.after_step(batch[1], self.step)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.method.parameters(), lr=0.06, momentum=0.9)


images = torch.randint(256, (64, 3, 1, 1), generator=torch.manual_seed(0), dtype=torch.uint8).repeat(1, 1, 10, 10)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
batches = torch.utils.data.DataLoader([*zip(images, torch.arange(64), strict=True)], batch_size=16, shuffle=True)
pl.Trainer(max_epochs=12, accelerator="cpu", logger=False, enable_checkpointing=False).fit(MoCoRing(net, 64), batches)

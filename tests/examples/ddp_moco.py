"""MoCo with ring negatives under DistributedDataParallel: `torchrun --nproc-per-node 2 FILE` (chance: log 65 nats)."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import annulus

dist.init_process_group("gloo")
torch.manual_seed(0)
images = torch.randint(256, (64, 3, 1, 1), dtype=torch.uint8).repeat(1, 1, 10, 10)
net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 512), torch.nn.ReLU(), torch.nn.Linear(512, 64))
network = DistributedDataParallel(net)  # first weights are the first process's, gradients the mean
ring = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.5), negatives=64)
method = annulus.MoCo.create(network, images=64, dim=64, queue=64, temperature=0.2, contrast=ring)
optimizer = torch.optim.SGD(network.parameters(), lr=0.06, momentum=0.9)
sampler = DistributedSampler(dataset := [*zip(images, torch.arange(64), strict=True)])
random = torch.Generator().manual_seed(dist.get_rank())  # of views: each process has its own
for epoch in range(12):
    sampler.set_epoch(epoch)
    for seen, own in DataLoader(dataset, batch_size=16 // dist.get_world_size(), sampler=sampler):
        dist.all_gather_into_tensor(index := own.repeat(dist.get_world_size()), own)  # of the whole batch, by rank
        step = method.loss([annulus.views.augment(seen, "crop", 8, random) for _ in range(2)], index)
        optimizer.zero_grad(), step.estimate.loss.backward(), optimizer.step()
        method.after_step(index, step)  # each process has the whole queue: `step` holds the keys of all
        if dist.get_rank() == 0:
            print(f"{step.estimate.loss_nats:.3f} nats")
dist.destroy_process_group()

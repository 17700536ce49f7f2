"""lightly's MoCo with annulus's queue, ring negatives and InfoNCE in place of its loss."""

from copy import deepcopy

import torch
from lightly.models.modules import MoCoProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.transforms import MoCoV2Transform
from torch.nn.functional import normalize
from torchvision import datasets, models

import annulus

random = torch.Generator().manual_seed(0)
images = datasets.FakeData(64, (3, 32, 32), transform=MoCoV2Transform(input_size=32, gaussian_blur=0.0))
network = torch.nn.Sequential(models.resnet18(num_classes=512), MoCoProjectionHead(512, 512, 128))
slow = deepcopy(network)
deactivate_requires_grad(slow)
optimizer = torch.optim.SGD(network.parameters(), lr=0.06)
queue = annulus.KeyQueue(64, dim=128, generator=random)
for index in torch.randperm(64, generator=random).split(16):
    views = (torch.stack(seen) for seen in zip(*(images[i][0] for i in index.tolist()), strict=True))
    query, key = (normalize(net(view), dim=1) for net, view in zip((network, slow), views, strict=True))
    scores = query @ queue.keys.T / 0.2
    drawn = annulus.negatives.ring(scores, queue.own(index), inner=0.01, outer=0.5, k=64, generator=random)
    loss = annulus.bounds.infonce((query * key).sum(dim=1, keepdim=True) / 0.2, drawn.gather(scores))
    optimizer.zero_grad(), loss.backward(), optimizer.step(), update_momentum(network, slow, m=0.99)
    queue.push(key, index)
    print(f"{loss:.3f} nats")

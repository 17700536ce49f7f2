"""lightly's MoCo with annulus's queue, ring negatives and InfoNCE in place of its loss (chance: log 65 nats)."""

from copy import deepcopy

import torch
from lightly.models.modules import MoCoProjectionHead
from lightly.models.utils import deactivate_requires_grad, update_momentum
from lightly.transforms import MoCoV2Transform
from PIL import Image
from torch import nn

import annulus

random = torch.manual_seed(0)
colours = torch.randint(256, (64, 3), generator=random).tolist()  # of an image each; jitter would hide them
two_views = MoCoV2Transform(input_size=32, cj_prob=0.0, random_gray_scale=0.0, gaussian_blur=0.0)
network = nn.Sequential(nn.Conv2d(3, 64, 8, 8), nn.ReLU(), nn.Flatten(), MoCoProjectionHead(1024, 64, 128))
deactivate_requires_grad(slow := deepcopy(network))
optimizer = torch.optim.SGD(network.parameters(), lr=0.06, momentum=0.9)
queue = annulus.KeyQueue(64, dim=128, generator=random)  # its random keys are told apart at once
for index in torch.cat([torch.randperm(64, generator=random) for _ in range(12)]).split(16):
    images = (Image.new("RGB", (32, 32), tuple(colours[i])) for i in index)
    views = (torch.stack(seen) for seen in zip(*map(two_views, images), strict=True))
    query, key = (nn.functional.normalize(net(view)) for net, view in zip((network, slow), views, strict=True))
    scores = query @ queue.keys.T / 0.2
    drawn = annulus.negatives.ring(scores, queue.own(index), inner=0.01, outer=0.5, k=64, generator=random)
    loss = annulus.bounds.infonce((query * key).sum(dim=1, keepdim=True) / 0.2, drawn.gather(scores))
    optimizer.zero_grad(), loss.backward(), optimizer.step(), update_momentum(network, slow, m=0.99)
    queue.push(key, index)
    print(f"{loss:.3f} nats")

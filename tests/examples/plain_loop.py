"""Ring negatives from a memory bank in a plain PyTorch loop."""

import torch
import torch.nn.functional as F
from torch import nn

import annulus

random = torch.manual_seed(0)
images = torch.rand(256, 3, 8, 8, generator=random)
encoder = nn.Sequential(nn.Flatten(), nn.Linear(192, 64))
bank = annulus.MemoryBank(len(images), dim=64, rate=0.5, generator=random)
bank.fill(encoder(images))
optimizer = torch.optim.SGD(encoder.parameters(), lr=0.01)

for _ in range(8):
    losses = []
    for index in torch.randperm(len(images), generator=random).split(32):
        noise = torch.randn(len(index), 3, 8, 8, generator=random)
        queries = F.normalize(encoder(images[index] + 0.05 * noise), dim=1)
        scores = queries @ bank.rows.T / 0.2
        drawn = annulus.negatives.ring(scores, index, inner=0.01, outer=0.5, k=64, generator=random)
        loss = annulus.bounds.infonce(scores.gather(1, index[:, None]), drawn.gather(scores))
        optimizer.zero_grad(), loss.backward(), optimizer.step()
        bank.update(index, queries.detach())  # after the step: backward still reads the rows
        losses.append(loss.detach())
    print(f"{torch.stack(losses).mean():.3f} nats")
    # A loop that resumes needs the sampler's state too (random.set_state): no module holds it.
    saved = {"encoder": encoder.state_dict(), "bank": bank.state_dict(), "random": random.get_state()}

"""kNN and a linear probe of a network of one's own: torchvision's, here without training."""

import torch
from torch.utils.data import DataLoader, TensorDataset
from torchvision.models import resnet18

import annulus

random = torch.manual_seed(0)
colours, labels = torch.rand(10, 3, 1, 1, generator=random), torch.arange(400) % 10
images = colours[labels] + 0.2 * torch.randn(400, 3, 32, 32, generator=random)

backbone = resnet18()
backbone.fc = torch.nn.Identity()  # timm: num_classes=0
encoder = annulus.ModuleEncoder(backbone, dim=128, head=torch.nn.Linear(512, 128))  # annulus.MoCo.create takes it too
parts = (TensorDataset(images[some], labels[some]) for some in (slice(300), slice(300, None)))
train, test = (annulus.extract_features(encoder, DataLoader(part, batch_size=100)) for part in parts)
knn, probe = annulus.evaluate_knn(train, test), annulus.probe_features(train, test)
print(f"kNN {knn.metrics['top1_percent']:.1f} %")
print(f"linear probe {probe.metrics['top1_percent']:.1f} %")

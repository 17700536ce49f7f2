"""The linear probe against scikit-learn's logistic regression on the same features: time and accuracy.

The target at 50,000 features of 512 numbers: at most half of its time, and at most 0.3 points below its accuracy.
"""

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from timing import medians, write

from annulus.device.rng import generator
from annulus.encoders.features import Features
from annulus.evals.linear import probe_features
from annulus_lab.studies.transfer.transfer_params import ProbeParams

TRAIN, TEST, DIM, CLASSES = 50_000, 10_000, 512, 10
TURNS = 3
PROBE = ProbeParams(layer="pooled", momentum=0.9, weight_decay=1e-5, epochs=10, batch_size=256, learning_rate=0.1)


def main() -> None:
    train, test = features()
    accuracies: dict[str, float] = {}

    def ours() -> None:
        outcome = probe_features(train, test, *PROBE.linear)
        accuracies["probe"] = outcome.metrics["top1_percent"]

    def theirs() -> None:
        vectors = train.layer("pooled").numpy()
        mean, std = vectors.mean(axis=0), vectors.std(axis=0)
        model = LogisticRegression(max_iter=1000).fit((vectors - mean) / std, train.labels.numpy())
        right = model.predict((test.layer("pooled").numpy() - mean) / std) == test.labels.numpy()
        accuracies["scikit_learn"] = 100 * float(np.mean(right))

    seconds = medians({"probe": ours, "scikit_learn": theirs}, TURNS)
    write(
        "linear",
        torch.device("cpu"),
        probe_over_scikit_learn=seconds["probe"] / seconds["scikit_learn"],
        **{f"{name}_seconds": each for name, each in seconds.items()},
        **{f"{name}_top1_percent": each for name, each in accuracies.items()},
        **{"train_features": TRAIN, "dim": DIM, "classes": CLASSES, "epochs": PROBE.epochs},
    )


def features() -> tuple[Features, Features]:
    """Features of classes that are Gaussian clouds in 24 dimensions, after a random layer and a ReLU."""
    random = generator(0, "features")
    centres, layer = torch.randn(CLASSES, 24, generator=random), torch.randn(24, DIM, generator=random)
    splits = []
    for count in (TRAIN, TEST):
        labels = torch.arange(count) % CLASSES
        hidden = centres[labels] + 1.8 * torch.randn(count, 24, generator=random)
        vectors = torch.relu(hidden @ layer + 3 * torch.randn(count, DIM, generator=random))
        splits.append(Features({"pooled": vectors}, labels, tuple("abcdefghijklmnopqrst"[:CLASSES])))
    return splits[0], splits[1]


if __name__ == "__main__":
    main()

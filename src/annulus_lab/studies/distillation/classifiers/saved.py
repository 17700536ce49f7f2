"""Saves and loads a classifier as two files: its weights, and its configuration as JSON of the same name."""

from functools import partial
from pathlib import Path

from annulus.files.weights import Kind, load_network, save_network
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.config import ClassifierConfig
from annulus_lab.studies.distillation.classifiers.network import build

KIND = Kind("a classifier", "train it again")


def save_classifier(classifier: Classifier, weights: Path) -> None:
    """Writes the weights, and the configuration as JSON of the same name beside them."""
    save_network(classifier, classifier.config, weights)


def load_classifier(weights: Path) -> Classifier:
    """Loads a classifier that `save_classifier` wrote, in evaluation mode and frozen.

    Raises:
        InputError: when a file is missing or holds something else, or the weights have other shapes.
    """
    return load_network(weights, ClassifierConfig.checked, partial(build, seed=0), KIND)

"""A classifier as two files: its weights, and what rebuilds it as JSON of the same name."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from annulus.classifiers.build import build
from annulus.classifiers.classifier import Classifier
from annulus.classifiers.config import ClassifierConfig
from annulus.errors import InputError
from annulus.files.regular import check_regular, read_text
from annulus.files.results import atomic_write


def save_classifier(classifier: Classifier, weights: Path) -> None:
    """Write the weights, and the configuration as JSON of the same name beside them."""
    with atomic_write(weights) as temporary:
        try:
            save_file({name: held.contiguous().cpu() for name, held in classifier.state_dict().items()}, temporary)
        except SafetensorError as error:
            raise OSError(str(error)) from error
    with atomic_write(weights.with_suffix(".json")) as temporary:
        temporary.write_text(json.dumps(asdict(classifier.config), indent=2, sort_keys=True) + "\n")


def load_classifier(weights: Path) -> Classifier:
    """The classifier that `save_classifier` wrote, in evaluation mode and frozen.

    Raises:
        InputError: when a file is missing or no classifier's, or the weights do not have the configuration's shapes.
    """
    try:
        check_regular(weights)
        config = ClassifierConfig.checked(json.loads(read_text(weights.with_suffix(".json"))))
        state = load_file(weights)
    except (OSError, SafetensorError, ValueError, RecursionError) as error:
        raise InputError(
            f"{weights} or its JSON is missing or not a classifier of annulus ({error}); train it again"
        ) from error
    classifier = build(config, seed=0)  # weights that the file's replace
    if (fault := _difference(classifier.state_dict(), state)) is not None:
        raise InputError(
            f"{weights} does not have the shapes of {weights.with_suffix('.json').name} ({fault}); "
            "load the two files of one run"
        )
    for name, tensor in state.items():
        if not tensor.isfinite().all():
            raise InputError(f"{weights}: {name} holds NaN or infinity; train it again")
    classifier.load_state_dict(state)
    return classifier.eval().requires_grad_(False)


def _difference(expected: Mapping[str, Tensor], found: Mapping[str, Tensor]) -> str | None:
    """The first tensor that is not what the configuration says, or None."""
    kinds = [
        {name: f"{held.dtype} {tuple(held.shape)}".removeprefix("torch.") for name, held in tensors.items()}
        for tensors in (found, expected)
    ]
    for name in [*expected, *found]:
        held, wanted = (of.get(name, "nothing") for of in kinds)
        if held != wanted:
            return f"{name} is {held}, expected {wanted}"
    return None

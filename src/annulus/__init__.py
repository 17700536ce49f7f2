"""annulus: contrastive learning of visual representations as estimation of mutual information.

Rooms in the order in which data flows through them; each imports only from those above it:

    errors         the exception that a user meets
    extras         which optional packages a room needs
    device         devices, processes, threads, random generators, kernels, checks
    files          what stages hand to one another, whole or untouched
    config         what params.yaml may hold, as strict models
    views          which views: augmentations of whole batches
    negatives      which negatives: samplers, clusters, neighbours, annealing
    bounds         which bound: scores to nats
    optim          SGD, gradient means, schedules
    encoders       networks, and their frozen features
    export         an encoder's backbone as a file for torchvision, timm or detectron2
    methods        who holds the keys: the three questions put together
    evals          kNN, linear probe, segmentation decoder; intervals, headline numbers
    diagnostics    embeddings and negatives of snapshots; the picture of the annulus
    running        worker processes, progress, checkpoints, the hash of the code
    training       the loop, and what sets it up
    pipeline       stages, provenance, MLflow
    datasets       where images come from, for `prepare`
    compare        two variants of the main line, number by number
    report         all that was measured as one page, beside the papers
    studies        a folder for each study, and what they share
    sweep          all runs of a study in parallel, here or on a cluster

`annulus --help` lists the programs among them (`__main__`).

For other training loops: `annulus.negatives` and `annulus.bounds` (their `__all__`), the names below, and nothing else.
They are imported when they are first asked for, so that importing one room does not import the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from annulus import bounds, negatives
    from annulus.encoders.encoder import load_encoder
    from annulus.methods.contrast import Contrast, ContrastConfig
    from annulus.methods.memory import KeyQueue, MemoryBank

__all__ = ["Contrast", "ContrastConfig", "KeyQueue", "MemoryBank", "bounds", "load_encoder", "negatives"]
__version__: str

_HOMES = {
    "Contrast": "annulus.methods.contrast",
    "ContrastConfig": "annulus.methods.contrast",
    "KeyQueue": "annulus.methods.memory",
    "MemoryBank": "annulus.methods.memory",
    "load_encoder": "annulus.encoders.encoder",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"annulus.{name}")
    if name == "__version__":
        return _version()
    raise AttributeError(f"module 'annulus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Of the distribution annulus-ssl; of a checkout that is not installed, what its pyproject.toml says."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("annulus-ssl")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        project = Path(__file__).parents[2] / "pyproject.toml"
        return tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"]

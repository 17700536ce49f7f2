"""annulus: contrastive learning of visual representations as estimation of mutual information.

Rooms in the order in which data flows through them; each imports only from those above it:

    errors         the exception that a user meets
    extras         which optional packages a room needs
    ranks          shares of a memory to ranks
    intervals      95 % intervals over seeds and test images
    sheets         rows of pictures with names
    pool           this process's threads
    waits          copies to a GPU for which no host waits
    files          what stages hand to one another, whole or untouched
    config         what params.yaml may hold, as strict models
    pipeline       what stands around a stage and enters no number
    schedules      the learning rate
    compute        where and how numbers are made: devices, processes, random draws, workers
    views          which views: augmentations of whole batches
    bounds         which bound: scores to nats
    datasets       where images come from, for `prepare`
    targets        image sets that encoders never saw, for transfer
    encoders       networks, and what comes out of them frozen
    export         an encoder's backbone as a file for torchvision, timm or detectron2
    negatives      which negatives: samplers, clusters, neighbours, annealing
    methods        who holds the keys: the three questions put together
    evals          what frozen features are worth
    detection      annotated pictures, and what boxes, masks and keypoints found in them are worth
    classifiers    networks that learn from labels, alone or from a teacher
    estimators     information that is known: toys, critics, bounds without images
    generators     view generators: flows that learn which views share little, and the label
    training       the loop, and what sets it up
    diagnostics    what snapshots say of embeddings and negatives
    trials         whole runs in memory, several at a time
    distillation   students that learn from a teacher: its features by a bound, or its softened answers
    toys           small worlds in which one knows what two views share: moving digits
    picture        the annulus around one image, as an SVG
    sweep          all runs of a study in parallel, here or on a cluster
    headlines      the main line's headline numbers by seed
    compare        two variants of the main line, number by number
    report         whatever was measured as one page, beside the papers

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
    raise AttributeError(f"module 'annulus' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

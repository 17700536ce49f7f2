"""annulus: contrastive learning of visual representations as estimation of mutual information.

Rooms in the order in which data flows through them; each imports only from those above it:

    errors         the exception that a user meets, and which optional packages are missing
    late           public names of packages, imported at their first use
    settings       base of all settings, with their limits
    device         devices, processes, threads, random generators, kernels, checks
    files          what stages hand to one another, whole or untouched
    views          which views: augmentations of whole batches
    negatives      which negatives: samplers, clusters, neighbours, annealing
    bounds         which bound: scores to nats
    optim          SGD, gradient means, schedules
    encoders       networks, and their frozen features
    methods        who holds the keys: the three questions put together
    evals          kNN, linear probe, segmentation decoder; intervals, headline numbers
    running        worker processes, progress, checkpoints, the hash of the code
    training       the loop, and what sets it up
    gpu            `annulus check-gpu`: what is right and fast on this machine's GPU
    datasets       where images come from
    diagnostics    embeddings and negatives of snapshots; the picture of the annulus
    look           own images before any training: counts, duplicates, a sheet of views
    export         an encoder as a folder or file that other programs load, with a model card
    lightning      any method as a LightningModule, kNN and probe as a callback
    commands       the programs of the command `annulus`, by name
    completion     a script that completes the commands of `annulus` in a shell

`annulus --help` lists the programs among them (`__main__`).

For your own programs: the names below, and `__all__` of bounds, encoders, evals, methods, negatives and views. The page
src/annulus/PUBLIC.md lists them.
"""

from typing import Any

from annulus.late import late

__all__, _find, _names = late(__name__)


def __getattr__(name: str) -> Any:
    return _version() if name == "__version__" else _find(name)


def __dir__() -> list[str]:
    return [*globals(), *_names(), "__version__"]


def _version() -> str:
    """Of the distribution annulus-ssl; of a checkout that is not installed, what its pyproject.toml says."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("annulus-ssl")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        project = Path(__file__).parents[2] / "pyproject.toml"
        return str(tomllib.loads(project.read_text(encoding="utf-8"))["project"]["version"])

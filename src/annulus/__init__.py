"""annulus: contrastive learning of visual representations as estimation of mutual information.

Rooms in the order in which data flows through them; each imports only from those above it:

    errors         the exception that a user meets, and which optional packages are missing
    late           imports: public names when they are first asked for; torch without a search for garbage
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
    config         params.yaml, read into the rooms' settings
    diagnostics    embeddings and negatives of snapshots; the picture of the annulus
    pipeline       stages, provenance, MLflow
    look           own images before any training: counts, duplicates, a sheet of views
    compare        two variants of the main line, number by number
    export         an encoder as a folder or file that other programs load, with a model card
    studies        a folder for each study, and what they share
    report         all that was measured as one page, beside the papers
    sweep          all runs of a study in parallel, here or on a cluster
    site           the documentation site (`make docs`)

`annulus --help` lists the programs among them (`__main__`).

For your own programs: the names below, and `__all__` of bounds, encoders, evals, methods, negatives and views. The page
src/annulus/PUBLIC.md lists them.
"""

from typing import TYPE_CHECKING, Any

from annulus.late import late

if TYPE_CHECKING:
    from annulus import bounds, encoders, evals, methods, negatives, views
    from annulus.encoders.config import EncoderConfig
    from annulus.encoders.encoder import build_encoder, load_encoder, save_encoder
    from annulus.encoders.extract import extract_features
    from annulus.encoders.features import Features, load_features, save_features
    from annulus.encoders.module_encoder import ModuleEncoder
    from annulus.errors import InputError
    from annulus.evals.intervals import Interval, between_tables, over_seeds, over_seeds_and_images, verdict
    from annulus.evals.knn import KnnSettings, evaluate_knn
    from annulus.evals.linear import probe_features
    from annulus.evals.linear_settings import LinearBudget, LinearSettings
    from annulus.methods.contrast import Contrast
    from annulus.methods.contrast_config import ContrastConfig, Progress
    from annulus.methods.ir import IR
    from annulus.methods.memory import KeyQueue, MemoryBank
    from annulus.methods.moco import MoCo
    from annulus.methods.simclr import SimCLR
    from annulus.negatives.selection import Selection

    __version__: str
else:
    _HOMES = {
        "bounds": "",
        "encoders": "",
        "evals": "",
        "methods": "",
        "negatives": "",
        "views": "",
        "encoders.config": "EncoderConfig",
        "encoders.encoder": "build_encoder load_encoder save_encoder",
        "encoders.extract": "extract_features",
        "encoders.features": "Features load_features save_features",
        "encoders.module_encoder": "ModuleEncoder",
        "errors": "InputError",
        "evals.intervals": "Interval between_tables over_seeds over_seeds_and_images verdict",
        "evals.knn": "KnnSettings evaluate_knn",
        "evals.linear": "probe_features",
        "evals.linear_settings": "LinearBudget LinearSettings",
        "methods.contrast": "Contrast",
        "methods.contrast_config": "ContrastConfig Progress",
        "methods.ir": "IR",
        "methods.memory": "KeyQueue MemoryBank",
        "methods.moco": "MoCo",
        "methods.simclr": "SimCLR",
        "negatives.selection": "Selection",
    }
    _find, _names = late(__name__, _HOMES)

    def __getattr__(name: str) -> Any:
        return _version() if name == "__version__" else _find(name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_names(), "__version__"})


__all__ = [
    "IR",
    "Contrast",
    "ContrastConfig",
    "EncoderConfig",
    "Features",
    "InputError",
    "Interval",
    "KeyQueue",
    "KnnSettings",
    "LinearBudget",
    "LinearSettings",
    "MemoryBank",
    "MoCo",
    "ModuleEncoder",
    "Progress",
    "Selection",
    "SimCLR",
    "between_tables",
    "bounds",
    "build_encoder",
    "encoders",
    "evals",
    "evaluate_knn",
    "extract_features",
    "load_encoder",
    "load_features",
    "methods",
    "negatives",
    "over_seeds",
    "over_seeds_and_images",
    "probe_features",
    "save_encoder",
    "save_features",
    "verdict",
    "views",
]


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

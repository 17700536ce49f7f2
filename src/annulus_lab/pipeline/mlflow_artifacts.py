"""Files of the workspace's run in MLflow: its annulus, the papers' tables, and each seed's encoder for the Hub."""

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from annulus.errors import InputError
from annulus_lab.pipeline.stale import is_locked
from annulus_lab.pipeline.variants import workspace_digest

if TYPE_CHECKING:
    from mlflow import MlflowClient

ENCODERS = "data/main/encoders"


def send_artifacts(client: "MlflowClient", experiment: str, root: Path = Path()) -> None:
    """Adds the files to the runs of the workspace's variant, the papers' tables first; the runs must exist.

    Raises:
        InputError: when the encoders are missing or belong to another run.
    """
    root = root.absolute()
    digest = workspace_digest(root)
    if digest is not None:
        client.log_text(_run(client, experiment, digest), _annulus(root, "presets"), "papers.txt")
    if digest is None or not is_locked(root, "pretrain", ENCODERS):
        raise InputError(f"{ENCODERS} are missing or of another run; `dvc repro` or `dvc pull` makes them")
    with TemporaryDirectory() as temporary:
        picture = Path(temporary) / "annulus.svg"
        _annulus(root, "picture", "--svg", str(picture))
        client.log_artifact(_run(client, experiment, digest), str(picture))
        for weights in sorted((root / ENCODERS).glob("*.safetensors")):
            folder = str(Path(temporary) / weights.stem)
            _annulus(root, "export", str(weights), "--to", "hub", folder)
            client.log_artifacts(_run(client, experiment, f"{digest}/{weights.stem}"), folder, "encoder")


def _annulus(root: Path, *words: str) -> str:
    """Runs a command of `annulus` in a separate process, since it imports later rooms; returns its output.

    Raises:
        InputError: when the command fails, with its own sentence.
    """
    process = subprocess.run([sys.executable, "-m", "annulus", *words], cwd=root, capture_output=True, text=True)
    if process.returncode:
        raise InputError(process.stderr.strip().removeprefix("ERROR: "))
    return process.stdout


def _run(client: "MlflowClient", experiment: str, digest: str) -> str:
    """Id of the run with a digest.

    Raises:
        InputError: when it was deleted.
    """
    runs = client.search_runs([experiment], f"tags.`annulus.digest` = '{digest}'", max_results=1)
    if not runs:
        raise InputError("the workspace's run was deleted in MLflow; restore it there")
    return runs[0].info.run_id

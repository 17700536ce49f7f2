"""A checkout of this repository for DVC commands as a user runs them."""

import csv
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path
from typing import Any

import warm
import yaml
from by_path import read_yaml
from declared import ROOT
from dvc.repo import Repo
from dvc.utils.hydra import apply_overrides
from stated import STATED

STAGES = ["check", "prepare", "pretrain", "embed", "knn", "linear", "diagnostics", "summary"]


class Checkout:
    """A committed copy of this working tree with its own DVC caches, without locks and metrics.

    params.yaml has the stated values, scale tiny and three seeds. The copy holds the main line and the DVC projects of
    `studies`. It also has the parameters of the other studies, which studies of one form read.
    """

    def __init__(self, folder: Path, *studies: str) -> None:
        self.folder = folder
        listed = subprocess.check_output(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, text=True
        )
        for name in filter(None, listed.split("\0")):
            first, study, *below = (*Path(name).parts, "", "")[:3]
            result = first == "metrics" or name.endswith("dvc.lock") or "metrics" in below
            other = first == "stages" and study not in studies and below[0] in ("dvc.yaml", "src", ".dvc", ".dvcignore")
            if (ROOT / name).exists() and not result and not other:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name, follow_symlinks=False)
        values = STATED | {"scale": "tiny", "seeds": [0, 1, 2]}
        apply_overrides(folder / "params.yaml", [f"{key}={json.dumps(value)}" for key, value in values.items()])
        self.git("init", "-q")
        for key, value in (("user.name", "test"), ("user.email", "test@localhost")):
            self.git("config", key, value)
        self.commit()

    def git(self, *words: str) -> None:
        subprocess.run(["git", *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "test")

    def command(self, *words: str, study: str = "", python: Path | None = None, **environment: str) -> dict:
        """Returns Popen's arguments for dvc here or in a study, without the caller's DVC and MLflow variables."""
        python = python or warm.folder() / "python"
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "MLFLOW_"))}
        env = inherited | {"PATH": path, "CI": "true"} | environment
        return {"args": [str(python), "-m", "dvc", *words], "cwd": self.project(study), "env": env, "text": True}

    def project(self, study: str = "") -> Path:
        """Folder of the DVC project of a study, or of the main line."""
        return self.folder / "stages" / study if study else self.folder

    def dvc(self, *words: str, study: str = "", status: int = 0, **environment: Any) -> str:
        done = subprocess.run(**self.command(*words, study=study, **environment), capture_output=True)
        output = done.stdout + done.stderr
        assert done.returncode == status, output
        return output

    def run(self, *words: str) -> str:
        """Runs Python here and returns its output."""
        command = self.command(PYTHONPATH="src")
        return subprocess.check_output([command["args"][0], *words], cwd=self.folder, env=command["env"], text=True)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        (self.folder / path).write_text(text.replace(old, new, 1))

    def restore(self) -> None:
        self.git("read-tree", "HEAD")  # forgets file times: after `exp run` git may take a changed file for unchanged
        self.git("checkout", "-q", "--force", "HEAD", "--", ".")

    def changed(self, study: str = "") -> set[str]:
        """Stages of the main line or of a study whose own dependencies have changed."""
        with chdir(self.project(study)), Repo() as repo:
            return set(repo.status(targets=None if study else STAGES))

    def changed_by(self, study: str, change: Callable[[dict], Any]) -> set[str]:
        """Stages of a study whose own dependencies change by an edit of params.yaml and its settings stage."""
        self.cut(study, change)
        assert ran(self.dvc("repro", "settings", study=study)) == ["settings"]
        return self.changed(study)

    def changed_files(self) -> list[str]:
        """Files that differ from the last commit."""
        status = subprocess.check_output(["git", "status", "--porcelain"], cwd=self.folder, text=True)
        return sorted(line[3:] for line in status.splitlines())

    def read(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())

    def output_hash(self, stage: str, path: str) -> str:
        outputs = read_yaml(self.folder / "dvc.lock")["stages"][stage]["outs"]
        return next(out["md5"] for out in outputs if out["path"] == path)

    def cut(self, study: str, change: Callable[[dict], Any]) -> None:
        """Applies `change` to a study's params.yaml; the rest of the file keeps its values."""
        path = self.folder / "stages" / study / "params.yaml"
        content = read_yaml(path)
        change(content)
        path.write_text(yaml.safe_dump(content, sort_keys=False))


def ran(output: str) -> list[str]:
    """The stages that DVC ran, by their names in their own dvc.yaml."""
    return [name.rpartition(":")[2] for name in re.findall(r"Running stage '(.+)':", output)]


def rows_of(path: Path) -> list[dict[str, str]]:
    """Rows of a CSV table."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))

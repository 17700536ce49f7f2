"""Records machine and time of each stage for the report: `.annulus/runs/STAGE.json` in the main checkout.

A record is about this machine, so it is not in git and never in metrics/. The numbers beside it may come from
elsewhere: from a pull or another experiment. So a record keeps the SHA-256 of the metrics files that the stage wrote,
and `matches` compares them with the files that are there now.

The stage is named as DVC names it (DVC_STAGE), or after its script when that is run by hand. Calls from tests are not
recorded. No path and no host name is kept.
"""

import hashlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from annulus.device.threads import cores
from annulus.files.regular import check_regular, read_text
from annulus.files.results import write_text
from annulus.running.checkout import STARTED, git, main_checkout

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Run:
    """One run of a stage. `started` is in seconds since 1970; `files` holds paths in the checkout and their SHA-256."""

    stage: str
    started: float
    seconds: float
    processor: str
    cores: int
    gpus: list[str]
    torch: str | None  # None when the stage did not need it
    commit: str | None
    experiment: str | None
    files: dict[str, str]

    def matches(self, root: Path) -> bool:
        """Returns True if this run wrote the metrics files under `root`."""
        return all(_sha256(root / name) == digest for name, digest in self.files.items())


def record(main: Callable[..., Any], paths: Sequence[Path]) -> None:
    """Record machine and time of the running stage; any failure is one warning.

    Of the paths in its arguments, the metrics files in the working directory that it wrote belong to it. A script run
    by hand that wrote none, since its results go elsewhere, is not recorded.
    """
    by_dvc = os.environ.get("DVC_STAGE")
    name = by_dvc or _script(main)
    if name is None:
        return
    try:
        files = [path.resolve() for path in paths if _wrote(path)]
        if not (by_dvc or files):
            return
        run = Run(
            stage=name,
            started=STARTED,
            seconds=round(time.time() - STARTED, 1),
            processor=processor(),
            cores=cores(),
            gpus=_gpus(),
            torch=getattr(sys.modules.get("torch"), "__version__", None),
            commit=git("rev-parse", "--verify", "-q", "HEAD"),
            experiment=os.environ.get("DVC_EXP_NAME"),
            files={path.relative_to(Path.cwd()).as_posix(): _sha256(path) for path in files},
        )
        record = _folder(main_checkout()) / f"{quote(name, safe='@+ ()')}.json"
        write_text(record, json.dumps(asdict(run), indent=2, sort_keys=True) + "\n")
    except Exception as error:  # where it ran may not cost a finished stage its result, whatever the reason
        log.warning("WARNING: the report will not know where %s ran: %s", name, error)


def runs(root: Path) -> list[Run]:
    """Last run here of every stage, by name. An unreadable record is left out."""
    records = []
    for path in sorted(_folder(root).glob("*.json")):
        try:
            records.append(_checked(Run(**json.loads(read_text(path)))))
        except (OSError, TypeError, ValueError, RecursionError):  # half a disk, another version's fields, not JSON
            log.warning("WARNING: %s is no record of a run; it is left out", path)
    return records


def processor() -> str:
    """The processor's model, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(named, "") or platform.processor() or platform.machine()


def _folder(root: Path) -> Path:
    return root / ".annulus" / "runs"


def _wrote(path: Path) -> bool:
    """Returns True for a metrics file here that is newer than this process; the process's inputs are older."""
    numbers = path.suffix in (".json", ".csv") and path.resolve().is_relative_to(Path.cwd())
    return numbers and path.is_file() and path.stat().st_mtime >= STARTED


def _script(main: Callable[..., Any]) -> str | None:
    """The name of the script that defines `main` and is being run."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).stem if file and main.__module__ == "__main__" else None


def _gpus() -> list[str]:
    """The GPUs that the stage used: none, where it never started CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]


def _checked(run: Run) -> Run:
    for name, kind in [("stage", str), ("started", int | float), ("seconds", int | float), ("files", dict)]:
        if not isinstance(getattr(run, name), kind):
            raise ValueError(f"{name} is {getattr(run, name)!r}")
    return run


def _sha256(path: Path) -> str | None:
    try:
        check_regular(path)
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None

"""Records machine and time of each stage for the report: `.annulus/runs/STAGE.json` in the main checkout.

A record describes this machine, so it is not in git and never in metrics/. The numbers in metrics/ may come from a pull
or from another experiment. So a record keeps the SHA-256 of the metrics files that the stage wrote, and `matches`
compares them with the present files.

A stage has DVC's name (DVC_STAGE). A stage of a study is `stages/law/dvc.yaml:part@moco`, and a script that is run by
hand has the script's name. Calls from tests are not recorded. A record holds no path and no host name.
"""

import hashlib
import json
import logging
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from annulus.device.threads import cores
from annulus.files.regular import check_regular, read_text
from annulus.files.results import write_text
from annulus.running.checkout import STARTED, git, main_checkout, project

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class StageRecord:
    """Record of one run of a stage. `started`: seconds since 1970; `files`: paths in the checkout, with SHA-256."""

    stage: str
    started: float
    seconds: float
    processor: str
    cores: int
    gpus: list[str]
    torch: str | None  # None if the stage did not import it
    commit: str | None
    experiment: str | None
    files: dict[str, str]

    def matches(self, root: Path) -> bool:
        """Returns True if this run wrote the present metrics files under `root`."""
        return all(_sha256(root / name) == digest for name, digest in self.files.items())


Mark = tuple[int, int, str | None]  # inode, time of the last write, SHA-256


def marks(paths: Sequence[Path]) -> dict[Path, Mark]:
    """Marks of the metrics files among `paths` in the working directory; a write changes a file's mark.

    Marks do not use this machine's clock, since a file system's clock may be behind it. A file that is written whole is
    another inode, so the same numbers written again change the mark too.
    """
    by_path = {}
    for path in paths:
        if path.suffix in (".json", ".csv") and path.resolve().is_relative_to(Path.cwd()) and path.is_file():
            status = path.stat()
            by_path[path] = status.st_ino, status.st_mtime_ns, _sha256(path)
    return by_path


def record(main: Callable[..., Any], paths: Sequence[Path], before: Mapping[Path, Mark]) -> None:
    """Records machine and time of the running stage; any failure is one warning.

    The record names the metrics files among `paths` in the working directory whose marks differ from `before`: the
    stage wrote them. A script that is run by hand is recorded only if it wrote such a file.
    """
    by_dvc, place = os.environ.get("DVC_STAGE"), project()
    name = by_dvc if by_dvc is None or place == Path() else f"{place}/dvc.yaml:{by_dvc}"
    name = name or _script(main)
    if name is None:
        return
    try:
        outputs = {path.resolve(): mark for path, mark in marks(paths).items() if before.get(path) != mark}
        if not (by_dvc or outputs):
            return
        run = StageRecord(
            stage=name,
            started=STARTED,
            seconds=round(time.time() - STARTED, 1),
            processor=processor(),
            cores=cores(),
            gpus=_gpus(),
            torch=getattr(sys.modules.get("torch"), "__version__", None),
            commit=git("rev-parse", "--verify", "-q", "HEAD"),
            experiment=os.environ.get("DVC_EXP_NAME"),
            files={(place / path.relative_to(Path.cwd())).as_posix(): digest for path, (*_, digest) in outputs.items()},
        )
        record = _folder(main_checkout()) / f"{quote(name, safe='@+ ()')}.json"
        write_text(record, json.dumps(asdict(run), indent=2, sort_keys=True) + "\n")
    except Exception as error:  # a missing record may not cost a finished stage its result
        log.warning("WARNING: the report will not know where %s ran: %s", name, error)


def stage_records(root: Path) -> list[StageRecord]:
    """Last record of every stage on this machine, by name; leaves out unreadable records."""
    records = []
    for path in sorted(_folder(root).glob("*.json")):
        try:
            records.append(_check_types(StageRecord(**json.loads(read_text(path)))))
        except (OSError, TypeError, ValueError, RecursionError):  # a broken disk, other fields, or not JSON
            log.warning("WARNING: %s is not a record of a run; it is left out", path)
    return records


def processor() -> str:
    """Model of the processor, as Linux names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(models, "") or platform.processor() or platform.machine()


def _folder(root: Path) -> Path:
    return root / ".annulus" / "runs"


def _script(main: Callable[..., Any]) -> str | None:
    """Name of the running script, if it defines `main`."""
    file = getattr(sys.modules["__main__"], "__file__", None)
    return Path(file).stem if file and main.__module__ == "__main__" else None


def _gpus() -> list[str]:
    """Names of the GPUs; empty if the stage never started CUDA."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [torch.cuda.get_device_name(device) for device in range(torch.cuda.device_count())]


def _check_types(run: StageRecord) -> StageRecord:
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

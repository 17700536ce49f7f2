"""The same numbers in MLflow, for browsing. The record is metrics/, in git; nothing is read back from here.

At the end of a stage one JSON record goes into a spool in the main checkout, `.annulus/tracking/`, and a
child process (mlflow_sender) sends the spool to MLFLOW_TRACKING_URI, or else to mlflow.db in that checkout. The
stage never imports mlflow: the child begins with the stage, loads it meanwhile, and waits for the record. At the end
the stage waits for the child a few seconds at most: a server that is down costs one run that long and one warning;
its next stages only spool. What is left goes with a later stage or with `make mlflow-send`.

Only a stage that DVC runs is recorded (DVC sets DVC_STAGE): called by hand or by a test, it is no experiment.
ANNULUS_TRACKING=off records none.
"""

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any, NamedTuple

from annulus.errors import InputError
from annulus.files.results import Number, all_rounded, write_text
from annulus.pipeline.redaction import redacted
from annulus.pipeline.variant import flat, variant

log = logging.getLogger("annulus")

STARTED = time.time()  # when this process began, but for some of its imports
SERVER_SECONDS = 8  # what a server may cost a stage
LOCAL_SECONDS = 60  # a file or folder on this machine is slow only where the machine is
PAUSE_SECONDS = 600  # after a failure, how long stages do not try the same destination
WAIT_SECONDS = 120  # how long a loaded child waits for a stage's end; a long stage starts another one then


class _Sender(NamedTuple):
    child: subprocess.Popen[bytes]
    output: IO[str]


_waiting: _Sender | None = None


def main_checkout() -> Path:
    """The main checkout, in a workspace and in the temporary copies of queued experiments alike."""
    return Path(os.environ.get("DVC_ROOT") or ".").resolve()


def first() -> bool:
    """Whether this is the one of several processes that speaks, writes and records."""
    return os.environ.get("RANK", "0") == "0"


def git(*words: str, folder: Path | None = None) -> str | None:
    """What git says, when it can tell within a few seconds; None when it cannot, or says nothing."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=folder, capture_output=True, encoding="utf-8", errors="replace", timeout=5
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None


def spool() -> Path:
    """The folder of records that MLflow has not got yet."""
    return main_checkout() / ".annulus" / "tracking"


def destination() -> str:
    """Where records go: MLFLOW_TRACKING_URI, or a SQLite file in the main checkout."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{main_checkout() / 'mlflow.db'}"


def shown(text: str) -> str:
    """Text without the secrets of the destination's address."""
    return redacted(text, destination())


def recorded() -> bool:
    """Whether this stage is.

    Raises:
        InputError: when ANNULUS_TRACKING is unknown.
    """
    asked = os.environ.get("ANNULUS_TRACKING", "on")
    if asked not in ("on", "off"):
        raise InputError(f"ANNULUS_TRACKING is {asked!r}; give on or off, or unset it for on")
    return "DVC_STAGE" in os.environ and asked == "on"


def prepare() -> None:
    """Let a child load MLflow beside what the stage does; `record` calls it when the stage ends."""
    global _waiting
    with suppress(OSError, InputError):  # the stage says what is wrong: `record` tries once more
        if recorded() and first() and not _failed_lately():
            _waiting = _sender()


def record(
    params: Mapping[str, Any],
    metrics: Mapping[str, Number],
    history: Sequence[Mapping[str, Number]] = (),
    seeds: Mapping[int, Mapping[str, Number]] = MappingProxyType({}),
) -> None:
    """Spool what a stage did and try to send it; whatever goes wrong is one warning and no more.

    `params` holds values and sections of params.yaml under dvc.yaml's spelling. `metrics` are the stage's numbers, of
    several seeds their means; `seeds` holds each seed's own. Each row of `history` has an `epoch`, of several seeds
    also a `seed`.
    """
    if not recorded():
        return
    identity = uuid.uuid4().hex
    stage, experiment = os.environ["DVC_STAGE"], os.environ.get("DVC_EXP_NAME")
    try:
        commit = git("rev-parse", "--verify", "-q", "HEAD")
        content = {
            "id": identity,
            "stage": stage,
            "variant": asdict(variant(params, stage, experiment, commit, git("show", "HEAD:./params.yaml"))),
            "experiment": experiment,
            "commit": commit,
            "started": STARTED,
            "ended": time.time(),
            "params": flat(params),
            "metrics": all_rounded(metrics),
            "history": [all_rounded(row) for row in history],
            "seeds": {str(seed): all_rounded(numbers) for seed, numbers in seeds.items()},
        }
        write_text(spool() / f"{time.time_ns()}-{identity}.json", json.dumps(content))
        _try_to_send()
    except Exception as error:  # tracking may not cost a finished stage its result, whatever the reason
        log.warning("WARNING: not in MLflow: %s. The numbers are in metrics/ all the same", shown(str(error)))


def _try_to_send() -> None:
    """Send the spool, unless the same destination failed a short while ago."""
    if _failed_lately():
        return
    reason = _send_in_child()
    if reason is not None:
        address = shown(destination())
        _failed().write_text(address, encoding="utf-8")
        log.warning(
            "WARNING: MLflow at %s did not take the numbers (%s). They are in metrics/ and in %s; "
            "`make mlflow-send` sends them later",
            *(address, shown(reason)[:300], spool()),
        )


def _failed() -> Path:
    """The file that names the destination that failed last; the sender deletes it."""
    return spool() / "failed"


def _failed_lately() -> bool:
    try:
        same = _failed().read_text(encoding="utf-8") == shown(destination())
        return same and 0 <= time.time() - _failed().stat().st_mtime < PAUSE_SECONDS
    except OSError:
        return False


def _send_in_child() -> str | None:
    """Let the sender send, for a limited time. Returns why it failed, or None."""
    child, output = _waiting if _waiting is not None and _waiting.child.poll() is None else _sender()
    with output:
        try:
            child.communicate(b"go\n", timeout=_limit())
        except BaseException as error:  # an interrupt as well: nothing of the child may stay
            os.killpg(child.pid, signal.SIGKILL)
            with suppress(subprocess.TimeoutExpired):
                child.wait(1)
            if isinstance(error, subprocess.TimeoutExpired):
                return f"no answer in {_limit()} s"
            raise
        if child.returncode == 0:
            return None
        output.seek(0)
        return (output.read().strip().splitlines() or [f"exit status {child.returncode}"])[-1]


def _sender() -> _Sender:
    """A child that loads MLflow, waits for a line, and sends the spool."""
    source = str(Path(__file__).resolve().parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")])),
        "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",
        "MLFLOW_HTTP_REQUEST_TIMEOUT": str(SERVER_SECONDS),
    }
    # It starts no further record after half of the time, so that a long spool is not a failure.
    limits = ["--seconds", str(_limit() / 2), "--wait", str(WAIT_SECONDS)]
    output = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115  as long as the child lives
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "annulus.pipeline.mlflow_sender", *limits],
        cwd=main_checkout(),  # where a relative sqlite: URI points
        env=environment,
        stdin=subprocess.PIPE,
        stdout=output,
        stderr=output,
        start_new_session=True,
    )
    return _Sender(child, output)


def _limit() -> int:
    scheme, colon, _ = destination().partition(":")
    local = scheme in ("sqlite", "file") if colon else scheme != "databricks"  # without a colon a path, or that word
    return LOCAL_SECONDS if local else SERVER_SECONDS

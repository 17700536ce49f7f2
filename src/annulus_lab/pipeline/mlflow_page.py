"""MLflow's page of the results: `python -m annulus_lab.pipeline.mlflow_page --port 5000`.

It sends missing results first. So the page shows the main line and all studies, also the stages that DVC skipped.
"""

import argparse
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in mlflow_send

from annulus.errors import InputError
from annulus_lab.pipeline.mlflow_send import destination, redacted_text, send


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the page's address and serves it until Ctrl-C; a server of MLFLOW_TRACKING_URI has its own page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5000)
    port = parser.parse_args(argv).port
    logging.disable()  # as in mlflow_send
    try:
        if destination().startswith("http"):
            print(f"MLflow: {redacted_text(destination()).rstrip('/')}/{send(studies=True)}")
            return
        _check_free(port)
        page = ""  # the first page, if the store refuses the results
        try:
            page = send(studies=True)
        except InputError as error:
            print(f"WARNING: {error}", file=sys.stderr)
        print(f"MLflow: http://127.0.0.1:{port}/{page} in a few seconds; Ctrl-C ends it", flush=True)
        # One reader needs one worker, no jobs and no lines that hide the address.
        command = [sys.executable, "-W", "ignore", "-m", "mlflow", "ui", "--port", str(port), "--workers", "1"]
        quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "PYTHONWARNINGS": "ignore"}
        options = ["--uvicorn-opts", "--log-level critical"]
        os.execve(sys.executable, command + options, os.environ | quiet | {"MLFLOW_BACKEND_STORE_URI": destination()})
    except InputError as error:
        raise SystemExit(f"ERROR: {error}") from None


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise InputError(f"port {port}: {error}; take another one: make mlflow PORT=5001") from error


if __name__ == "__main__":
    main()

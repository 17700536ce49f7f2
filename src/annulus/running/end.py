"""Ends a process when the process that started it ends."""

import os
import select
import threading
import time
from contextlib import suppress

LOOK_SECONDS = 1.0  # between two looks at the other process, without pidfd


def end_with(process: int) -> None:
    """Ends this process when another one has ended: it would otherwise continue and hold the checkpoint's lock."""

    def wait() -> None:
        try:
            select.select([os.pidfd_open(process)], [], [])
        except (AttributeError, OSError):  # it has ended; or the call is missing: conda's Python, Linux before 5.3
            with suppress(OSError):
                while True:
                    os.kill(process, 0)
                    time.sleep(LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()

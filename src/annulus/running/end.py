"""The end of a process with the one that started it."""

import os
import select
import threading
import time
from contextlib import suppress

LOOK_SECONDS = 1.0  # where the other process cannot be waited for


def end_with(process: int) -> None:
    """End this process when another one is gone: it would otherwise continue and hold the checkpoint's lock."""

    def wait() -> None:
        try:
            select.select([os.pidfd_open(process)], [], [])
        except (AttributeError, OSError):  # it has gone; or conda's Python or a Linux before 5.3, without the call
            with suppress(OSError):
                while True:
                    os.kill(process, 0)
                    time.sleep(LOOK_SECONDS)
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()

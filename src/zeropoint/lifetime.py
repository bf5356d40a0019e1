"""Processes that end with the process that started them, however that ends.

Every package may import this module; it imports none of them.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cache

SECONDS = 0.5
"""The seconds between two checks of the parent."""


def end_with(parent: int) -> None:
    """End this process soon after its parent process `parent` ends, even by kill -9.

    If the parent ends, the process gets another parent, so a thread watches the parent's number. Linux could send a
    signal instead, but it sends it when the thread that started the process ends. Has no effect in the process `parent`
    itself.
    """
    if os.getpid() != parent:
        _watch(parent)


@cache
def _watch(parent: int) -> None:
    """Start the thread, once: it may be requested with every task."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        os._exit(1)  # other threads work, and nobody waits for their results

    threading.Thread(target=watch, name="zeropoint-parent", daemon=True).start()

"""Processes that end with the one that started them, however that ends.

Every package may import this module; it imports none of them.
"""

from __future__ import annotations

import os
import threading
import time
from functools import cache

SECONDS = 0.5
"""Between two looks at the parent."""


def end_with(parent: int) -> None:
    """End this process soon after the process `parent`, which started it, ends: by kill -9, too.

    A process whose parent ends gets another one, so a thread watches its number. Linux could send a signal instead, but
    sends it when the thread ends that started the process. Has no effect in the process `parent` itself.
    """
    if os.getpid() != parent:
        _watch(parent)


@cache
def _watch(parent: int) -> None:
    """Start the thread; once, so that it may be asked for with every task."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(SECONDS)
        os._exit(1)  # other threads work, and nobody waits for their results

    threading.Thread(target=watch, name="zeropoint-parent", daemon=True).start()

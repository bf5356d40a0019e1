"""Give memory that was freed back to the operating system.

The C library keeps freed blocks for later use. After calibration, whose arrays have many sizes, these are scattered:
100 MB and more of a process are then free, but too fragmented for the arrays of corrections.

Every package may import this module.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import suppress


def give_back_memory(*, cycles: bool = False) -> None:
    """Give freed memory back, where the C library has a function for it (glibc's `malloc_trim`).

    With `cycles`, objects that only refer to each other are freed first, such as ops. That takes tenths of a second.
    """
    if cycles:
        gc.collect()
    with suppress(AttributeError, OSError, TypeError):  # TypeError: Windows wants the name of a library
        ctypes.CDLL(None).malloc_trim(0)

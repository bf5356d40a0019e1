"""A command ends with a line and status 2 if a file that is memory-mapped is cut while it is read.

`ChangedFile` reports files that were changed before a read. In the middle of one, the system sends SIGBUS, which ends a
process without a word. Python's own handlers run after the read, which never ends; so this one is a C function.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
from pathlib import Path

from zeropoint.cli.refusals import REFUSED, tell

_MAPPINGS = Path("/proc/self/maps")
_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) r--s ([0-9a-f]+) \S+ [1-9]\d* +(/.*)")
"""A mapping of a file to read: its first address, the one past its last, its offset in the file, the file."""


def report_lost_pages() -> None:
    """Handle SIGBUS of this process, if the system has it and nobody else handles it."""
    if hasattr(signal, "SIGBUS") and signal.getsignal(signal.SIGBUS) is signal.SIG_DFL:
        ctypes.CDLL(None).signal(int(signal.SIGBUS), _HANDLER)


def _leave(_: int) -> None:
    """Report the file that is shorter than its mapping, and end the process: the read cannot go on."""
    try:
        found = "; ".join(_cut_files()) or "found a file that cannot be read any more"
        tell(f"zeropoint: {found}, expected it to stay as it is; run again with the whole file")
    finally:
        os._exit(REFUSED)


def _cut_files() -> list[str]:
    """The mapped files that end before their mappings; none on systems that do not list them."""
    try:
        lines = _MAPPINGS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    found: dict[str, str] = {}
    for first, end, offset, name in (match.groups() for line in lines if (match := _MAPPING.fullmatch(line))):
        try:
            size = os.stat(name).st_size
        except OSError:  # it is gone: its mapping is whole
            continue
        if size <= int(offset, 16) + int(end, 16) - int(first, 16) - os.sysconf("SC_PAGESIZE"):
            found[name] = f"{name}: found a file that was cut to {size} bytes while it was read"
    return [*found.values()]


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_leave)
"""It must live as long as the process."""

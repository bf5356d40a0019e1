"""Report a memory-mapped file that is truncated while it is read: one line and exit status 2.

`ChangedFile` reports files that change between reads. If a file is truncated during a read, the system sends SIGBUS,
which ends the process without a message. A handler of Python's `signal` would run only when the read returns, which
never happens. So the handler is installed with C's `signal`.
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
"""A line for a mapped file: first address, end address (exclusive), offset in the file, path of the file."""


def report_lost_pages() -> None:
    """Install the handler of SIGBUS, if the system has this signal and it has no other handler."""
    if hasattr(signal, "SIGBUS") and signal.getsignal(signal.SIGBUS) is signal.SIG_DFL:
        ctypes.CDLL(None).signal(int(signal.SIGBUS), _HANDLER)


def _leave(_: int) -> None:
    """Report the file that is shorter than its mapping, and end the process, because the read cannot continue."""
    try:
        found = "; ".join(_cut_files()) or "found a file that can no longer be read"
        tell(f"zeropoint: {found}, expected it not to change; run again with the complete file")
    finally:
        os._exit(REFUSED)


def _cut_files() -> list[str]:
    """A message for each file that is shorter than its mapping; empty on systems without /proc/self/maps."""
    try:
        lines = _MAPPINGS.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return []
    found: dict[str, str] = {}
    for first, end, offset, name in (match.groups() for line in lines if (match := _MAPPING.fullmatch(line))):
        try:
            size = os.stat(name).st_size
        except OSError:  # the file was deleted, which leaves its mapping intact
            continue
        if size <= int(offset, 16) + int(end, 16) - int(first, 16) - os.sysconf("SC_PAGESIZE"):
            found[name] = f"{name}: found a file that was truncated to {size} bytes while it was read"
    return [*found.values()]


_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)(_leave)
"""The handler as a C function. A global, because C calls it until the process ends."""

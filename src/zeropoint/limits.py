"""What the input may cost: bytes of one tensor, trips of a `while`, checked before anything is allocated or run.

A few bytes of a file can ask for terabytes. Every package may import this module, and it imports none but `errors`.
"""

from __future__ import annotations

import math
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from zeropoint.errors import Error

_SHARE = 2
"""Half of the machine is for one tensor: an op that makes it has an operand, too."""
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class LimitExceeded(Error, ValueError):
    """Something in the input asks for more than `Limits` allow."""


@cache
def machine_memory() -> int:
    """Bytes of memory that this process can have: the machine's, or those of its control group."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # a system that does not tell
        found = 8 << 30
    try:
        return min(found, int(_GROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no control group, or one without a limit
        return found


@dataclass(frozen=True)
class Limits:
    """`memory` is the bytes that one tensor may have, `trips` how often the body of one `while` may run."""

    memory: int
    trips: int = 1_000_000


_CURRENT: ContextVar[Limits | None] = ContextVar("limits", default=None)


def limits() -> Limits:
    """The limits in force: half of the machine's memory, and a million trips, unless `limited` says otherwise."""
    found = _CURRENT.get()
    return Limits(machine_memory() // _SHARE) if found is None else found


@contextmanager
def limited(*, memory: int | None = None, trips: int | None = None) -> Generator[Limits]:
    """Other limits inside of the `with`; None leaves one as it is."""
    given = {"memory": memory, "trips": trips}
    token = _CURRENT.set(replace(limits(), **{name: value for name, value in given.items() if value is not None}))
    try:
        yield limits()
    finally:
        _CURRENT.reset(token)


def afford(shape: Sequence[int], itemsize: float, what: str = "a tensor") -> None:
    """Check that an array of a shape, with elements of `itemsize` bytes, is within the limit of memory.

    Raises LimitExceeded.
    """
    allowed = limits().memory
    found = math.prod(max(int(size), 0) for size in shape) * itemsize
    if found > allowed:
        raise LimitExceeded(
            f"found {what} of shape {list(shape)} and {bytes_text(found)}, expected up to {bytes_text(allowed)}; "
            f"--max-memory allows more"
        )


def bytes_text(count: float) -> str:
    """Bytes for people: `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"

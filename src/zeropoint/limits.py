"""Limits on resources that input can request: the bytes of a tensor, and the trips of all loops in a run.

Memory is checked before it is allocated, because a file of a few bytes can request terabytes. Every package may import
this module; it imports only `errors`.
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

from zeropoint.errors import Error, OptionError

_SHARE = 2
"""A tensor may take half of the machine's memory, because the op that computes it also has an operand."""
MOST_DIMENSIONS = 32
"""The maximum rank that all NumPy functions support."""
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")


class LimitExceeded(Error, ValueError):
    """Something in the input exceeds the `Limits`."""


@cache
def machine_memory() -> int:
    """The memory available to this process in bytes: the machine's, or its control group's limit."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # the system does not report it
        found = 8 << 30
    try:
        return min(found, int(_GROUP_LIMIT.read_text()))
    except (OSError, ValueError):  # no control group, or one without a limit
        return found


@dataclass(frozen=True)
class Limits:
    """`memory` is the maximum size of a tensor in bytes, `trips` the maximum number of trips of all loops in a run."""

    memory: int
    trips: int = 1_000_000


_CURRENT: ContextVar[Limits | None] = ContextVar("limits", default=None)


def limits() -> Limits:
    """The current limits: half of the machine's memory and a million trips, unless changed by `limited`."""
    found = _CURRENT.get()
    return Limits(machine_memory() // _SHARE) if found is None else found


@contextmanager
def limited(*, memory: int | None = None, trips: int | None = None) -> Generator[Limits]:
    """Change limits inside the `with` block; None keeps a limit."""
    given = {"memory": memory, "trips": trips}
    token = _CURRENT.set(replace(limits(), **{name: value for name, value in given.items() if value is not None}))
    try:
        yield limits()
    finally:
        _CURRENT.reset(token)


def afford(shape: Sequence[int], itemsize: float, what: str = "a tensor") -> None:
    """Check that an array has a rank that NumPy supports, and fits the memory limit. An element has `itemsize` bytes.

    Raises LimitExceeded.
    """
    if len(shape) > MOST_DIMENSIONS:
        raise LimitExceeded(f"found {what} of rank {len(shape)}, expected up to {MOST_DIMENSIONS} dimensions")
    allowed = limits().memory
    found = math.prod(max(int(size), 0) for size in shape) * itemsize
    if found > allowed:
        raise LimitExceeded(
            f"found {what} of shape {list(shape)} and {bytes_text(found)}, expected up to {bytes_text(allowed)}; "
            f"max_memory (--max-memory) allows more"
        )


_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def bytes_of(size: object) -> int:
    """The bytes of `512M`, `8G`, `8GiB`, or a number of bytes. Raises OptionError."""
    text = str(size).upper().removesuffix("B").removesuffix("I")
    unit = text[-1:] if text[-1:] in _UNITS else ""
    try:
        found = int(float(text.removesuffix(unit)) * _UNITS[unit])
    except (OverflowError, ValueError):
        found = 0
    if found < 1:
        raise OptionError(f"found '{size}', expected a size such as 512M or 8G")
    return found


def bytes_text(count: float) -> str:
    """A number of bytes in readable form: `1.5 GiB`."""
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.4g} {unit}"
        count /= 1024
    return f"{count:,.4g} TiB"

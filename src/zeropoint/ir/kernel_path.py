"""Kernels that read an observed value, by keys of observed values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelPath:
    """A kernel that reads an observed value, as keys of observed values: the one it reads, then its result.

    Values between the two are what other kernels only moved. `others` are the other values that the kernels read.
    """

    keys: tuple[str, ...]
    others: tuple[str, ...] = ()

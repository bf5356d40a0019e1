"""Scalars of rows of 16-bit numbers that stand for instructions of x86; `fewer_steps.py` puts them into a body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PairSum:
    """Sums of pairs of adjacent i16, or of their squares: "sum", "high" (without the lowest bits) or "all"
    (`pair_sums.py`)."""

    part: str


@dataclass(frozen=True)
class EveryOther:
    """The elements in even places of a row, or in odd ones: from the `first` on (`interleaved.py`)."""

    first: int


@dataclass(frozen=True)
class PairProduct:
    """total + x0 f0 + x1 f1 of pairs of i16; arguments: x, the factors of a pair as an i32, the total
    (`interleaved.py`)."""


@dataclass(frozen=True)
class Interleaved:
    """Two i32, of even and of odd places, in turns, as the nearest i16 (`interleaved.py`)."""


@dataclass(frozen=True)
class Rebased:
    """x f - r of an i16 and numbers of its row, which are 1 and 0 in nearly all rows: x itself there."""


@dataclass(frozen=True)
class Saturated:
    """An i32 as the nearest i16 (`words.py`)."""


@dataclass(frozen=True)
class Raised:
    """x << s of i32, s from 0 to 32 (`words.py`)."""

"""Observers keep a summary of the values seen at one point of a program, and derive a range from it.

Every observer has a state of bounded size that depends only on the multiset of values. The order of the samples does
not change it, nor does splitting them among observers that are merged later. Values are observed in f32, the type of
`quant.stats`; f16 and bf16 widen exactly, f64 rounds (and saturates).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from zeropoint.ir.tensors import Array

_F32 = np.dtype(np.float32)
_FLOAT_NAMES = ("float16", "bfloat16", "float32", "float64")


class Observer(Protocol):
    """The state of a point: counts and a distribution or extremes, in bounded memory."""

    @property
    def count(self) -> int:
        """The number of finite values seen."""
        ...

    @property
    def nan_count(self) -> int:
        """The number of NaN seen, which the range ignores."""
        ...

    @property
    def infinite_count(self) -> int:
        """The number of infinities seen, which the range ignores."""
        ...

    def update(self, array: Array) -> None:
        """Observe the values of a float array of any shape."""
        ...

    def merge(self, other: Self) -> Self:
        """A new observer that has seen the values of both."""
        ...

    def quantiles(self, parts: int) -> tuple[float, ...]:
        """The medians of `parts` equal-count bins, ascending f32 numbers. Empty if the distribution is not kept."""
        ...

    def range(self) -> tuple[float, float]:
        """The (minimum, maximum) to represent, each an f32. Raises ValueError if no finite value was seen."""
        ...


ObserverFactory = Callable[[], Observer]


@dataclass
class MinMaxObserver:
    """The minimum and maximum finite value."""

    minimum: float = math.inf
    maximum: float = -math.inf
    count: int = 0
    nan_count: int = 0
    infinite_count: int = 0

    def update(self, array: Array) -> None:
        """Observe the values of a float array. Raises TypeError for other dtypes."""
        values = as_f32(array)
        if values.size == 0:
            return
        low, high = values.min(), values.max()  # both propagate NaN: finite extremes prove all values finite
        if not (np.isfinite(low) and np.isfinite(high)):
            nan_count = int(np.count_nonzero(np.isnan(values)))
            finite = values[np.isfinite(values)]
            self.nan_count += nan_count
            self.infinite_count += values.size - finite.size - nan_count
            values = finite
            if values.size == 0:
                return
            low, high = values.min(), values.max()
        self.count += values.size
        # Adding 0.0 turns -0.0 into 0.0. Otherwise the result would depend on the order of the values.
        self.minimum = min(self.minimum, float(low) + 0.0)
        self.maximum = max(self.maximum, float(high) + 0.0)

    def merge(self, other: MinMaxObserver) -> MinMaxObserver:
        """An observer with the extremes and counts of both."""
        return MinMaxObserver(
            min(self.minimum, other.minimum),
            max(self.maximum, other.maximum),
            self.count + other.count,
            self.nan_count + other.nan_count,
            self.infinite_count + other.infinite_count,
        )

    def quantiles(self, parts: int) -> tuple[float, ...]:
        """Empty, because only the two extremes are kept."""
        return ()

    def range(self) -> tuple[float, float]:
        """The minimum and maximum finite value. Raises ValueError if there was none."""
        if not self.count:
            raise ValueError("found no finite value; expected at least one before the range is asked for")
        return self.minimum, self.maximum


class Counted(ABC):
    """The counts of an observer that keeps more than the extremes."""

    @property
    @abstractmethod
    def counted(self) -> MinMaxObserver:
        """The observer that counts the values."""

    @property
    def count(self) -> int:
        """The number of finite values seen."""
        return self.counted.count

    @property
    def nan_count(self) -> int:
        """The number of NaN seen."""
        return self.counted.nan_count

    @property
    def infinite_count(self) -> int:
        """The number of infinities seen."""
        return self.counted.infinite_count


def in_memory_order(array: Array) -> Array:
    """All elements, flat; a copy only if there are gaps between them."""
    order = sorted(range(array.ndim), key=lambda dim: -array.strides[dim])
    return np.ascontiguousarray(array.transpose(order)).reshape(-1)


def as_f32(array: Array) -> Array:
    """Convert a float array to f32. f64 is rounded, and finite values beyond the range of f32 saturate.

    Raises TypeError for other dtypes.
    """
    array = np.asarray(array)
    if array.dtype == _F32:
        return array
    if array.dtype.name not in _FLOAT_NAMES:
        raise TypeError(f"found values of dtype {array.dtype}; expected floats, only they have a range to observe")
    if array.dtype == np.float64:
        limit = float(np.finfo(np.float32).max)
        array = np.where(np.isinf(array), array, np.clip(array, -limit, limit))
    return array.astype(np.float32)

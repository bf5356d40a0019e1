"""Observer states packed into a few arrays, to send them to another process or write them to a journal.

A network typically fills a few thousand of a histogram's 2^16 bins, and only these are packed. Unpacked states are
added exactly, because counts are integers. So neither the order nor the number of the parts changes the result.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from zeropoint.calibrate.bins import Bins
from zeropoint.calibrate.histogram import DistributionObserver, PercentileObserver
from zeropoint.calibrate.moving_average import MovingAverageObserver
from zeropoint.calibrate.observers import MinMaxObserver, Observer
from zeropoint.ir.tensors import Array

Packed = Mapping[str, Array]
"""`counts` (keys, 3) i64: finite values, NaN, infinities. `extremes` (keys, 2) f64. `filled` (keys) i64: the number
of nonempty bins per key. `bins` u16 and `values` i64: indices and counts of the nonempty bins of all keys,
concatenated."""
DTYPES = {"counts": np.int64, "extremes": np.float64, "filled": np.int64, "bins": np.uint16, "values": np.int64}
_NO_BINS = np.zeros(0, np.int64)


def _parts(state: Observer) -> tuple[MinMaxObserver, Bins | Array]:
    """The extremes and the histogram of a state, or its other counts, without a copy.

    Raises TypeError for a user-defined observer.
    """
    if isinstance(state, MovingAverageObserver):
        return state.extremes, state.sums
    if isinstance(state, DistributionObserver):
        state = state.seen
    if isinstance(state, PercentileObserver):
        return state.extremes, state.histogram
    if isinstance(state, MinMaxObserver):
        return state, _NO_BINS
    raise TypeError(f"found {type(state).__name__}, expected an observer of zeropoint.calibrate")


def _filled(counts: Bins | Array) -> tuple[Array, Array]:
    """The indices of the counts that are not 0, and these counts."""
    if isinstance(counts, Bins):
        return counts.filled, counts.counts
    bins = np.flatnonzero(counts)
    return bins, counts[bins]


def take(states: Mapping[str, Observer]) -> dict[str, Array]:
    """Pack the observers' states and reset them."""
    packed = pack(states)
    for state in states.values():
        seen, histogram = _parts(state)
        if isinstance(histogram, Bins):
            histogram.clear()
        else:
            histogram[:] = 0
        _become(seen, MinMaxObserver())
    return packed


def pack(states: Mapping[str, Observer]) -> dict[str, Array]:
    """Pack the observers' states."""
    counts: list[list[int]] = []
    extremes: list[list[float]] = []
    bins: list[Array] = []
    values: list[Array] = []
    for state in states.values():
        seen, histogram = _parts(state)
        counts.append([seen.count, seen.nan_count, seen.infinite_count])
        extremes.append([seen.minimum, seen.maximum])
        for parts, part in zip((bins, values), _filled(histogram), strict=True):
            parts.append(part)
    made: dict[str, Any] = {
        "counts": np.array(counts).reshape(-1, 3),
        "extremes": np.array(extremes).reshape(-1, 2),
        "filled": np.array([len(part) for part in bins]),
        "bins": np.concatenate([_NO_BINS, *bins]),
        "values": np.concatenate([_NO_BINS, *values]),
    }
    return {name: np.asarray(array, DTYPES[name]) for name, array in made.items()}


def add(states: Mapping[str, Observer], packed: Packed) -> None:
    """Add packed states to the observers, in place."""
    ends = np.cumsum(packed["filled"])
    for number, state in enumerate(states.values()):
        seen, histogram = _parts(state)
        count, nan_count, infinite_count = map(int, packed["counts"][number])
        low, high = map(float, packed["extremes"][number])
        merged = seen.merge(MinMaxObserver(low, high, count, nan_count, infinite_count))
        _become(seen, merged)
        part = slice(int(ends[number] - packed["filled"][number]), int(ends[number]))
        if isinstance(histogram, Bins):
            histogram.add(packed["bins"][part], packed["values"][part])
        else:
            histogram[packed["bins"][part]] += packed["values"][part]


def _become(seen: MinMaxObserver, other: MinMaxObserver) -> None:
    for part in fields(other):
        setattr(seen, part.name, getattr(other, part.name))


def fits(states: Mapping[str, Observer], packed: Packed) -> bool:
    """Whether packed arrays have the names, dtypes and shapes of these observers' states."""
    if set(packed) != set(DTYPES) or any(packed[name].dtype != dtype for name, dtype in DTYPES.items()):
        return False
    keys, total = len(states), int(packed["filled"].sum())
    shapes = {"counts": (keys, 3), "extremes": (keys, 2), "filled": (keys,), "bins": (total,), "values": (total,)}
    return all(packed[name].shape == shape for name, shape in shapes.items())

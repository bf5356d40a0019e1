"""Noise: the energy of the difference from exact values, and its ratio to the energy of the signal in decibels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf, isfinite, log10

import numpy as np

from zeropoint.numerics.arrays import AnyArray

PART = 1 << 15
"""The number of elements whose squares are added up at a time: as f64, they fit a second-level cache."""
_ROUNDED_TO = 8
"""NumPy adds up contiguous numbers in halves, of which the first is a multiple of this."""


def energy(values: AnyArray) -> float:
    """The sum of squares, in f64."""
    flat = dense(values)
    if flat is None:
        return _energy(values)
    return _in_halves(lambda part: _energy(flat[part]), 0, flat.size)


def energy_between(values: AnyArray, others: AnyArray) -> float:
    """The sum of squared differences: `energy(values - others)`, without an array of all differences."""
    flat, right = dense(values), dense(others)
    if flat is None or right is None or _form(values) != _form(others):
        return energy(values - others)
    return _in_halves(lambda part: _energy(flat[part] - right[part]), 0, flat.size)


def dense(array: AnyArray) -> AnyArray | None:
    """All elements in the order in which they are in memory, as a view; None if there are gaps between them."""
    order = sorted(range(array.ndim), key=lambda axis: -array.strides[axis])
    ordered = array.transpose(order)
    return ordered.reshape(-1) if ordered.flags.c_contiguous else None


def _form(array: AnyArray) -> tuple[object, ...]:
    """The type and shape of an array, and its order in memory: a dimension of size 1 may have any stride."""
    return array.dtype, array.shape, *(s for size, s in zip(array.shape, array.strides, strict=True) if size > 1)


def _energy(values: AnyArray) -> float:
    wide = np.array(values, dtype=np.float64)  # converted at once: a ufunc that converts takes twice the time
    return float(np.square(wide, out=wide).sum())


def _in_halves(sum_of: Callable[[slice], float], start: int, stop: int) -> float:
    """The sum over a range, added up in the order of NumPy's sum of as many contiguous numbers: pairwise summation.

    Source: `pairwise_sum` in numpy/_core/src/umath/loops_utils.h.src, which splits a range into halves.
    """
    count = stop - start
    if count <= PART:
        return sum_of(slice(start, stop))
    middle = start + count // 2 - count // 2 % _ROUNDED_TO
    return _in_halves(sum_of, start, middle) + _in_halves(sum_of, middle, stop)


def is_counted(values: AnyArray) -> bool:
    """Whether elements are positions, classes or masks, which are equal or not, whatever their distance."""
    return values.dtype.kind in "iub"


def power_sum(values: AnyArray) -> float:
    """The energy of values as a signal: the number of elements of those that are counted."""
    return float(values.size) if is_counted(values) else energy(values)


def difference_energy(exact: AnyArray, found: AnyArray) -> float:
    """The energy of the difference of values; the number of elements that differ, of those that are counted."""
    return float(np.count_nonzero(found != exact)) if is_counted(exact) else energy(found - exact)


def energies(exact: AnyArray, found: AnyArray) -> tuple[float, float]:
    """The energy of exact values, and the energy of the difference of found values.

    For integers and booleans (`is_counted`), these are the number of elements and the number of elements that differ.
    Equal infinities, such as those of masked scores, count as neither signal nor noise.
    """
    if is_counted(exact):
        return float(exact.size), float(np.count_nonzero(found != exact))
    real, other = exact.astype(np.float64), found.astype(np.float64)
    if not np.isfinite(real).all():
        apart = ~(np.isinf(real) & (real == other))
        real, other = real[apart], other[apart]
    return energy(real), energy(other - real)


def decibels(signal: float, noise: float) -> float:
    """10 log10(signal / noise). inf without noise; otherwise -inf without signal, or if the noise is not finite."""
    if noise == 0:
        return inf
    ratio = signal / noise if isfinite(noise) else 0.0
    return 10 * log10(ratio) if ratio else -inf


@dataclass
class NoiseSums:
    """Energies at the result of a kernel, summed over all samples.

    Let y be the float result, q the result in the quantized network, and f(x) the result of the float kernel on the
    quantized inputs. The energies are those of y (signal), q - y (total), f(x) - y (inherited) and q - f(x) (added).
    """

    signal: float = 0.0
    total: float = 0.0
    inherited: float = 0.0
    added: float = 0.0

    def add(self, exact: AnyArray, passed: AnyArray, given: AnyArray) -> None:
        """Add one sample: y, f(x) and q as real numbers of one shape, or positions, classes or truth values."""
        self.signal += power_sum(exact)
        self.total += difference_energy(exact, given)
        self.inherited += difference_energy(exact, passed)
        self.added += difference_energy(passed, given)

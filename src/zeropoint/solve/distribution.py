"""What is known of how a value is distributed, and what rounding it costs the result of a function.

Calibration tells the middles of parts of equal count (`zeropoint.quantiles`). Where only a range is known, values are
taken as spread evenly over it, in their logarithm where they all have one sign.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from zeropoint.ir.quant import Storage
from zeropoint.ir.tensors import Array
from zeropoint.numerics import dequantize, quantize
from zeropoint.numerics.ranges import asymmetric

ASSUMED = 64
"""Points of a value of which only a range is known."""
ROUNDINGS = 4.0
"""Times the noise of rounding the result itself to 8 bits: noise below that is no reason for a wider operand."""
STEPS = 255

Function = Callable[[Array], Array]
"""From points of a value to the results of the function that reads it, element by element."""


@dataclass(frozen=True, eq=False)
class Distribution:
    """Points of equal weight, f32, and the range that the value is going to be stored with."""

    points: Array
    minimum: float
    maximum: float

    @staticmethod
    def of(minimum: float, maximum: float, quantiles: Iterable[float] = ()) -> Distribution:
        """From quantiles, or from the range alone."""
        points = np.array(list(quantiles), np.float32)
        if not points.size:
            shares = (np.arange(ASSUMED) + 0.5) / ASSUMED
            if minimum > 0 or maximum < 0:
                points = minimum * (maximum / minimum) ** shares
            else:
                points = minimum + (maximum - minimum) * shares
        return Distribution(points.astype(np.float32), minimum, maximum)

    def step(self, storage: Storage) -> float:
        """The scale in a storage."""
        return float(asymmetric(self.minimum, self.maximum, storage.minimum, storage.maximum).scale)

    def rounded(self, storage: Storage) -> Array:
        """The points as they come back from a storage."""
        chosen = asymmetric(self.minimum, self.maximum, storage.minimum, storage.maximum)
        bounds = (storage.minimum, storage.maximum)
        stored = quantize(self.points, chosen.scale, chosen.zero_point, *bounds, expressed=np.float64)
        return dequantize(stored, chosen.scale, chosen.zero_point, np.float64).astype(np.float32)

    @property
    def power(self) -> float:
        """The mean square."""
        return float((self.points.astype(np.float64) ** 2).mean())


def loss(function: Function, points: Array, changed: Iterable[tuple[float, Array]]) -> float:
    """The SQNR of a function's results, in dB of their variance, where its points are changed.

    Where the results do not vary, as those of a clamp that every point saturates, it is in dB of their mean square.
    `changed` are forms of the points with their weights. Results that are not finite without a change do not count;
    those that a change makes so leave nothing: -inf. Noise that is small beside the rounding of the result itself to 8
    bits is none: +inf.
    """
    with np.errstate(all="ignore"):
        expected = function(points).astype(np.float64)
        kept = np.isfinite(expected)
        if not kept.any():
            return np.inf
        found = [(weight, function(form).astype(np.float64)[kept]) for weight, form in changed]
    expected = expected[kept]
    if not all(np.isfinite(results).all() for _, results in found):
        return -np.inf
    noise = sum(weight * float(((results - expected) ** 2).mean()) for weight, results in found)
    width = max(expected.max(), 0.0) - min(expected.min(), 0.0)
    if noise <= ROUNDINGS * (width / STEPS) ** 2 / 12:
        return np.inf
    signal = float(expected.var()) or float((expected**2).mean())
    return float(10 * np.log10(signal / noise)) if signal else -np.inf


def with_noise(points: Array, deviation: float) -> list[tuple[float, Array]]:
    """Points with normal noise added, by three nodes of Gauss-Hermite quadrature."""
    far = np.float32(np.sqrt(3.0) * deviation)
    return [(1 / 6, points - far), (2 / 3, points), (1 / 6, points + far)]

"""The mean of the samples' minima and of their maxima, as a moving average with equal weights.

A moving average with a fixed rate depends on the order of the samples and on how they are split among processes. Here
the n-th sample has the weight 1/n, so the result is the mean over the samples. It suits data in which a few samples
have unusual extremes. The sums are exact integers in units of the smallest positive f32, in limbs of 32 bits.

Source: Jacob et al., "Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference",
section 3.1 (ranges by exponential moving averages). The equal weights are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from zeropoint.calibrate.observers import Counted, MinMaxObserver, as_f32
from zeropoint.ir.tensors import Array

UNIT_BITS = 149
"""The smallest positive f32 is 2^-149."""
LIMB_BITS = 32
LIMBS = 9
"""The limbs of one f32, an integer of up to 277 bits. Limbs are summed over the samples without carry, in 64 bits."""


def _new_sums() -> Array:
    return np.zeros(2 * LIMBS + 1, dtype=np.int64)


@dataclass(eq=False)
class MovingAverageObserver(Counted):
    """The means of the samples' minimum and maximum finite values. A sample is one `update`."""

    extremes: MinMaxObserver = field(default_factory=MinMaxObserver)
    sums: Array = field(default_factory=_new_sums)
    """The limbs of the sum of the minima, then of the maxima, then the number of samples with a finite value."""

    @property
    def counted(self) -> MinMaxObserver:
        """The observer that counts the values."""
        return self.extremes

    def update(self, array: Array) -> None:
        """Observe one sample, a float array of any shape. Raises TypeError for other dtypes."""
        sample = MinMaxObserver()
        sample.update(as_f32(array))
        self.extremes = self.extremes.merge(sample)
        if sample.count:
            self.sums[:LIMBS] += _limbs(sample.minimum)
            self.sums[LIMBS:-1] += _limbs(sample.maximum)
            self.sums[-1] += 1

    def merge(self, other: MovingAverageObserver) -> MovingAverageObserver:
        """An observer that has seen the values of both."""
        return MovingAverageObserver(self.extremes.merge(other.extremes), self.sums + other.sums)

    def quantiles(self, parts: int) -> tuple[float, ...]:
        """Empty, because the distribution is not kept."""
        return ()

    def range(self) -> tuple[float, float]:
        """The two means, rounded to f32. Raises ValueError if no finite value was seen."""
        self.extremes.range()
        return self._mean(self.sums[:LIMBS]), self._mean(self.sums[LIMBS:-1])

    def _mean(self, limbs: Array) -> float:
        total = sum(int(limb) << (LIMB_BITS * number) for number, limb in enumerate(limbs))
        return float(np.float32(float(Fraction(total, int(self.sums[-1]) << UNIT_BITS)))) + 0.0


def _limbs(value: float) -> Array:
    """An f32 as an integer in units of 2^-149, in limbs that all have its sign."""
    units = int(Fraction(abs(value)) * (1 << UNIT_BITS))
    parts = [(units >> (LIMB_BITS * number)) & ((1 << LIMB_BITS) - 1) for number in range(LIMBS)]
    return np.array(parts, dtype=np.int64) * (-1 if value < 0 else 1)

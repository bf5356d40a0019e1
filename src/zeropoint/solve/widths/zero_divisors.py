"""Find divisors that rounding may turn into 0. The kernels of some runtimes refuse to divide by 0 (`nonzero` of a row).

```mlir
%0 = "quant.region"(%squares) ({ sum })      observed from 0.05 on, in steps of 0.18: the smallest are stored as 0
%1 = "quant.region"(%0) ({ sqrt })           observed from 0.22 on, in steps of 0.03: 0 where its operand is
%2 = "quant.region"(%x, %1) ({ divide })
```
The check rounds the ends of the divisor's observed range, and those of the values that it is a function of. The noise
of earlier kernels may move these ends towards 0.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import Storage
from zeropoint.ir.tensors import Array
from zeropoint.solve.value_constraint import NARROW
from zeropoint.solve.widths.distribution import PointDistribution, RealFunction
from zeropoint.solve.widths.operand_functions import operand_function
from zeropoint.solve.widths.rounding_noise import RoundingNoise, activations

DEVIATIONS = 3.0
"""How many standard deviations the noise of earlier kernels may move the ends of a range."""


def rounds_to_zero(divisor: SSAValue, storage: Storage, noise: RoundingNoise) -> bool:
    """Whether rounding to a storage turns some divisors into 0, at the divisor itself or at the operands of its
    functions."""
    seen = noise.seen(divisor)
    if seen is None:
        return False
    half, steps, value = seen.step(storage) / 2, list[RealFunction](), divisor
    while True:
        seen = noise.seen(value)
        if seen is not None and _holds_zero(_computed(_ends(seen, value, storage, noise), seen, storage, steps), half):
            return True
        maker = value.owner
        operands = activations(maker) if isinstance(maker, Operation) else []
        if len(operands) != 1 or not isinstance(maker, Operation):
            return False
        (index, value), moves = operands[0], noise.moves(maker)
        function = None if moves else operand_function(maker, index, noise)
        if function is None and not moves:
            return False
        steps = steps if function is None else [function, *steps]


def _ends(seen: PointDistribution, value: SSAValue, storage: Storage, noise: RoundingNoise) -> Array:
    """The minimum and maximum of a value, moved outwards by the noise that it carries, but not past 0.

    A wider storage comes from wider kernels, whose noise is negligible.
    """
    low, high = seen.extremes or (seen.minimum, seen.maximum)
    far = DEVIATIONS * sqrt(noise.carried_by(value)) if storage.type.width <= NARROW else 0.0
    least, greatest = low - far, high + far
    return np.array([max(least, 0.0) if low >= 0 else least, min(greatest, 0.0) if high <= 0 else greatest], np.float32)


def _computed(ends: Array, seen: PointDistribution, storage: Storage, steps: list[RealFunction]) -> Array:
    """The results of functions at rounded ends of a range; the ends themselves without functions."""
    points = seen.rounded_points(ends, storage) if steps else ends
    with np.errstate(all="ignore"):
        for step in steps:
            points = step(points)
    return points


def _holds_zero(ends: Array, half: float) -> bool:
    """Whether some number between two ends is at most half a step from 0."""
    return bool(ends.min() <= half and ends.max() >= -half)

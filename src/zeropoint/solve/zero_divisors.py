"""Find divisors that rounding makes 0, of which the kernels of some runtimes refuse to divide (`nonzero` of a row).

```mlir
%0 = "quant.region"(%squares) ({ sum })      observed from 0.05 on, in steps of 0.18: the least ones are stored as 0
%1 = "quant.region"(%0) ({ sqrt })           observed from 0.22 on, in steps of 0.03: 0 where its operand is
%2 = "quant.region"(%x, %1) ({ divide })
```
The observed ends of the divisor are rounded, and so are those of what it is a function of. The noise of kernels before
that moves them towards 0.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import Storage
from zeropoint.ir.tensors import Array
from zeropoint.solve.distribution import PointDistribution, RealFunction
from zeropoint.solve.operand_functions import operand_function
from zeropoint.solve.rounding_noise import RoundingNoise, activations
from zeropoint.solve.value_constraint import NARROW

DEVIATIONS = 3.0
"""How many standard deviations the noise of kernels before a value moves its ends."""


def rounds_to_zero(divisor: SSAValue, storage: Storage, noise: RoundingNoise) -> bool:
    """Whether rounding to a storage makes some of a divisor 0, at once or in the operands of the functions before."""
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
    """The least and the greatest value, moved by the noise that it carries, but not to the other side of 0.

    A wider storage comes from wider kernels, so that there is little.
    """
    low, high = seen.extremes or (seen.minimum, seen.maximum)
    far = DEVIATIONS * sqrt(noise.carried_by(value)) if storage.type.width <= NARROW else 0.0
    least, greatest = low - far, high + far
    return np.array([max(least, 0.0) if low >= 0 else least, min(greatest, 0.0) if high <= 0 else greatest], np.float32)


def _computed(ends: Array, seen: PointDistribution, storage: Storage, steps: list[RealFunction]) -> Array:
    """What functions compute of rounded ends; the ends themselves if there are none."""
    points = seen.rounded_points(ends, storage) if steps else ends
    with np.errstate(all="ignore"):
        for step in steps:
            points = step(points)
    return points


def _holds_zero(ends: Array, half: float) -> bool:
    """Whether something between two numbers is less than half a step from 0."""
    return bool(ends.min() <= half and ends.max() >= -half)

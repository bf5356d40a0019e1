"""The order of float sums, for the interpreter and for native code.

Sums and products of n numbers x_0, x_1, ... of f32 or f64 are computed in `PARTIALS` = 16 parts, so that vectors of any
width up to 16 can implement them:

1. Part p combines the numbers x_p, x_(p+16), x_(p+32), ..., from the first to the last.
2. The parts are combined by halves: part p with part p + 8 for p < 8, then p with p + 4, p + 2, p + 1.

A part without numbers is skipped. This equals filling it with -0.0 (for a product: 1.0), which changes no number, no
sign of a zero and no NaN. The result does not depend on the instruction set, the number of threads, or the memory
layout.
"""

from __future__ import annotations

import numpy as np

from zeropoint.numerics.arrays import AnyArray

PARTIALS = 16
"""The number of parts of a sum."""


def combined(values: AnyArray, function: np.ufunc) -> AnyArray:
    """Combine x_0 to x_(n-1), n > 0, along axis 0, by `np.add` or `np.multiply` in the order above."""
    with np.errstate(all="ignore"):
        return _combined(values, function)


def _combined(values: AnyArray, function: np.ufunc) -> AnyArray:
    parts = values[:PARTIALS].copy(order="K")
    for start in range(PARTIALS, len(values), PARTIALS):
        block = values[start : start + PARTIALS]
        function(parts[: len(block)], block, out=parts[: len(block)])
    half = PARTIALS // 2
    while half:
        behind = parts[half:]
        if len(behind):
            function(parts[: len(behind)], behind, out=parts[: len(behind)])
        parts, half = parts[:half], half // 2
    return parts[0]

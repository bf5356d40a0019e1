"""The signs of zeros among the numbers of a kernel.

Equal scalars are computed once, and equal kernels share code. 0.0 == -0.0, but what is computed from them differs.
"""

from __future__ import annotations

import math


def negative_zeros(*numbers: float) -> tuple[bool, ...]:
    """Whether each number is -0. A field of this makes the numbers of two dataclasses differ where == does not."""
    return tuple(number == 0 and math.copysign(1, number) < 0 for number in numbers)

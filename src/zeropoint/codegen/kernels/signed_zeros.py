"""The signs of zeros among the numbers of a kernel.

Equal scalars are computed once, and equal kernels share code. 0.0 == -0.0, but what is computed from them differs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from numbers import Real
from typing import cast


@dataclass(frozen=True)
class SignedZeros:
    """The base of dataclasses with float fields, or tuples of floats. Equal ones also have equal signs of zeros."""

    _negative: tuple[str, ...] = field(init=False, repr=False)
    """The fields with a -0, with its index in a tuple."""

    def __post_init__(self) -> None:
        negative = list[str]()
        for name, value in vars(self).items():
            every = cast("tuple[object, ...]", value) if isinstance(value, tuple) else (value,)
            negative += [f"{name} {index}" for index, number in enumerate(every) if _is_negative(number)]
        object.__setattr__(self, "_negative", tuple(negative))


def _is_negative(number: object) -> bool:
    """Whether a value is the number -0."""
    return isinstance(number, Real) and not number and math.copysign(1, float(number)) < 0

"""The variances of rows that a quotient normalizes: in `x / y`, and in products that are quotients in other words.

Each row of `x` is divided by its own number, so noise in `x` costs rows with small divisors more (`normalized_loss`).
Each divisor is a row of its own, whose noise is relative to itself. A product is a quotient in other words if one
factor is `1 / y` or `1 / sqrt(y)`. Other such products are found by their statistics: large factors meet small ones, so
the noise of the small ones is multiplied by large numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.tensors import Array
from zeropoint.solve.widths.operand_functions import operand_function
from zeropoint.solve.widths.rounding_noise import RoundingNoise, activations

QUOTIENT_WORSE = 3.0
"""A quotient needs wider operands if its SQNR is at least this many dB below that of its rounded operand."""
QUOTIENT_SPARE = 8.0
"""A quotient of rows needs this many dB more.

Its divisor is computed from the same rows by several kernels that round, such as the mean of squares and the root in an
RMS normalization. Each of them costs about as much as the row itself.
"""
MEETING = 2.0
"""A product counts as a quotient if its mean square is at least this many times below that of independent factors."""


@dataclass(frozen=True)
class NormalizedRows:
    """Operand `index` of a kernel that normalizes its rows, and the variances of the rows."""

    index: int
    variances: Array
    is_quotient: bool
    """Whether the other operand carries noise as well (`QUOTIENT_SPARE`)."""


def numerator_rows(region: QuantizeRegionOp, noise: RoundingNoise) -> Array | None:
    """The variances of the rows of a numerator, such that small divisors amplify its noise; None if unknown."""
    if len(activations(region)) != 2 or len(region.inputs) != 2:
        return None
    below, quotient = noise.seen(region.inputs[1]), noise.seen(region.outputs[0])
    if below is None or quotient is None or not quotient.power:
        return None
    squares = below.points.astype(np.float64) ** 2 * quotient.power
    return squares[squares > 0]


def divisor_factors(region: QuantizeRegionOp, noise: RoundingNoise) -> Array | None:
    """The squares of the factors 1 / y of a quotient; None if unknown."""
    below = noise.seen(region.inputs[1])
    divisors = None if below is None else below.points[below.points != 0]
    return None if divisors is None or not divisors.size else (1.0 / divisors.astype(np.float64)) ** 2


def product_rows(region: QuantizeRegionOp, noise: RoundingNoise) -> list[NormalizedRows]:
    """The operands of a product that is a quotient in other words; empty for other products."""
    product = noise.seen(region.outputs[0])
    if len(activations(region)) != 2 or len(region.inputs) != 2 or product is None or not product.power:
        return []
    factors = [noise.seen(value) for value in region.inputs]
    squares = [None if factor is None else factor.points.astype(np.float64) ** 2 for factor in factors]
    for index, (value, factor, square) in enumerate(zip(region.inputs, factors, squares, strict=True)):
        if factor is not None and square is not None and (factor.points > 0).all() and _is_reciprocal(value, noise):
            return [
                NormalizedRows(1 - index, product.power / square, is_quotient=True),
                NormalizedRows(index, square, is_quotient=True),
            ]
    # Other forms, such as x * |x|^-0.7 and x * (tanh(|x|) / |x|).
    first, second = squares
    if first is None or second is None or first.mean() * second.mean() < MEETING * product.power:
        return []
    with np.errstate(divide="ignore"):  # noise multiplied by 0 costs nothing
        return [
            NormalizedRows(1 - index, product.power / square, is_quotient=True)
            for index, square in enumerate((first, second))
        ]


def _is_reciprocal(value: SSAValue, noise: RoundingNoise) -> bool:
    """Whether a value is 1 / x or 1 / sqrt(x), up to a factor and data movement."""
    maker = value.owner
    while isinstance(maker, BroadcastInDimOp) or (isinstance(maker, Operation) and noise.moves(maker)):
        maker = maker.operands[0].owner
    operands = activations(maker) if isinstance(maker, Operation) else []
    if not isinstance(maker, Operation) or len(operands) != 1:
        return False
    function = operand_function(maker, operands[0][0], noise)
    if function is None:
        return False
    with np.errstate(all="ignore"):
        near, far = function(np.array([1, 4, 16, 64], np.float32)).reshape(2, 2).T
        # If x grows by a factor of 4, 1 / x falls by 4 and 1 / sqrt(x) by 2.
        falls = near / far
    return bool(((falls > 1.9) & (falls < 4.1) & (far > 0)).all())

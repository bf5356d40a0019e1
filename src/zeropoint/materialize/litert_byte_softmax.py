"""LiteRT's reference softmax and log_softmax of 8-bit scores, in fixed point.

A softmax has two tables of exponentials, and one reciprocal a row by Newton's method:

```mlir
%1 = "quant.region"(%0) ({ softmax }) {logical_kernel = "softmax"} : ... i8 to i8 at 1/256 from -128
```
becomes, under a profile with LiteRT's kernels,
```mlir
%d = (convert (%0 - reduce maximum(%0) + 127) to i8)              the index of both tables
%e = "fxpmath.table"(%d, %exponentials)                           31 fractional bits
%t = reduce add("fxpmath.table"(%d, %summands))                   19 fractional bits, one number a row
%z = count_leading_zeros(%t)
%h = %t * (1 << (%z - 1))                                         1/2..1, 31 fractional bits
%x = 48/17 - 32/17 * %h                                           1 / %h, 29 fractional bits
%x = %x + %x * (1 - %h * %x)                                      three times
%p = (%e * (2 * %x) + 2^30) >> 31
%1 = (%p + (1 << (34 - %z))) >> (35 - %z)) - 128, clamped
```
All products are of 64 bits. Further clamps change no value. They give range analysis the bounds of a reciprocal.

A log_softmax is the distance of each score, less the logarithm of the sum, rounded to 1/16.

The runtime ends a softmax with an error if the sum is 2^28 or more, for example with 512 equal scores.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8, i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.fxpmath import TableOp
from zeropoint.ir.tensors import shape_of, with_element
from zeropoint.materialize.litert_fixed_point import reciprocal, rounded_away, times
from zeropoint.materialize.words import Words
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.litert_exponentials import FRACTION_BITS, distances, exponentials
from zeropoint.numerics.rounding import INT32_MAX, rounding_divide_by_pot

SUM_BITS = 12
"""The number of bits by which exponentials are shortened before they are added."""
ONE = 1 << (31 - SUM_BITS)
"""The exponential of the greatest score in a sum."""
MOST_TERMS = (1 << SUM_BITS) - 1
"""The length of a row up to which the sum has at most 31 bits. The runtime's sums have no more: its results for longer
rows are defined where the sum is less."""
ROOT, FOURTH_ROOT, LOG_2 = 1518500250, 1805811301, 1488522236
"""sqrt(1/2), its root, and log(2), with 31 fractional bits."""
ALPHA_N, ALPHA_D, ALPHA_I, ALPHA_F = 117049297, 127690142, 1057819769, 638450708
"""11/240 w, 1/20 w, 2/w - w and w/4 with w = 2^(1/4): the coefficients of the logarithm."""
QUARTER = 1 << 23
"""1/4 with 25 fractional bits."""
GREATEST_LOGARITHM = 9 << 26
"""More than the logarithm of a sum of 31 bits, with 26 fractional bits."""


def byte_softmax(run: Words, scores: SSAValue, axis: int, scale: float) -> SSAValue:
    """The results of a softmax of 8-bit scores."""
    index, table = _index(run, scores, axis), exponentials(scale)
    total, zeros = _total(run, index, table, axis)
    power = run.clamped(run.raised(1, run.subtract(zeros, 1)), 1, 1 << (SUM_BITS - 1))
    half = run.clamped(run.multiply(total, power), 1 << 30, INT32_MAX)
    factor = run.along(reciprocal(run, half), scores, axis)
    product = times(run, run.converted(_looked_up(run, index, table), i64), factor)
    nearest = run.clamped(run.raised(1, run.subtract(34, zeros)), 1 << 22, 1 << 33)
    rounded = run.add(run.clamped(product, 0, INT32_MAX), run.along(nearest, scores, axis))
    shares = run.shifted(rounded, run.along(run.clamped(run.subtract(35, zeros), 23, 34), scores, axis))
    return run.quantized(run.converted(run.add(run.minimum(shares, 255), -128), i32))


def byte_log_softmax(run: Words, scores: SSAValue, axis: int, scale: float) -> SSAValue:
    """The results of a log_softmax of 8-bit scores."""
    index = _index(run, scores, axis)
    total, zeros = _total(run, index, exponentials(scale), axis)
    offset = run.along(
        run.clamped(_logarithm(run, total, zeros), -GREATEST_LOGARITHM, GREATEST_LOGARITHM), scores, axis
    )
    reduced = run.subtract(run.converted(_looked_up(run, index, distances(scale)[0]), i64), offset)
    # Halves of negative numbers are rounded down. Positive numbers are errors of the logarithm of 1, and become 0.
    steps = run.rounded(run.subtract(0, reduced), FRACTION_BITS - 4)
    return run.quantized(run.converted(run.clamped(run.subtract(127, steps), -128, 127), i32))


def _index(run: Words, scores: SSAValue, axis: int) -> SSAValue:
    """The entry of each score in tables of `DISTANCES`, i8."""
    greatest = run.along(run.reduced(hlo.MaximumOp, scores, axis), scores, axis)
    return run.converted(run.clamped(run.add(run.subtract(scores, greatest), 127), -128, 127), i8)


def _looked_up(run: Words, index: SSAValue, entries: IntArray) -> SSAValue:
    constant = run.kernel.constant(entries.astype(np.int32))
    return run.insert(TableOp(index, constant, with_element(index, i32)))


def _total(run: Words, index: SSAValue, table: IntArray, axis: int) -> tuple[SSAValue, SSAValue]:
    """The sum of each row, and the number of zeros above its highest bit in 32, i64."""
    summands = _looked_up(run, index, rounding_divide_by_pot(table, SUM_BITS))
    word = i32 if shape_of(index)[axis] <= MOST_TERMS else i64
    total = run.clamped(run.reduced(hlo.AddOp, run.converted(summands, word), axis), ONE, INT32_MAX)
    zeros = run.leading_zeros(run.converted(total, i32))
    return run.converted(total, i64), run.converted(run.clamped(zeros, 1, SUM_BITS), i64)


def _logarithm(run: Words, total: SSAValue, zeros: SSAValue) -> SSAValue:
    """The natural logarithm of a sum with 26 fractional bits.

    The sum is r * 2^z, with z a multiple of 1/2 less a quarter, and r from sqrt(1/2) to 1. log(r) is a quotient of two
    polynomials. Source: TFLite's log_x_for_x_greater_than_or_equal_to_1.
    """
    r, z = _normalized(run, total, zeros)
    p = run.rounded(run.add(r, FOURTH_ROOT), 1)
    q = run.multiply(run.subtract(r, FOURTH_ROOT), 2)
    square = times(run, q, q)
    above = run.add(times(run, q, r), times(run, times(run, q, square), ALPHA_N))
    inner = run.add(run.add(q, ALPHA_I), times(run, square, ALPHA_D))
    below = run.add(times(run, p, inner), times(run, q, ALPHA_F))
    half = run.clamped(run.add(run.shifted(below, 1), 1 << 30), 1 << 30, INT32_MAX)
    rest = times(run, rounded_away(run, above, 6), reciprocal(run, half))
    return run.multiply(run.add(times(run, z, LOG_2), rest), 2)


def _normalized(run: Words, total: SSAValue, zeros: SSAValue) -> tuple[SSAValue, SSAValue]:
    """r with 31 fractional bits, and z with 25: the lesser r of the sum, and of the sum times sqrt(1/2)."""
    power = run.clamped(run.raised(1, run.subtract(zeros, 1)), 1, 1 << (SUM_BITS - 1))
    first = times(run, run.clamped(run.multiply(total, power), 1 << 30, INT32_MAX), ROOT)
    lowered = run.clamped(times(run, total, ROOT), 1, INT32_MAX)
    others = run.subtract(run.clamped(run.leading_zeros(run.converted(lowered, i32)), 1, SUM_BITS + 1), 1)
    others = run.converted(others, i64)
    second = run.multiply(total, run.clamped(run.raised(1, others), 1, 1 << SUM_BITS))
    r = run.minimum(run.minimum(run.multiply(first, 2), second), INT32_MAX)
    z_first = run.add(run.multiply(run.subtract(SUM_BITS, zeros), 1 << 25), QUARTER)
    z_second = run.subtract(run.multiply(run.subtract(SUM_BITS, others), 1 << 25), QUARTER)
    return run.clamped(r, 1 << 30, INT32_MAX), run.maximum(z_first, z_second)

"""LiteRT's softmax of 16-bit scores, by two interpolated tables and shifts.

```mlir
%1 = "quant.region"(%0) ({ softmax }) {logical_kernel = "softmax"} : ... i16 to i16 at 1/32768
```
becomes, under a profile with LiteRT's kernels,
```mlir
%d = %0 - (reduce maximum(%0))                                    the stored scores, i32
%s = "fxpmath.requantize"(%d, ...) {zero_point = 32767}           i16: -32768 is a distance of 10
%e = "fxpmath.interpolate"(%s, %exponentials)                     15 fractional bits
%t = reduce add(%e)                                               one number a row
%z = count_leading_zeros(%t)
%n = (%t * (1 << (%z - 1)) + 2^13 >> 14) - 2^15 - 2^16            i16: %t shifted to 1..2, less 1
%r = "fxpmath.interpolate"(%n, %reciprocals)
%1 = (%e * %r + (1 << (30 - %z))) >> (31 - %z)
```
Further clamps change no value. They give range analysis the bounds that follow from those of %t.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import i16, i32, i64
from xdsl.ir import SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.fxpmath import InterpolateOp, RequantizeOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.litert_byte_softmax import byte_log_softmax, byte_softmax
from zeropoint.materialize.storage import is_plain
from zeropoint.materialize.words import Words
from zeropoint.numerics.arrays import IntArray
from zeropoint.numerics.litert_exponentials import LEAST_SCALE
from zeropoint.numerics.litert_words import (
    EXPONENTIALS,
    GREATEST,
    GREATEST_EXPONENTIAL,
    LARGEST_DISTANCE,
    LEAST,
    RECIPROCALS,
)
from zeropoint.numerics.multiplier import quantize_multiplier
from zeropoint.numerics.requantize import RequantizeBehaviour

ONE = 1 << 15
MOST_TERMS = 1 << 15
"""Maximum length of a row, so that the sum of exponentials has at most 30 bits."""


def softmax(kernel: MaterializedKernel) -> SSAValue:
    """Softmax of 8- or 16-bit scores over one dimension. Other forms follow StableHLO."""
    found = _Rows.of(kernel)
    if found is None:
        return encased(kernel)
    run = Words(kernel)
    if found.form == (8, 8, 1 / 256, -128) and found.given.scale > LEAST_SCALE:
        return byte_softmax(run, run.stored(kernel.arguments[0]), found.axis, found.given.scale)
    if found.form == (16, 16, 1 / ONE, 0) and found.given.zero_point == 0 and found.length <= MOST_TERMS:
        return _word_softmax(run, run.stored(kernel.arguments[0]), found.axis, found.given.scale)
    return encased(kernel)


def log_softmax(kernel: MaterializedKernel) -> SSAValue:
    """Log_softmax of 8-bit scores over one dimension. Other forms follow StableHLO."""
    found = _Rows.of(kernel)
    if found is None or found.form != (8, 8, 1 / 16, 127) or found.given.scale <= LEAST_SCALE:
        return encased(kernel)
    run = Words(kernel)
    return byte_log_softmax(run, run.stored(kernel.arguments[0]), found.axis, found.given.scale)


@dataclass(frozen=True)
class _Rows:
    """A kernel on rows of quantized scores: their type, dimension and length, and the form of the kernel."""

    given: UniformQuantizedType
    axis: int
    length: int
    form: tuple[int, int, float, int]
    """The widths of scores and results, and the scale and zero point of the results."""

    @staticmethod
    def of(kernel: MaterializedKernel) -> _Rows | None:
        """The rows of a kernel that has no other argument and only reduces these scores; None for others."""
        op = next(op for op in kernel.body if isinstance(op, hlo.ReduceOp))
        axes, given = array_values(op.dimensions), element_of(kernel.values[kernel.arguments[0]])
        plain = len(kernel.arguments) == 1 and op.inputs[0] is kernel.arguments[0] and is_plain(kernel)
        if not plain or not isinstance(given, UniformQuantizedType) or len(axes) != 1:
            return None
        wanted = kernel.output_type
        form = given.storage.type.width, wanted.storage.type.width, wanted.scale, wanted.zero_point
        return _Rows(given, axes[0], shape_of(op.inputs[0])[axes[0]], form)


def _word_softmax(run: Words, scores: SSAValue, axis: int, scale: float) -> SSAValue:
    """The results from 16-bit scores as i32, for rows of at most `MOST_TERMS` elements."""
    greatest = run.along(run.reduced(hlo.MaximumOp, scores, axis), scores, axis)
    distance = _distances(run, run.minimum(run.subtract(scores, greatest), 0), scale)
    exponentials = run.converted(_interpolated(run, distance, EXPONENTIALS), i32)
    # The clamp states that the sum is at least the exponential of the greatest score.
    total = run.maximum(run.reduced(hlo.AddOp, exponentials, axis), GREATEST_EXPONENTIAL)
    zeros = run.clamped(run.leading_zeros(total), 2, 17)
    factor = run.along(run.converted(_reciprocals(run, total, zeros), i32), scores, axis)
    half = run.clamped(run.raised(1, run.subtract(30, zeros)), 1 << 13, 1 << 28)
    product = run.add(run.multiply(exponentials, factor), run.along(half, scores, axis))
    shares = run.shifted(product, run.along(run.subtract(31, zeros), scores, axis))
    return run.quantized(run.clamped(shares, 0, GREATEST))


def _distances(run: Words, differences: SSAValue, scale: float) -> SSAValue:
    """Differences of scores, rescaled to i16: 0 becomes 32767; -10 and below become -32768."""
    mantissa, exponent = quantize_multiplier(scale / (LARGEST_DISTANCE / 65535.0))
    parts = [run.kernel.constant(np.array([part], np.int32)) for part in (mantissa, exponent)]
    made = RequantizeOp(
        differences,
        parts[0],
        parts[1],
        with_element(differences, i16),
        behaviour=RequantizeBehaviour.FIXED32_DOUBLE.value,
        zero_point=GREATEST,
        storage_min=LEAST,
        storage_max=GREATEST,
    )
    return run.insert(made)


def _interpolated(run: Words, stored: SSAValue, points: IntArray) -> SSAValue:
    return run.insert(InterpolateOp(stored, run.kernel.constant(points.astype(np.int16)), stored.type))


def _reciprocals(run: Words, total: SSAValue, zeros: SSAValue) -> SSAValue:
    """An approximation of 2^(45 - zeros) / total, i16."""
    power = run.clamped(run.raised(1, run.subtract(zeros, 1)), 2, ONE << 1)
    raised = run.multiply(run.converted(total, i64), run.converted(power, i64))
    shifted = run.add(run.rounded(raised, 14), -ONE - (ONE << 1))
    return _interpolated(run, run.converted(run.clamped(shifted, LEAST, GREATEST), i16), RECIPROCALS)

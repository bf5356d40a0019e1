"""Ops on the bits of numbers, as shifts and bitwise ops; and the size of a static dimension, as a constant.

```mlir
%y = stablehlo.bitcast_convert %x : (tensor<4xi32>) -> tensor<4x2xi16>     shifts, conversions and a concatenation
%y = stablehlo.bitcast_convert %x : (tensor<4x2xi16>) -> tensor<4xi32>     slices, conversions, shifts and ors
%y = stablehlo.reduce_precision %x, format = e5m10 : tensor<4xf32>         integer arithmetic on the bits of %x
%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<4xf32>) -> tensor<i32>     4
```
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, TensorType
from xdsl.ir import Attribute, SSAValue

from zeropoint.expand.emission import Emission
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_dtype, element_of, shape_of, with_element

_WIDTHS = (8, 16, 32, 64)


def resized(emit: Emission, op: hlo.BitcastConvertOp) -> Sequence[SSAValue] | None:
    """A bitcast to a wider or narrower type; None if the widths are equal or a type is not whole bytes."""
    given, wanted = (_word(element_of(value)) for value in (op.operand, op.result))
    if given is None or wanted is None or given == wanted:
        return None
    bits = _as(emit, op.operand, given)
    found = _joined(emit, bits, wanted) if given.bitwidth < wanted.bitwidth else _separated(emit, bits, wanted)
    return [_as(emit, found, element_of(op.result))]


def dimension_size(emit: Emission, op: hlo.GetDimensionSizeOp) -> Sequence[SSAValue] | None:
    """The size as a constant; None if it is dynamic."""
    size = shape_of(op.operand)[int(op.dimension.value.data)]
    return None if size < 0 else [emit.constant(np.asarray(size, np.int32))]


def reduced(emit: Emission, op: hlo.ReducePrecisionOp) -> Sequence[SSAValue] | None:
    """Floats rounded to fewer bits, ties to even; None for quantized values and floats of 8 bits."""
    kind, word = element_of(op.operand), _word(element_of(op.operand))
    if not isinstance(kind, AnyFloat) or word is None or word.bitwidth == 8:
        return None
    exponent_bits, mantissa_bits = (int(a.value.data) for a in (op.exponent_bits, op.mantissa_bits))
    fraction = _fraction_bits(kind)
    whole = (1 << (word.bitwidth - 1)) - 1
    infinity = whole >> fraction << fraction
    bits = _as(emit, op.operand, word)
    sign = _and(emit, bits, 1 << (word.bitwidth - 1))
    magnitude = _and(emit, bits, whole)
    dropped = fraction - mantissa_bits
    if dropped > 0:
        # Ties to even: add half a unit in the last place, less 1 if the last bit that is kept is 0.
        last = _and(emit, _shifted(emit, hlo.ShiftRightLogicalOp, magnitude, dropped), 1)
        magnitude = emit.add(hlo.AddOp(magnitude, last))
        magnitude = emit.add(hlo.AddOp(magnitude, _number(emit, (1 << (dropped - 1)) - 1, last)))
        magnitude = _and(emit, magnitude, whole >> dropped << dropped)
    bias, wanted = infinity >> fraction >> 1, (1 << (exponent_bits - 1)) - 1
    # Numbers beyond the range of the format become infinity. Those below its least normal number become 0.
    if wanted < bias:
        exponent = _and(emit, magnitude, infinity)
        above = _compared(emit, exponent, hlo.ComparisonDirection.GT, (bias + wanted) << fraction)
        magnitude = emit.add(hlo.SelectOp(above, _number(emit, infinity, magnitude), magnitude))
        below = _compared(emit, exponent, hlo.ComparisonDirection.LE, (bias - wanted) << fraction)
        magnitude = emit.add(hlo.SelectOp(below, _number(emit, 0, magnitude), magnitude))
    result = _as(emit, emit.add(hlo.OrOp(magnitude, sign)), kind)
    is_nan = emit.add(hlo.CompareOp(op.operand, op.operand, hlo.ComparisonDirection.NE))
    # Without mantissa bits, a format has no NaN, only infinity.
    infinite = _as(emit, emit.add(hlo.OrOp(_number(emit, infinity, sign), sign)), kind)
    return [emit.add(hlo.SelectOp(is_nan, op.operand if mantissa_bits > 0 else infinite, result))]


def _fraction_bits(kind: Attribute) -> int:
    """The number of explicit fraction bits of a float format.

    The bits of 1.0 are the bias (an odd number), then the fraction.
    """
    dtype = element_dtype(kind)
    one = int(np.ones(1, dtype).view(f"u{dtype.itemsize}")[0])
    return (one & -one).bit_length() - 1


def _word(kind: Attribute) -> IntegerType | None:
    """The unsigned integer type of the same width; None for types that are not numbers of whole bytes."""
    if not isinstance(kind, IntegerType | AnyFloat) or kind.bitwidth not in _WIDTHS:
        return None
    return IntegerType(kind.bitwidth, Signedness.UNSIGNED)


def _as(emit: Emission, value: SSAValue, element: Attribute) -> SSAValue:
    """The same bits as another type of the same width."""
    if element_of(value) == element:
        return value
    return emit.add(hlo.BitcastConvertOp(value, with_element(value, element)))


def _joined(emit: Emission, bits: SSAValue, wanted: IntegerType) -> SSAValue:
    """Join the numbers along the last dimension into one. The first has the lowest bits."""
    *outer, parts = shape_of(bits)
    kind, width = element_of(bits), wanted.bitwidth // parts
    total: SSAValue | None = None
    for n in range(parts):
        part = emit.add(hlo.SliceOp(bits, [0] * len(outer) + [n], [*outer, n + 1], [1] * (len(outer) + 1)))
        wide = emit.converted(emit.add(hlo.ReshapeOp(part, TensorType(kind, outer))), wanted)
        wide = _shifted(emit, hlo.ShiftLeftOp, wide, n * width)
        total = wide if total is None else emit.add(hlo.OrOp(total, wide))
    assert total is not None
    return total


def _separated(emit: Emission, bits: SSAValue, wanted: IntegerType) -> SSAValue:
    """Split each number into narrower ones along a new last dimension, the lowest bits first."""
    given, shape = element_of(bits), shape_of(bits)
    assert isinstance(given, IntegerType)
    parts: list[SSAValue] = []
    for start in range(0, given.bitwidth, wanted.bitwidth):
        low = _and(emit, _shifted(emit, hlo.ShiftRightLogicalOp, bits, start), (1 << wanted.bitwidth) - 1)
        parts.append(emit.add(hlo.ReshapeOp(emit.converted(low, wanted), TensorType(wanted, [*shape, 1]))))
    return emit.add(hlo.ConcatenateOp(parts, len(shape)))


def _number(emit: Emission, number: int, like: SSAValue) -> SSAValue:
    """A number in the type of `like`. `Emission.splat` takes a float, which does not hold every 64-bit integer."""
    return emit.spread(emit.constant(np.array(number, element_dtype(element_of(like)))), shape_of(like), ())


def _and(emit: Emission, x: SSAValue, mask: int) -> SSAValue:
    return emit.add(hlo.AndOp(x, _number(emit, mask, x)))


def _shifted(
    emit: Emission, kind: type[hlo.ShiftLeftOp | hlo.ShiftRightLogicalOp], x: SSAValue, amount: int
) -> SSAValue:
    return emit.add(kind(x, _number(emit, amount, x))) if amount else x


def _compared(emit: Emission, x: SSAValue, direction: hlo.ComparisonDirection, number: int) -> SSAValue:
    return emit.add(hlo.CompareOp(x, _number(emit, number, x), direction))

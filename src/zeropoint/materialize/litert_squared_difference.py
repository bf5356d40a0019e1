"""LiteRT's SQUARED_DIFFERENCE of 8-bit values.

Both operands get 7 guard bits and the scale 2 max(s_a, s_b). The square of their difference has at most 31 bits, and is
multiplied by 4 max(s_a, s_b)^2 / (2^14 s_out).

Source: TFLite's squared_difference.cc.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvertOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.materialize.elementwise import encased
from zeropoint.materialize.kernel import MaterializedKernel
from zeropoint.materialize.storage import expressed, repeated, requantized
from zeropoint.numerics.requantize import Multiplier, RequantizeBehaviour
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN

GUARD_BITS = 7
DOUBLE = RequantizeBehaviour.FIXED32_DOUBLE


def squared_difference(kernel: MaterializedKernel) -> SSAValue:
    """The square in the runtime's fixed point; floats between casts for types that it has no kernel for."""
    op = next((op for op in kernel.body if isinstance(op, SubtractOp)), None)
    for each in kernel.body:
        if isinstance(each, BroadcastInDimOp) and each.operand in kernel.values:
            kernel.retyped(each, kernel.type_of(each.operand))
    kinds = [] if op is None else [element_of(kernel.values.get(operand, operand)) for operand in op.operands]
    if op is None or not all(map(_is_byte, [*kinds, kernel.output_type])):
        return encased(kernel)
    scales = [float(kind.scale) for kind in kinds if isinstance(kind, UniformQuantizedType)]
    common = 2 * max(scales)
    first, second = (
        _scaled(kernel, kernel.values[operand], scale / common)
        for operand, scale in zip(op.operands, scales, strict=True)
    )
    difference = kernel.insert(SubtractOp(first, second), op).result
    square = kernel.insert(MultiplyOp(difference, difference), kernel.region).result
    real = common * common / (2.0 ** (2 * GUARD_BITS) * float(kernel.output_type.scale))
    width = kernel.output_type.storage.type.width
    return expressed(kernel, requantized(kernel, square, Multiplier.of(real, DOUBLE, width)))


def _is_byte(kind: object) -> bool:
    if not isinstance(kind, UniformQuantizedType) or not kind.is_per_layer:
        return False
    return kind.storage.type.signed and kind.storage.type.width == 8


def _scaled(kernel: MaterializedKernel, value: SSAValue, factor: float) -> SSAValue:
    """(q - z) 2^7 times a factor of at most 1/2, in i32."""
    kind = element_of(value)
    assert isinstance(kind, UniformQuantizedType)
    stored = kernel.insert(StorageCastOp(value, with_element(value, i8)), kernel.region).result
    wide = kernel.insert(ConvertOp(stored, with_element(stored, i32)), kernel.region).result
    centred = kernel.insert(SubtractOp(wide, repeated(kernel, kind.zero_point, wide)), kernel.region).result
    guarded = kernel.insert(MultiplyOp(centred, repeated(kernel, 1 << GUARD_BITS, centred)), kernel.region).result
    multiplier = Multiplier.of(factor, DOUBLE, kind.storage.type.width)
    assert multiplier.shift is not None
    mantissa, shift = (np.atleast_1d(part).astype(np.int32) for part in (multiplier.multiplier, multiplier.shift))
    made = RequantizeOp(
        guarded,
        kernel.constant(mantissa),
        kernel.constant(shift),
        with_element(guarded, i32),
        behaviour=DOUBLE.value,
        zero_point=0,
        storage_min=INT32_MIN,
        storage_max=INT32_MAX,
    )
    return kernel.insert(made, kernel.region).result

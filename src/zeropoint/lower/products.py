"""Lowers quantized products and quotients to integers.

Source: the project's numerics notes, "Elementwise".
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import splat_value
from zeropoint.ir.fxpmath import QuotientOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import MultiplyOp
from zeropoint.ir.tensors import with_element
from zeropoint.lower.arithmetic import WIDE, types_of, widest
from zeropoint.lower.context import Lowering, quantized_element, storage_element
from zeropoint.lower.float_islands import lower_in_float
from zeropoint.numerics.division import Division
from zeropoint.numerics.multiplication import Multiplication
from zeropoint.numerics.requantize import RequantizeBehaviour


def lower_quotient(lowering: Lowering, op: Operation) -> SSAValue:
    """The rounded quotient of two per-layer operands of at most 16 bits, if the profile has integer quotients."""
    (lhs, rhs), result = types_of(op)
    if not lowering.profile.integer_kernels:
        return lower_in_float(lowering, op, f"the profile '{lowering.profile.name}' divides in float")
    # `numerics.division` proves its bounds for differences of at most 17 bits. For wider operands, A M may overflow
    # i64.
    if any(kind.is_per_channel or kind.storage.type.width > 16 for kind in (lhs, rhs, result)):
        return lower_in_float(lowering, op, "only quotients of 8- and 16-bit values per layer have an integer form")
    return integer_quotient(lowering, op)


def integer_quotient(lowering: Lowering, op: Operation) -> SSAValue:
    """The rounded quotient of two per-layer operands of at most 16 bits."""
    (lhs, rhs), result = types_of(op)
    division = Division.of([lhs.affine, rhs.affine], result.affine)
    first, second = (lowering.stored(operand) for operand in op.operands)
    made = QuotientOp(first, second, with_element(first, storage_element(result)), division)
    return lowering.insert(made).result


def lower_product(lowering: Lowering, op: MultiplyOp) -> SSAValue:
    """(q_a - z_a)(q_b - z_b) in the profile's accumulator width, then a requantization by s_a * s_b / s_out."""
    (lhs, rhs), result = types_of(op)
    width = result.storage.type.width
    # Compared exactly, in f64: a result scale that is only near the product needs a requantization.
    if width == 32 and lhs.scale * rhs.scale == result.scale:
        product = _exact_product(lowering, op, lhs, rhs)
        return lowering.saturated_result(lowering.shifted(product, result.zero_point, None), op)
    if widest(op) > 16:
        return lower_in_float(lowering, op, WIDE)
    return product_of(lowering, op.operands, result)


def product_of(
    lowering: Lowering,
    operands: Sequence[SSAValue],
    result: UniformQuantizedType,
    behaviour: RequantizeBehaviour | None = None,
) -> SSAValue:
    """The product of two per-layer operands of at most 16 bits, requantized by `behaviour` or the profile's."""
    profile, width = lowering.profile, result.storage.type.width
    kinds = [kind for kind in map(quantized_element, operands) if kind is not None]
    apply = Multiplication.of(
        [kind.affine for kind in kinds],
        result.affine,
        behaviour or profile.requantize(width),
        width,
        in_f32=profile.multiplies_in_f32,
    )
    element = IntegerType(apply.accumulator_width)
    centred = [
        lowering.widened(lowering.stored(operand), kind.zero_point, element)
        for operand, kind in zip(operands, kinds, strict=True)
    ]
    # Zero points are subtracted first, because a product of stored integers would need three corrections.
    product = MultiplyOp(centred[0], centred[1])
    return lowering.rescaled(lowering.insert(product).result, apply.multiplier, result.zero_point, result.storage)


def _exact_product(
    lowering: Lowering, op: MultiplyOp, lhs: UniformQuantizedType, rhs: UniformQuantizedType
) -> SSAValue:
    """A product at scale s_a * s_b, without zero point. A factor of 1 needs no multiplication."""
    factor = splat_value(lowering.stored(op.rhs), lowering.weights)
    value = lowering.widened(lowering.stored(op.lhs), lhs.zero_point)
    # Exporters write masks and identity scales as constants of 1.
    if factor == 1 and rhs.zero_point == 0:
        return value
    other = lowering.widened(lowering.stored(op.rhs), rhs.zero_point)
    return lowering.combined(MultiplyOp, value, other)

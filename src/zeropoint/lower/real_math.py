"""Lowers real math ops on quantized values to integers.

```mlir
%0 = "fxpmath.real_add_ew"(%a, %b) <{clamp_min = 0.0 : f64}>
       : (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25>>)
       -> tensor<4x!quant.uniform<i8:f32, 0.5>>
```
becomes, as the ratios of scales are powers of two,
```mlir
%0 = stablehlo.convert %a : (tensor<4xi8>) -> tensor<4xi32>
%1 = "fxpmath.rounding_divide_by_pot"(convert %b to i32) <{exponent = 1 : i64}> : (tensor<4xi32>) -> tensor<4xi32>
%2 = "fxpmath.saturating_add"(%0, %1) <{storage_min = 0 : i64, storage_max = 127 : i64}> : ...
%3 = stablehlo.convert %2 : (tensor<4xi32>) -> tensor<4xi8>
```
For other ratios, it is the profile's sum (`fxpmath.weighted_sum`), then a clamp. Products, squares, matrix products and
changes of scale are requantized by `pot`, a rounding shift, if their ratio is a power of two.

Source: "MLIR Quantization", section "FxpMath Dialect"; `numerics.real_math` defines the shifted sums.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.fxpmath import (
    ClampedRealOp,
    RealAddEwOp,
    RealDivEwOp,
    RealMulEwOp,
    RealSubEwOp,
    RealUnaryEwOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
)
from zeropoint.ir.fxpmath.real_ops import COMPARISONS, FUNCTIONS
from zeropoint.ir.quant import UniformQuantizedType, stored_bound
from zeropoint.ir.stablehlo import (
    CompareOp,
    ComparisonDirection,
    NegateOp,
    ShiftLeftOp,
)
from zeropoint.ir.tensors import element_of
from zeropoint.lower.arithmetic import sum_by_profile
from zeropoint.lower.context import Lowering, quantized_element, signed_integers, storage_element, stored_element
from zeropoint.lower.products import integer_quotient, product_of
from zeropoint.lower.tables import lower_named_function
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.numerics.real_math import ShiftedSum, clamped, power_of_two


def kind_of(value: SSAValue) -> UniformQuantizedType:
    """The quantized type of a value. Only ops with a quantized result are lowered, so it has one."""
    found = quantized_element(value)
    assert found is not None
    return found


def _bounds(lowering: Lowering, op: ClampedRealOp) -> tuple[int, int]:
    """The bounds of the clamp in signed storage integers, inside the storage range."""
    kind, given = kind_of(op.result), stored_element(op.result)
    assert given is not None
    low, high = kind.storage.minimum, kind.storage.maximum
    stored = [
        None if bound is None else int(signed_integers(stored_bound(bound, given, lowering.profile.name)))
        for bound in op.bounds
    ]
    return low if stored[0] is None else stored[0], high if stored[1] is None else stored[1]


def clamped_result(lowering: Lowering, op: ClampedRealOp, value: SSAValue) -> SSAValue:
    """Clamp storage integers to the op's bounds. `fold-bounds` folds the clamp into a requantization."""
    low, high = _bounds(lowering, op)
    kind = kind_of(op.result)
    if (low, high) == (kind.storage.minimum, kind.storage.maximum):
        return value
    return lowering.clamped(value, low, high, storage_element(kind))


def lower_real_sum(lowering: Lowering, op: RealAddEwOp | RealSubEwOp) -> SSAValue:
    """A sum or difference, of shifted operands or by the profile's addition."""
    sign = -1 if isinstance(op, RealSubEwOp) else 1
    lhs, rhs, result = (kind_of(value) for value in (op.lhs, op.rhs, op.result))
    low, high = _bounds(lowering, op)
    # Left shifts are exact, and right shifts round once, so power-of-two ratios need no multiplier.
    shifted = ShiftedSum.of([lhs.affine, rhs.affine], clamped(result.affine, low, high), (1, sign))
    if shifted is None:
        return clamped_result(lowering, op, sum_by_profile(lowering, op, sign))
    terms = [_shifted(lowering, op.operands[index], shifted, index) for index in range(2)]
    point = shifted.zero_point
    total = SaturatingAddOp(terms[0], terms[1], shifted.storage_min - point, shifted.storage_max - point)
    stored = lowering.shifted(lowering.insert(total).result, point, None)
    return lowering.converted(stored, storage_element(result))


def _shifted(lowering: Lowering, operand: SSAValue, total: ShiftedSum, index: int) -> SSAValue:
    """sign * ((q - z) * 2^-shift), in i32."""
    wide, shift = lowering.widened(lowering.stored(operand), total.zero_points[index]), total.shifts[index]
    if shift > 0:
        wide = lowering.insert(RoundingDivideByPotOp(wide, shift)).result
    elif shift < 0:
        wide = lowering.insert(ShiftLeftOp(wide, lowering.filled(wide, -shift))).result
    return lowering.insert(NegateOp(wide)).result if total.signs[index] < 0 else wide


def lower_real_product(lowering: Lowering, op: RealMulEwOp) -> SSAValue:
    """A product."""
    return clamped_result(lowering, op, _product(lowering, (op.lhs, op.rhs), op))


def _product(lowering: Lowering, operands: tuple[SSAValue, SSAValue], op: ClampedRealOp) -> SSAValue:
    result = kind_of(op.result)
    ratio = kind_of(operands[0]).scale * kind_of(operands[1]).scale / result.scale
    return product_of(lowering, operands, result, None if power_of_two(ratio) is None else RequantizeBehaviour.POT)


def lower_real_quotient(lowering: Lowering, op: RealDivEwOp) -> SSAValue:
    """A quotient in integers under every profile, because no runtime has this op with another arithmetic."""
    return clamped_result(lowering, op, integer_quotient(lowering, op))


def lower_real_function(lowering: Lowering, op: RealUnaryEwOp) -> SSAValue:
    """A change of scale, a negation, a square, or the table of a function."""
    name, result = op.fn.data, kind_of(op.result)
    if name == "SQUARE":
        return clamped_result(lowering, op, _product(lowering, (op.operand, op.operand), op))
    if name not in ("IDENTITY", "NEG"):
        return clamped_result(lowering, op, lower_named_function(lowering, op, str(FUNCTIONS[name])))
    given = kind_of(op.operand)
    wide = lowering.widened(lowering.stored(op.operand), given.zero_point)
    if name == "NEG":
        wide = lowering.insert(NegateOp(wide)).result
    multiplier = _multiplier(lowering, given.scale, result.scale, result.storage.type.width, 32)
    return clamped_result(lowering, op, lowering.rescaled(wide, multiplier, result.zero_point, result.storage))


def _multiplier(lowering: Lowering, given: float, wanted: float, width: int, accumulator: int) -> Multiplier:
    """The multiplier from one scale to another: a shift for a power of two, otherwise that of the profile."""
    real = lowering.profile.ratio(given, wanted)
    # Independent of the profile, because "MLIR Quantization" defines power-of-two scales by shifts.
    if power_of_two(float(real)) is not None:
        return Multiplier.of(real, RequantizeBehaviour.POT, width, accumulator)
    return lowering.profile.multiplier(real, width, accumulator)


def lower_real_comparison(lowering: Lowering, op: Operation) -> SSAValue | None:
    """A comparison of storage integers with the zero point; None for other ops and for floats."""
    if not isinstance(op, RealUnaryEwOp) or not op.compares or quantized_element(op.operand) is None:
        return None
    kind, stored = kind_of(op.operand), lowering.stored(op.operand)
    # q - z has the sign of the real value, so q is compared with z without a subtraction.
    zero = lowering.filled(stored, kind.zero_point, cast("IntegerType", element_of(stored)))
    return lowering.insert(CompareOp(stored, zero, ComparisonDirection[COMPARISONS[op.fn.data]])).result

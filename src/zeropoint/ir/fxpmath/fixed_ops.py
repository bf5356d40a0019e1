"""Elementary fixed-point ops: a rounding shift, a saturating sum, a high product, a quotient.

Source: "MLIR Quantization", section "FxpMath Dialect" (fixed-point math ops); the formulas are gemmlowp's. The other
steps of that dialect have ops already: clamp is `stablehlo.clamp`, convert is `stablehlo.convert`, and requantize is
`fxpmath.requantize`.

```mlir
%1 = "fxpmath.rounding_divide_by_pot"(%0) <{exponent = 3 : i64}> : (tensor<4xi32>) -> tensor<4xi32>
%3 = "fxpmath.saturating_add"(%1, %2) <{storage_min = -128 : i64, storage_max = 127 : i64}>
       : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
%4 = "fxpmath.saturating_rounding_doubling_high_mul"(%3) <{multiplier = 1518500250 : i64}>
       : (tensor<4xi32>) -> tensor<4xi32>
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, IntegerType, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure

from zeropoint.ir.fxpmath.checks import WORD, check_bounds, check_factors, check_same_shape, check_tensor, number
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of
from zeropoint.numerics.division import LARGEST_SHIFT, Division
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import half_range

WIDTHS = (8, 16, WORD)


def width_of(value: SSAValue) -> int:
    """The width of the integers of a tensor."""
    element = element_of(value)
    assert isinstance(element, IntegerType)
    width: int = element.bitwidth
    return width


def _check_one_type(op: Operation, widths: tuple[int, ...] = WIDTHS) -> None:
    """Check that operands and result have one type, integers of one of the widths."""
    result = op.results[0]
    check_tensor(op, "result", result, widths)
    for operand in op.operands:
        if operand.type != result.type:
            raise refusal(op, f"operands must have the type of the result, but got '{operand.type}', '{result.type}'")


@irdl_op_definition
class RoundingDivideByPotOp(IRDLOperation):
    """operand / 2^exponent to nearest, ties away from zero (gemmlowp's RoundingDivideByPOT). i8, i16 or i32."""

    name = "fxpmath.rounding_divide_by_pot"
    operand = operand_def()
    result = result_def()
    exponent = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, exponent: int):
        super().__init__(
            operands=[operand], result_types=[operand.type], properties={"exponent": IntegerAttr(exponent, i64)}
        )

    def verify_(self) -> None:
        """Check for one type, and an exponent from 0 to its width - 1."""
        _check_one_type(self)
        most = width_of(self.result) - 1
        if not 0 <= number(self.exponent) <= most:
            raise refusal(self, f"exponent must be in 0..{most}, but got {number(self.exponent)}")


@irdl_op_definition
class SaturatingAddOp(IRDLOperation):
    """clamp(lhs + rhs, storage_min, storage_max), where the sum itself is exact. i8, i16 or i32."""

    name = "fxpmath.saturating_add"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    storage_min = prop_def(IntegerAttr)
    storage_max = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, storage_min: int, storage_max: int):
        super().__init__(
            operands=[lhs, rhs],
            result_types=[lhs.type],
            properties={
                "storage_min": IntegerAttr(storage_min, i64),
                "storage_max": IntegerAttr(storage_max, i64),
            },
        )

    def verify_(self) -> None:
        """Check for one type, and bounds in order and inside its range."""
        _check_one_type(self)
        check_bounds(self, self.result, 0, number(self.storage_min), number(self.storage_max))


@irdl_op_definition
class SaturatingRoundingDoublingHighMulOp(IRDLOperation):
    """2 * operand * multiplier / 2^32 to nearest, ties up; the only product that does not fit is saturated. i32.

    gemmlowp's SaturatingRoundingDoublingHighMul, ARM's SQRDMULH: a product with multiplier / 2^31.
    """

    name = "fxpmath.saturating_rounding_doubling_high_mul"
    operand = operand_def()
    result = result_def()
    multiplier = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, multiplier: int):
        super().__init__(
            operands=[operand], result_types=[operand.type], properties={"multiplier": IntegerAttr(multiplier, i64)}
        )

    def verify_(self) -> None:
        """Check for i32, and a multiplier of 32 bits."""
        _check_one_type(self, (WORD,))
        half = half_range(WORD)
        if not -half <= number(self.multiplier) < half:
            raise refusal(
                self, f"multiplier must be in {-half}..{half - 1} (i{WORD}), but got {number(self.multiplier)}"
            )


@irdl_op_definition
class QuotientOp(IRDLOperation):
    """The quotient of storage integers of 8 or 16 bits, rounded once, ties towards positive infinity.

    clamp(zero_point + floor((lhs - z0) * multiplier / ((rhs - z1) * 2^shift) + 1/2)), with z0, z1 = zero_points. If rhs
    = z1, the result is the lower or upper bound, by the sign of lhs - z0; if lhs = z0 as well, it is zero_point
    (`numerics.division`).
    """

    name = "fxpmath.quotient"
    lhs = operand_def()
    rhs = operand_def()
    result = result_def()
    multiplier = prop_def(IntegerAttr)
    shift = prop_def(IntegerAttr)
    zero_points = prop_def(DenseArrayBase)
    zero_point = prop_def(IntegerAttr)
    storage_min = prop_def(IntegerAttr)
    storage_max = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(self, lhs: SSAValue, rhs: SSAValue, result_type: Attribute, parameters: Division):
        numbers = ("multiplier", "shift", "zero_point", "storage_min", "storage_max")
        super().__init__(
            operands=[lhs, rhs],
            result_types=[result_type],
            properties={
                **{name: IntegerAttr(getattr(parameters, name), i64) for name in numbers},
                "zero_points": DenseArrayBase.from_list(i64, parameters.zero_points),
            },
        )

    @property
    def division(self) -> Division:
        """The op's computation as a `numerics` object."""
        first, second = array_values(self.zero_points)
        return Division(
            number(self.multiplier),
            number(self.shift),
            (first, second),
            number(self.zero_point),
            number(self.storage_min),
            number(self.storage_max),
        )

    def verify_(self) -> None:
        """Check types, shapes, bounds, and that no step overflows 64 bits."""
        for role, value in (("lhs", self.lhs), ("rhs", self.rhs), ("result", self.result)):
            check_tensor(self, role, value, (8, 16))
            check_same_shape(self, role, value, self.result)
        low, high = number(self.storage_min), number(self.storage_max)
        check_bounds(self, self.result, number(self.zero_point), low, high)
        points = array_values(self.zero_points)
        check_factors(self, "zero_points", points, 2)
        for role, value, point in zip(("lhs", "rhs"), self.operands, points, strict=True):
            half = half_range(width_of(value))
            if not -half <= point < half:
                raise refusal(self, f"zero point of {role} must be in {-half}..{half - 1}, but got {point}")
        if not 0 <= number(self.multiplier) <= INT32_MAX:
            raise refusal(self, f"multiplier must be in 0..{INT32_MAX}, but got {number(self.multiplier)}")
        if not 0 <= number(self.shift) <= LARGEST_SHIFT:
            raise refusal(self, f"shift must be in 0..{LARGEST_SHIFT}, but got {number(self.shift)}")

"""Fixed-point ops of the integer program: requantize, weighted addition, table lookup.

Source: "MLIR Quantization", section "FxpMath Dialect" (fixed-point math ops), and the lowering of quantized
contractions (requantization scaling, output zero point, clamp and cast). Each op names its rounding behaviour
(`zeropoint.numerics`), so a program fully specifies its results.

```mlir
%y = "fxpmath.requantize"(%acc, %multiplier, %shift) {axis = 1 : i64, behaviour = "fixed32", zero_point = -128 : i64,
       storage_min = -128 : i64, storage_max = 127 : i64}
       : (tensor<1x8x4x4xi32>, tensor<8xi32>, tensor<8xi32>) -> tensor<1x8x4x4xi8>
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, IntegerAttr, StringAttr, i8, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from zeropoint.ir.fxpmath.checks import (
    check_behaviour,
    check_bounds,
    check_factors,
    check_multiplier,
    check_same_shape,
    check_stored_numbers,
    check_sums,
    check_table,
    check_tensor,
    number,
)
from zeropoint.ir.quant.checks import refusal
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.elementwise import CommonScaleSum
from zeropoint.numerics.requantize import Multiplier, Requantization, RequantizeBehaviour


@irdl_op_definition
class RequantizeOp(IRDLOperation):
    """Requantizes accumulators to storage integers: clamp(round(acc * m) + zero_point, storage_min, storage_max).

    Accumulators have 32 or 64 bits; LiteRT's 16x8 form has 64, with a multiplier of 15 bits. No step wraps around.
    `fixed32-double` and `tosa-double` saturate accumulators to 32 bits first, and `exact` to +-2^44. The other
    behaviours are exact for every accumulator. `multiplier` and `shift` have one element, or one per index of `axis`.
    `behaviour` names their encoding of m and the rounding. The floating behaviours (`float32-rne`, `exact`) have a
    float `multiplier` and no `shift`.
    """

    name = "fxpmath.requantize"
    accumulator = operand_def()
    multiplier = operand_def()
    shift = opt_operand_def()
    result = result_def()
    behaviour = prop_def(StringAttr)
    zero_point = prop_def(IntegerAttr)
    storage_min = prop_def(IntegerAttr)
    storage_max = prop_def(IntegerAttr)
    axis = opt_prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        accumulator: SSAValue,
        multiplier: SSAValue,
        shift: SSAValue | None,
        result_type: Attribute,
        *,
        behaviour: str,
        zero_point: int,
        storage_min: int,
        storage_max: int,
        axis: int | None = None,
    ):
        super().__init__(
            operands=[accumulator, multiplier, [] if shift is None else [shift]],
            result_types=[result_type],
            properties={
                "behaviour": StringAttr(behaviour),
                "zero_point": IntegerAttr(zero_point, i64),
                "storage_min": IntegerAttr(storage_min, i64),
                "storage_max": IntegerAttr(storage_max, i64),
                "axis": None if axis is None else IntegerAttr(axis, i64),
            },
        )

    def requantization(self, multiplier: Array, shift: Array | None = None) -> Requantization:
        """The op's computation as a `numerics` object, given the values of its multiplier and shift operands."""
        return Requantization(
            Multiplier(RequantizeBehaviour(self.behaviour.data), multiplier, shift),
            number(self.zero_point),
            number(self.storage_min),
            number(self.storage_max),
            None if self.axis is None else number(self.axis),
        )

    def verify_stored(self, weights: Weights) -> None:
        """Check multipliers and shifts that are in a program's weights. Raises VerifyException."""
        check_stored_numbers(self, RequantizeBehaviour(self.behaviour.data), self.operands[1:], weights)

    def verify_(self) -> None:
        """Check types, shapes, bounds, and the multipliers and shifts against the behaviour."""
        check_tensor(self, "accumulator", self.accumulator, (32, 64))
        check_tensor(self, "result", self.result, (8, 16, 32))
        check_same_shape(self, "accumulator", self.accumulator, self.result)
        low, high = number(self.storage_min), number(self.storage_max)
        check_bounds(self, self.result, number(self.zero_point), low, high)
        behaviour = check_behaviour(self, self.behaviour.data)
        if behaviour is RequantizeBehaviour.FIXED16 and element_of(self.result) != i8:
            raise refusal(self, f"behaviour 'fixed16' has results of i8, but got '{self.result.type}'")
        shape, axis = shape_of(self.result), None if self.axis is None else number(self.axis)
        if axis is not None and not 0 <= axis < len(shape):
            raise refusal(self, f"axis must be in 0..{len(shape) - 1}, but got {axis}")
        channels = None if axis is None else shape[axis]
        check_multiplier(self, behaviour, self.multiplier, self.shift, channels)


@irdl_op_definition
class WeightedSumOp(IRDLOperation):
    """Adds storage integers of different scales with a single rounding.

    clamp(zero_point + (sum_i (x_i - zero_points[i]) * multipliers[i] + 2^(shift-1)) >> shift), in i32, shift 1 to 31.
    The factors must be small enough that no sum of the inputs' types leaves 32 bits.
    """

    name = "fxpmath.weighted_sum"
    inputs = var_operand_def()
    result = result_def()
    multipliers = prop_def(DenseArrayBase)
    zero_points = prop_def(DenseArrayBase)
    shift = prop_def(IntegerAttr)
    zero_point = prop_def(IntegerAttr)
    storage_min = prop_def(IntegerAttr)
    storage_max = prop_def(IntegerAttr)
    traits = traits_def(Pure())

    def __init__(
        self,
        inputs: Sequence[SSAValue],
        result_type: Attribute,
        parameters: CommonScaleSum,
    ):
        super().__init__(
            operands=[inputs],
            result_types=[result_type],
            properties={
                "multipliers": DenseArrayBase.from_list(i64, parameters.multipliers),
                "zero_points": DenseArrayBase.from_list(i64, parameters.zero_points),
                "shift": IntegerAttr(parameters.shift, i64),
                "zero_point": IntegerAttr(parameters.zero_point, i64),
                "storage_min": IntegerAttr(parameters.storage_min, i64),
                "storage_max": IntegerAttr(parameters.storage_max, i64),
            },
        )

    @property
    def sum(self) -> CommonScaleSum:
        """The op's computation as a `numerics` object."""
        return CommonScaleSum(
            array_values(self.multipliers),
            array_values(self.zero_points),
            number(self.shift),
            number(self.zero_point),
            number(self.storage_min),
            number(self.storage_max),
        )

    def verify_(self) -> None:
        """Check types, shapes, bounds, one factor and one zero point per input, and that every sum fits 32 bits."""
        if not self.inputs:
            raise refusal(self, "there must be at least one input, but got none")
        check_tensor(self, "result", self.result, (8, 16))
        for index, value in enumerate(self.inputs):
            check_tensor(self, f"input #{index}", value, (8, 16))
            check_same_shape(self, f"input #{index}", value, self.result)
        low, high = number(self.storage_min), number(self.storage_max)
        check_bounds(self, self.result, number(self.zero_point), low, high)
        for name, numbers in (("multipliers", self.multipliers), ("zero_points", self.zero_points)):
            check_factors(self, name, array_values(numbers), len(self.inputs))
        if not 1 <= number(self.shift) <= 31:
            raise refusal(self, f"shift must be in 1..31, but got {number(self.shift)}")
        check_sums(self, self.inputs, self.sum)


@irdl_op_definition
class TableOp(IRDLOperation):
    """Applies a function to storage integers by table lookup: result = table[x - minimum of x's type].

    The table has an entry for each number of the operand's type: 256 for 8 bits, 65,536 for 16.
    """

    name = "fxpmath.table"
    operand = operand_def()
    table = operand_def()
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, table: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand, table], result_types=[result_type])

    def verify_(self) -> None:
        """Check that the table has an entry of the result's type for each number of 8 or 16 bits."""
        check_table(self, self.operand, self.table, self.result)

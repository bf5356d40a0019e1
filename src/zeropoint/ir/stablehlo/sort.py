"""`sort`.

Source: the StableHLO specification; the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Block, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    opt_prop_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.attributes import ComparisonDirection, ComparisonType
from zeropoint.ir.stablehlo.bitwise import AndOp
from zeropoint.ir.stablehlo.elementwise import CompareOp
from zeropoint.ir.stablehlo.signatures import VARIADIC, OpSignature, SignatureOp, at_least_one, same_shape
from zeropoint.ir.tensors import element_of, shape_of

LAST_DIMENSION = -1
"""The default of `dimension`."""


@irdl_op_definition
class SortOp(SignatureOp):
    """Sorts the inputs together along `dimension`. The comparator takes the elements of all inputs at two positions and
    returns whether the first position comes before the second.

    ```mlir
    %0 = "stablehlo.sort"(%x) <{dimension = 0 : i64, is_stable = true}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
        stablehlo.return %less : tensor<i1>
    }) : (tensor<5xf32>) -> tensor<5xf32>
    ```
    """

    name = "stablehlo.sort"
    SIGNATURE: ClassVar[OpSignature] = OpSignature((VARIADIC,), VARIADIC, (at_least_one, same_shape))
    inputs = var_operand_def()
    results_ = var_result_def()
    dimension = opt_prop_def(IntegerAttr.constr(i64))
    is_stable = opt_prop_def(BoolAttr)
    comparator = region_def("single_block")
    traits = traits_def(Pure())

    def __init__(
        self, inputs: Sequence[SSAValue], comparator: Region, *, dimension: int = LAST_DIMENSION, stable: bool = False
    ):
        super().__init__(
            operands=[inputs],
            result_types=[[value.type for value in inputs]],
            properties={"dimension": IntegerAttr(dimension, i64), "is_stable": BoolAttr.from_bool(stable)},
            regions=[comparator],
        )

    def axis(self) -> int:
        """The sorted dimension, with a negative `dimension` counted from the last."""
        given = LAST_DIMENSION if self.dimension is None else int(self.dimension.value.data)
        return given % len(shape_of(self.inputs[0]))

    def verify_(self) -> None:
        """Check the constraints of `sort`: (C1), (C2), (C3) by the signature, (C4) and (C5)."""
        super().verify_()
        inputs = [value.type for value in self.inputs]
        rank = len(shape_of(inputs[0]))
        dimension = LAST_DIMENSION if self.dimension is None else int(self.dimension.value.data)
        if not -rank <= dimension < rank:
            raise VerifyException(
                f"dimension attribute value must be in range [-{rank}, {rank}), but found {dimension}"
            )
        block = self.comparator.block
        if len(block.args) != 2 * len(inputs):
            raise VerifyException(f"comparator block should have {2 * len(inputs)} arguments")
        for index, argument in enumerate(block.args):
            scalar = TensorType(element_of(inputs[index // 2]), [])
            if argument.type != scalar:
                raise VerifyException(
                    f"comparator block argument #{index} should be of type '{scalar}' but got '{argument.type}'"
                )
        returned = list(block.last_op.operand_types) if block.last_op is not None else []
        if len(returned) != 1:
            raise VerifyException(f"comparator must return single output but got {len(returned)}")
        if returned[0] != TensorType(i1, []):
            raise VerifyException(f"comparator must return tensor<i1> but got '{returned[0]}'")


@dataclass(frozen=True)
class SortKey:
    """The key of a simple comparator: the elements of one input."""

    input: int
    descending: bool
    total: bool
    """Whether floats are in total order, which includes NaN."""
    one_zero: bool
    """Whether -0 and 0 are equal; the total order has -0 first."""


def sort_key(comparator: Block) -> SortKey | None:
    """The key of a comparator; None if it is not one LT or GT of the two elements of one input.

    The `and` of such a comparison in total order with NE of the same two floats is the total order with one zero.
    """
    *ops, terminator = comparator.ops
    order = ops[0] if ops else None
    if not isinstance(order, CompareOp) or order.comparison_direction.data not in _ORDERS:
        return None
    total = order.compare_type is not None and order.compare_type.data is ComparisonType.TOTALORDER
    if len(ops) == 3 and total:
        differ, both = ops[1:]
        if not isinstance(differ, CompareOp) or not isinstance(both, AndOp) or not _differ(differ, order):
            return None
        if set(both.operands) != {order.result, differ.result}:
            return None
    elif len(ops) != 1:
        return None
    arguments: list[SSAValue] = list(comparator.args)
    if order.lhs not in arguments or order.rhs not in arguments or terminator.operands[0] is not ops[-1].results[0]:
        return None
    lhs, rhs = arguments.index(order.lhs), arguments.index(order.rhs)
    if lhs // 2 != rhs // 2 or lhs == rhs:
        return None
    greater = order.comparison_direction.data is ComparisonDirection.GT
    return SortKey(lhs // 2, greater != (lhs > rhs), total, len(ops) == 3)


_ORDERS = (ComparisonDirection.LT, ComparisonDirection.GT)


def _differ(op: CompareOp, order: CompareOp) -> bool:
    """Whether `op` tests if the floats of `order` differ, where -0 equals 0."""
    plain = op.compare_type is None or op.compare_type.data is ComparisonType.FLOAT
    return plain and op.comparison_direction.data is ComparisonDirection.NE and set(op.operands) == set(order.operands)


OPS = (SortOp,)

"""`sort`.

Source: the StableHLO specification; the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, i1, i64
from xdsl.ir import Region, SSAValue
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

from zeropoint.ir.stablehlo.signatures import VARIADIC, Signature, SignatureOp, at_least_one, same_shape
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
    SIGNATURE: ClassVar[Signature] = Signature((VARIADIC,), VARIADIC, (at_least_one, same_shape))
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


OPS = (SortOp,)

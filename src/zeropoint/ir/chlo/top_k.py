"""`chlo.top_k`.

Source: upstream's op definition of the chlo dialect; names and error messages are upstream's.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerAttr, TensorType, i32, i64
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo.elements import check_inferred
from zeropoint.ir.tensors import element_of, shape_of


@irdl_op_definition
class TopKOp(IRDLOperation):
    """The `k` greatest elements along the last dimension, greatest first, and their indices.

    ```mlir
    %values, %indices = chlo.top_k(%x, k = 2) : tensor<3x7xf32> -> (tensor<3x2xf32>, tensor<3x2xi32>)
    ```
    """

    name = "chlo.top_k"
    operand = operand_def()
    values = result_def()
    indices = result_def()
    k = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    assembly_format = (
        "`(` $operand `,` `k` `=` $k `)` attr-dict `:` type($operand) `->` `(` type($values) `,` type($indices) `)`"
    )

    def __init__(self, operand: SSAValue, k: int):
        shape = [*shape_of(operand)[:-1], k]
        super().__init__(
            operands=[operand],
            result_types=[TensorType(element_of(operand), shape), TensorType(i32, shape)],
            properties={"k": IntegerAttr(k, i64)},
        )

    def verify_(self) -> None:
        """Check that the last dimension has at least `k` elements, and the types of the results."""
        shape, count = shape_of(self.operand), int(self.k.value.data)
        if not shape:
            raise VerifyException("operand's rank must be at least 1")
        if shape[-1] != DYNAMIC_INDEX and shape[-1] < count:
            raise VerifyException(f"operand's last dimension must be at least {count}")
        found = [*shape[:-1], count]
        check_inferred([(found, element_of(self.operand)), (found, i32)], self.result_types)


OPS = (TopKOp,)

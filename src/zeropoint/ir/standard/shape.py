"""The ops of MLIR's shape dialect that represent the shape of an unranked tensor as a 1-D tensor of extents.

Source: MLIR's "'shape' Dialect" page; xDSL has no such dialect.
"""

from __future__ import annotations

from xdsl.dialects.builtin import DYNAMIC_INDEX, IndexType, TensorType
from xdsl.ir import Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

EXTENTS = TensorType(IndexType(), [DYNAMIC_INDEX])
"""The type of the extents of a tensor of unknown rank."""


@irdl_op_definition
class ShapeOfOp(IRDLOperation):
    """`shape.shape_of %x : tensor<*xf32> -> tensor<?xindex>`: the extents of a tensor."""

    name = "shape.shape_of"
    arg = operand_def()
    result = result_def()
    assembly_format = "$arg attr-dict `:` type($arg) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, arg: SSAValue):
        super().__init__(operands=[arg], result_types=[EXTENTS])


@irdl_op_definition
class NumElementsOp(IRDLOperation):
    """`shape.num_elements %extents : tensor<?xindex> -> index`: their product."""

    name = "shape.num_elements"
    shape = operand_def()
    result = result_def()
    assembly_format = "$shape attr-dict `:` type($shape) `->` type($result)"
    traits = traits_def(Pure())

    def __init__(self, shape: SSAValue):
        super().__init__(operands=[shape], result_types=[IndexType()])


@irdl_op_definition
class SplitAtOp(IRDLOperation):
    """`"shape.split_at"(%extents, %index)`: the extents before `index`, and the rest."""

    name = "shape.split_at"
    operand = operand_def()
    index = operand_def()
    head = result_def()
    tail = result_def()
    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, index: SSAValue):
        super().__init__(operands=[operand, index], result_types=[EXTENTS, EXTENTS])


Shape = Dialect("shape", [NumElementsOp, ShapeOfOp, SplitAtOp])

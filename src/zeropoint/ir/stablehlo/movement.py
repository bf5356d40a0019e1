"""Ops that move data: broadcast, reshape, transpose, concatenate, pad, slice.

Source: the StableHLO specification. Result types are inferred from the operands, per-layer quantized types included;
give `result_type` where a quantized axis moves.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure

from zeropoint.ir.stablehlo.arrays import I64_ARRAY, i64_array
from zeropoint.ir.stablehlo.assembly import SliceRanges, VariadicOperandWithAttribute
from zeropoint.ir.stablehlo.movement_checks import (
    check_broadcast_in_dim,
    check_concatenate,
    check_pad,
    check_reshape,
    check_slice,
    check_transpose,
)
from zeropoint.ir.stablehlo.signatures import check_signature
from zeropoint.ir.tensors import tensor_of


@irdl_op_definition
class BroadcastInDimOp(IRDLOperation):
    """Dimension i of the operand becomes dimension `broadcast_dimensions[i]` of the result; size 1 is repeated."""

    name = "stablehlo.broadcast_in_dim"
    operand = operand_def()
    result = result_def()
    broadcast_dimensions = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dims` `=` $broadcast_dimensions attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, result_type: Attribute, broadcast_dimensions: Sequence[int]):
        super().__init__(
            operands=[operand],
            result_types=[result_type],
            properties={"broadcast_dimensions": i64_array(broadcast_dimensions)},
        )

    def verify_(self) -> None:
        """Check the constraints of `broadcast_in_dim`."""
        check_signature(self)
        check_broadcast_in_dim(self)


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """The same elements in row-major order under another shape."""

    name = "stablehlo.reshape"
    operand = operand_def()
    result = result_def()
    traits = traits_def(Pure())
    assembly_format = "operands attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, result_type: Attribute):
        super().__init__(operands=[operand], result_types=[result_type])

    def verify_(self) -> None:
        """Check the constraints of `reshape`."""
        check_signature(self)
        check_reshape(self)


@irdl_op_definition
class TransposeOp(IRDLOperation):
    """Dimension i of the result is dimension `permutation[i]` of the operand."""

    name = "stablehlo.transpose"
    operand = operand_def()
    result = result_def()
    permutation = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = "$operand `,` `dims` `=` $permutation attr-dict `:` functional-type(operands, results)"

    def __init__(self, operand: SSAValue, permutation: Sequence[int], result_type: Attribute | None = None):
        if result_type is None:
            tensor = tensor_of(operand)
            shape = tensor.get_shape()
            result_type = TensorType(tensor.element_type, [shape[i] for i in permutation])
        super().__init__(
            operands=[operand], result_types=[result_type], properties={"permutation": i64_array(permutation)}
        )

    def verify_(self) -> None:
        """Check the constraints of `transpose`."""
        check_signature(self)
        check_transpose(self)


@irdl_op_definition
class ConcatenateOp(IRDLOperation):
    """The operands one after the other along `dimension`."""

    name = "stablehlo.concatenate"
    inputs = var_operand_def()
    result = result_def()
    dimension = prop_def(IntegerAttr.constr(i64))
    traits = traits_def(Pure())
    custom_directives = (VariadicOperandWithAttribute,)
    assembly_format = (
        "custom<VariadicOperandWithAttribute>($inputs) `dim` `=` $dimension attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, inputs: Sequence[SSAValue], dimension: int, result_type: Attribute | None = None):
        if result_type is None:
            shape = list(tensor_of(inputs[0]).get_shape())
            shape[dimension] = sum(tensor_of(value).get_shape()[dimension] for value in inputs)
            result_type = TensorType(tensor_of(inputs[0]).element_type, shape)
        super().__init__(
            operands=[inputs], result_types=[result_type], properties={"dimension": IntegerAttr(dimension, i64)}
        )

    def verify_(self) -> None:
        """Check the constraints of `concatenate`."""
        check_signature(self)
        check_concatenate(self)


@irdl_op_definition
class PadOp(IRDLOperation):
    """Surround and interleave the operand with a scalar; negative padding removes elements."""

    name = "stablehlo.pad"
    operand = operand_def()
    padding_value = operand_def()
    result = result_def()
    edge_padding_low = prop_def(I64_ARRAY)
    edge_padding_high = prop_def(I64_ARRAY)
    interior_padding = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    assembly_format = (
        "$operand `,` $padding_value `,` `low` `=` $edge_padding_low `,` `high` `=` $edge_padding_high `,` "
        "`interior` `=` $interior_padding attr-dict `:` functional-type(operands, results)"
    )

    def __init__(
        self,
        operand: SSAValue,
        padding_value: SSAValue,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] | None = None,
    ):
        tensor = tensor_of(operand)
        interior = [0] * len(low) if interior is None else interior
        shape = [
            size + lo + hi + max(size - 1, 0) * mid
            for size, lo, hi, mid in zip(tensor.get_shape(), low, high, interior, strict=True)
        ]
        super().__init__(
            operands=[operand, padding_value],
            result_types=[TensorType(tensor.element_type, shape)],
            properties={
                "edge_padding_low": i64_array(low),
                "edge_padding_high": i64_array(high),
                "interior_padding": i64_array(interior),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `pad`."""
        check_signature(self)
        check_pad(self)


@irdl_op_definition
class SliceOp(IRDLOperation):
    """The elements from `start_indices` (inclusive) to `limit_indices` (exclusive) in steps of `strides`."""

    name = "stablehlo.slice"
    operand = operand_def()
    result = result_def()
    start_indices = prop_def(I64_ARRAY)
    limit_indices = prop_def(I64_ARRAY)
    strides = prop_def(I64_ARRAY)
    traits = traits_def(Pure())
    custom_directives = (SliceRanges,)
    assembly_format = (
        "$operand custom<SliceRanges>($start_indices, $limit_indices, $strides) attr-dict `:` "
        "functional-type(operands, results)"
    )

    def __init__(self, operand: SSAValue, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]):
        tensor = tensor_of(operand)
        shape = [-(-(hi - lo) // step) for lo, hi, step in zip(start, limit, strides, strict=True)]
        super().__init__(
            operands=[operand],
            result_types=[TensorType(tensor.element_type, shape)],
            properties={
                "start_indices": i64_array(start),
                "limit_indices": i64_array(limit),
                "strides": i64_array(strides),
            },
        )

    def verify_(self) -> None:
        """Check the constraints of `slice`."""
        check_signature(self)
        check_slice(self)

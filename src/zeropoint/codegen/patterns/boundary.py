"""Ops that are a kernel by themselves: at the edges of a program, sums of stored integers, look-ups."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.patterns.match import Declined, Match
from zeropoint.codegen.values import Values
from zeropoint.ir.fxpmath import TableOp, WeightedSumOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import GatherOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.profile import DEFAULT_PROFILE, profile


def _bytes(*values: SSAValue) -> bool:
    return all(element_dtype(element_of(value)) == np.int8 for value in values)


def match_sum(values: Values, op: WeightedSumOp) -> Match | Declined:
    """A weighted sum of bytes."""
    if not _bytes(*op.inputs, op.result):
        return Declined("found elements other than i8")
    return Match("sum", (op.result,), tuple(dict.fromkeys(op.inputs)))


def match_table(values: Values, op: TableOp) -> Match | Declined:
    """A look-up from bytes to bytes."""
    entries = values.constant(op.table)
    if entries is None or entries.dtype != np.int8 or not _bytes(op.operand, op.result):
        return Declined("found elements other than i8, or a table that is computed")
    return Match("table", (op.result,), (op.operand,))


def match_quantize(values: Values, op: UniformQuantizeOp) -> Match | Declined:
    """Floats that are there already to stored integers."""
    type_ = element_of(op.result)
    if not isinstance(type_, UniformQuantizedType) or type_.is_per_channel:
        return Declined("found scales by channel")
    behaviour = profile(values.program.profile or DEFAULT_PROFILE).quantize
    if behaviour is not QuantizeBehaviour.RNE_AFTER_ZERO_POINT:
        return Declined(f"found rounding '{behaviour.value}'")
    if not values.has(op.operand):
        return Declined()  # what computes the floats quantizes them
    if element_dtype(element_of(op.operand)) != np.float32 or type_.storage.dtype != np.int8:
        return Declined("found elements other than f32 and i8")
    return Match("quantize", (op.result,), (op.operand,))


def match_express(values: Values, op: UniformDequantizeOp) -> Match | Declined:
    """Stored integers to the caller's floats."""
    type_ = element_of(op.operand)
    if not isinstance(type_, UniformQuantizedType) or type_.is_per_channel or not _bytes(op.operand):
        return Declined("found scales by channel, or elements other than i8")
    if values.output(op.result) is None or element_dtype(element_of(op.result)) != np.float32:
        return Declined()  # what reads the floats computes them
    if not values.has(op.operand):
        return Declined()
    return Match("dequantize", (op.result,), (op.operand,))


def match_gather(values: Values, op: GatherOp) -> Match | Declined:
    """Whole rows (of the first dimension) of a table."""
    dimensions = op.dimension_numbers.data
    table_shape, index_shape, result_shape = (shape_of(value) for value in (op.operand, op.start_indices, op.result))
    batch = len(index_shape) - (dimensions.index_vector_dim < len(index_shape))
    rows = (
        dimensions.collapsed_slice_dims == dimensions.start_index_map == (0,)
        and not dimensions.operand_batching_dims
        and (dimensions.index_vector_dim == len(index_shape) or index_shape[-1:] == (1,))
        and dimensions.index_vector_dim >= len(index_shape) - 1
        and dimensions.offset_dims == tuple(range(batch, len(result_shape)))
        and array_values(op.slice_sizes) == (1, *table_shape[1:])
        and batch > 0
    )
    if not rows:
        return Declined("found slices other than whole rows of the first dimension")
    if element_dtype(element_of(op.start_indices)).name not in ("int32", "int64"):
        return Declined(f"found indices of {element_of(op.start_indices)}, expected i32 or i64")
    inputs = (op.operand, op.start_indices)
    return Match("gather", (op.result,), tuple(v for v in inputs if values.constant(v) is None))

"""The pinned type of weights that a concatenation of constants makes."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.channel_scales import joined_scales
from zeropoint.ir.stablehlo import ConcatenateOp, ConstantOp, ConvolutionOp, DotGeneralOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import shape_of


def has_pins(op: ConcatenateOp) -> bool:
    """Whether an operand of a concatenation has pinned parameters."""
    return any(_pinned(value) is not None for value in op.inputs)


def joined_pin(op: ConcatenateOp) -> UniformQuantizedType | None:
    """The type of a concatenation of pinned constants; None if there is none.

    Constants of one type keep it. Others have a scale for each index of the concatenated dimension, if that is the
    dimension of the output channels wherever the result is read, because only weights have such scales.
    """
    kinds, axis = [_pinned(value) for value in op.inputs], op.dimension.value.data
    known = [kind for kind in kinds if kind is not None and kind.blocks is None]
    if len(known) != len(kinds):
        return None
    if len(set(known)) == 1 and known[0].axis != axis:
        return known[0]
    sizes = [shape_of(value)[axis] for value in op.inputs]
    return joined_scales(known, sizes, axis) if _is_of_channels(op.result, axis) else None


def _pinned(value: SSAValue) -> UniformQuantizedType | None:
    found = value.owner.attributes.get(PINNED) if isinstance(value.owner, ConstantOp) else None
    return found if isinstance(found, UniformQuantizedType) else None


def _is_of_channels(value: SSAValue, axis: int) -> bool:
    """Whether contractions read a value as weights, with output channels along `axis`, directly or transposed."""
    return bool(value.first_use) and all(_reads_channels(use.operation, value, axis) for use in value.uses)


def _reads_channels(reader: Operation, value: SSAValue, axis: int) -> bool:
    if isinstance(reader, TransposeOp):
        return _is_of_channels(reader.result, array_values(reader.permutation).index(axis))
    if isinstance(reader, ConvolutionOp) and reader.rhs is value is not reader.lhs:
        return axis == reader.dimension_numbers.data.kernel_output_feature_dimension
    if isinstance(reader, DotGeneralOp) and reader.rhs is value is not reader.lhs:
        numbers = reader.dot_dimension_numbers.data
        return axis not in (*numbers.rhs_contracting_dimensions, *numbers.rhs_batching_dimensions)
    return False

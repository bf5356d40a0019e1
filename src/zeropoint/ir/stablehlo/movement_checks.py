"""Constraints of the ops that move data, and the shapes of their results.

Source: the StableHLO specification, the constraints of each op; the sentences are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.stablehlo import quantization
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.elements import check_inferred, compatible_sizes
from zeropoint.ir.tensors import element_of, shape_of

if TYPE_CHECKING:
    from zeropoint.ir.stablehlo.movement import (
        BroadcastInDimOp,
        ConcatenateOp,
        PadOp,
        ReshapeOp,
        SliceOp,
        TransposeOp,
    )


def check_broadcast_in_dim(op: BroadcastInDimOp) -> None:
    """Check a broadcast_in_dim.

    Raises VerifyException.
    """
    operand, result = op.operand.type, op.result.type
    quantization.check_same_parameters_per_layer(operand, result)
    dimensions = array_values(op.broadcast_dimensions)
    sizes, result_sizes = shape_of(operand), shape_of(result)
    if len(dimensions) != len(sizes):
        raise VerifyException(
            f"broadcast_dimensions size ({len(dimensions)}) does not match operand rank ({len(sizes)})"
        )
    if len(set(dimensions)) < len(dimensions):
        raise VerifyException("broadcast_dimensions should not have duplicates")
    for index, (size, dimension) in enumerate(zip(sizes, dimensions, strict=True)):
        if not 0 <= dimension < len(result_sizes):
            raise VerifyException(
                f"broadcast_dimensions contains invalid value {dimension} for result with rank {len(result_sizes)}"
            )
        if size not in (DYNAMIC_INDEX, 1, result_sizes[dimension]):
            raise VerifyException(
                f"size of operand dimension {index} ({size}) is not equal to 1 or size of result dimension "
                f"{dimension} ({result_sizes[dimension]})"
            )
    quantization.check_broadcast_axis(operand, result, dimensions)


def check_reshape(op: ReshapeOp) -> None:
    """Check a reshape.

    Raises VerifyException.
    """
    operand, result = op.operand.type, op.result.type
    sizes, result_sizes = shape_of(operand), shape_of(result)
    if DYNAMIC_INDEX in sizes or DYNAMIC_INDEX in result_sizes:
        return
    if prod(result_sizes) != prod(sizes):
        raise VerifyException(
            f"number of output elements ({prod(result_sizes)}) doesn't match expected number of elements "
            f"({prod(sizes)})"
        )
    quantization.check_same_parameters(operand, result)
    quantization.check_reshape_axis(operand, result)


def check_transpose(op: TransposeOp) -> None:
    """Check a transpose.

    Raises VerifyException.
    """
    operand, result = op.operand.type, op.result.type
    permutation = array_values(op.permutation)
    sizes = shape_of(operand)
    if len(permutation) != len(sizes):
        raise VerifyException(
            f"TransposeOp operand rank {len(sizes)} does not match permutation size {len(permutation)}"
        )
    if sorted(permutation) != list(range(len(sizes))):
        raise VerifyException(
            f"attribute permutation must be a permutation of {list(range(len(sizes)))} but got "
            f"{', '.join(map(str, permutation))}"
        )
    check_inferred([([sizes[dim] for dim in permutation], element_of(operand))], [result])
    quantization.check_same_parameters(operand, result)
    quantization.check_transpose_axis(operand, result, permutation)


def check_concatenate(op: ConcatenateOp) -> None:
    """Check a concatenate.

    Raises VerifyException.
    """
    if not op.inputs:
        raise VerifyException("expected 1 or more operands, but found 0")
    dimension = op.dimension.value.data
    if dimension < 0:
        raise VerifyException(
            "attribute 'dimension' failed to satisfy constraint: "
            "64-bit signless integer attribute whose value is non-negative"
        )
    shapes = [shape_of(value) for value in op.inputs]
    first = shapes[0]
    if not first:
        raise VerifyException("rank-0 values cannot be concatenated")
    if dimension >= len(first):
        raise VerifyException(f"dimension {dimension} is out-of-bounds for input rank {len(first)}")
    for index, shape in enumerate(shapes):
        _check_concatenated(first, shape, index, dimension)
    sizes = [shape[dimension] for shape in shapes]
    inferred = list(first)
    inferred[dimension] = DYNAMIC_INDEX if DYNAMIC_INDEX in sizes else sum(sizes)
    check_inferred([(inferred, element_of(op.inputs[0].type))], op.result_types)


def _check_concatenated(first: Sequence[int], shape: Sequence[int], index: int, dimension: int) -> None:
    if len(shape) != len(first):
        raise VerifyException(f"operands (0) and ({index}) do not match rank")
    for dim, (expected, found) in enumerate(zip(first, shape, strict=True)):
        if dim != dimension and not compatible_sizes(expected, found):
            texts = [", ".join(map(str, sizes)) for sizes in (first, shape)]
            raise VerifyException(
                f"shapes of operand (0) and ({index}) are not compatible at non-concat index {dim}: "
                f"({texts[0]}) != ({texts[1]})"
            )


def check_pad(op: PadOp) -> None:
    """Check a pad.

    Raises VerifyException.
    """
    lists = [array_values(found) for found in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)]
    if len({len(found) for found in lists}) > 1:
        raise VerifyException(
            "failed to verify that all of {edge_padding_low, edge_padding_high, interior_padding} have same size"
        )
    sizes = shape_of(op.operand)
    if len(lists[0]) != len(sizes):
        raise VerifyException(f"edge_padding_low length ({len(lists[0])}) must match operand rank ({len(sizes)})")
    inferred: list[int] = []
    for index, (size, low, high, interior) in enumerate(zip(sizes, *lists, strict=True)):
        if interior < 0:
            raise VerifyException(f"Interior padding cannot be negative: {interior}")
        padded = DYNAMIC_INDEX if size < 0 else size + low + high + max(size - 1, 0) * interior
        if size >= 0 and padded < 0:
            raise VerifyException(f"Padding result in negative size for dimension {index}")
        inferred.append(padded)
    check_inferred([(inferred, element_of(op.operand))], op.result_types)


def check_slice(op: SliceOp) -> None:
    """Check a slice.

    Raises VerifyException.
    """
    lists = [array_values(found) for found in (op.start_indices, op.limit_indices, op.strides)]
    if len({len(found) for found in lists}) > 1:
        raise VerifyException("failed to verify that all of {start_indices, limit_indices, strides} have same size")
    sizes = shape_of(op.operand)
    if len(lists[0]) != len(sizes):
        raise VerifyException(
            f"the number of elements in start_indices ({len(lists[0])}) does not match the rank of the operand "
            f"({len(sizes)})"
        )
    inferred: list[int] = []
    for index, (size, start, limit, stride) in enumerate(zip(sizes, *lists, strict=True)):
        _check_range(size, start, limit, stride, index)
        inferred.append(-(-(limit - start) // stride))
    check_inferred([(inferred, element_of(op.operand))], op.result_types)


def _check_range(size: int, start: int, limit: int, stride: int, index: int) -> None:
    if start < 0:
        raise VerifyException(f"negative start index {start} in dimension {index}")
    if 0 <= size < limit:
        raise VerifyException(f"limit index {limit} is larger than dimension size {size} in dimension {index}")
    if start > limit:
        raise VerifyException(f"start index {start} is larger than limit index {limit} in dimension {index}")
    if stride <= 0:
        raise VerifyException(f"stride must be positive but got {stride} in dimension {index}")

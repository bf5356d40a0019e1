"""Values that are repeated along dimensions: BROADCAST_TO, or nothing where the operators that read them repeat."""

from __future__ import annotations

from collections.abc import Container, Sequence

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.ir.core import Use

from zeropoint.export.kernels import ExportKernel
from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.constants import is_constant
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import BroadcastInDimOp
from zeropoint.ir.tensors import shape_of

REPEATING = frozenset({"add", "maximum", "minimum", "multiply", "squared_difference", "subtract"})
"""The kernels whose operators repeat a smaller operand."""
MOST_DIMENSIONS = 4
"""The rank up to which all of these operators do so."""


MOST_FLOAT_DIMENSIONS = 6
"""The rank up to which operators on floats do so."""
BROADCAST_DIMENSIONS = 8
"""The most dimensions that BROADCAST_TO takes (LiteRT 2.3.0, `kernels/broadcast_to.cc`)."""


def broadcast(kernel: ExportKernel, emit: LitertEmission) -> None:
    """RESHAPE to the rank of the result, and BROADCAST_TO unless every reader repeats its operand."""
    op, (result,) = kernel.first(BroadcastInDimOp), kernel.region.outputs
    source = emit.operand(kernel.region.inputs[0], kernel.specs[0])
    source = emit.reshaped(source, op.aligned_shape, kernel.specs[0])
    if kernel.specs[0] == kernel.output_spec and all(_is_repeated(use) for use in result.uses):
        emit.alias(result, kernel.output_spec, source)
        return
    repeated(emit, source, emit.declare(result, kernel.output_spec), kernel.specs[0])


def repeated(emit: LitertEmission, source: int, result: int, kind: Attribute) -> None:
    """BROADCAST_TO one tensor of elements of a type into another of the same rank.

    With more dimensions than it takes, neighbours that are all repeated, or all kept, are one dimension in between. If
    that leaves too many, the first half of the dimensions is repeated before the others.
    """
    tensors = emit.builder.tensors
    sizes, shape = list(tensors[source].shape), list(tensors[result].shape)
    if len(shape) <= BROADCAST_DIMENSIONS:
        emit.operator("BROADCAST_TO", [source, emit.integers(shape)], [result], ("BroadcastToOptions", {}), 2)
        return
    name, grouped = tensors[source].name.decode(), _grouped(sizes, shape)
    if len(grouped) > BROADCAST_DIMENSIONS:
        half = len(shape) // 2
        between = emit.temporary(name, shape[:half] + sizes[half:], kind)
        repeated(emit, source, between, kind)
        repeated(emit, between, result, kind)
        return
    wide = emit.temporary(name, [after for _, after in grouped], kind)
    repeated(emit, emit.reshaped(source, [before for before, _ in grouped], kind), wide, kind)
    emit.reshape(wide, result)


def _grouped(sizes: Sequence[int], shape: Sequence[int]) -> list[tuple[int, int]]:
    """The sizes before and after, with neighbours that are all repeated, or all kept, as one, and without ones."""
    grouped: list[tuple[int, int]] = []
    for before, after in zip(sizes, shape, strict=True):
        if after == 1:
            continue
        if grouped and (grouped[-1][0] == grouped[-1][1]) == (before == after):
            first, second = grouped.pop()
            before, after = first * before, second * after
        grouped.append((before, after))
    return grouped


def _is_repeated(use: Use) -> bool:
    """Whether a reader repeats this operand: its other one has the shape of the result, as constants have in files."""
    reader = use.operation
    if not isinstance(reader, QuantizeRegionOp) or not reader.is_quantized:
        return False
    if reader.logical_kernel.data not in REPEATING or len(shape_of(reader.outputs[0])) > MOST_DIMENSIONS:
        return False
    (value, *others) = (reader.inputs[use.index], *(v for i, v in enumerate(reader.inputs) if i != use.index))
    reads_it = reader.input_specs.data[use.index] == _made_as(value)
    return reads_it and any(
        other is not value
        and (is_constant(other) or (shape_of(other) == shape_of(reader.outputs[0]) and not _is_broadcast(other)))
        for other in others
    )


def is_repeated_in_arithmetic(use: Use, arithmetic: Container[type[Operation]]) -> bool:
    """Whether a reader is one of these ops on floats, and its other operand has the shape of the result."""
    op = use.operation
    if type(op) not in arithmetic or len(shape_of(op.results[0])) > MOST_FLOAT_DIMENSIONS:
        return False
    others = [value for value in op.operands if value is not op.operands[use.index]]
    return bool(others) and not any(_is_broadcast(value) for value in others)


def _made_as(value: SSAValue) -> object:
    owner = value.owner
    return owner.output_specs.data[0] if isinstance(owner, QuantizeRegionOp) else None


def _is_broadcast(value: SSAValue) -> bool:
    owner = value.owner
    if isinstance(owner, QuantizeRegionOp):
        return owner.logical_kernel.data == "broadcast"
    return isinstance(owner, Operation) and isinstance(owner, BroadcastInDimOp)

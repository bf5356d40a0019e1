"""Products of two computed tensors as BATCH_MATMUL, whose first dimensions are batches and whose others are two.

Other dot_generals, such as those of einsum("bqhd,bkhd->bhqk"), get TRANSPOSE and RESHAPE around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute

from zeropoint.export.litert.emission import LitertEmission
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import shape_of


def matmul(
    op: DotGeneralOp, sides: Sequence[int], kinds: Sequence[Attribute], result: int, emit: LitertEmission
) -> None:
    """Multiply the tensors of both operands, of types `kinds[:2]`, into that of the result, of type `kinds[2]`."""
    numbers, shapes = op.dot_dimension_numbers.data, [shape_of(side) for side in (op.lhs, op.rhs)]
    batches = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    summed = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    rank = len(shapes[0])
    if batches == (tuple(range(rank - 2)),) * 2 and len(shapes[1]) == rank and len(summed[0]) == 1:
        _multiply(sides, summed[0] == (rank - 2,), summed[1] == (rank - 1,), result, emit)
        return
    free = [
        [axis for axis in range(len(shape)) if axis not in (*batch, *over)]
        for shape, batch, over in zip(shapes, batches, summed, strict=True)
    ]
    count, terms = (prod(shapes[0][axis] for axis in axes[0]) for axes in (batches, summed))
    sizes = [prod(shape[axis] for axis in axes) for shape, axes in zip(shapes, free, strict=True)]
    operands = [
        emit.reshaped(emit.transposed(side, [*batch, *axes, *over], kind), (count, size, terms), kind)
        for side, kind, batch, axes, over, size in zip(sides, kinds[:2], batches, free, summed, sizes, strict=True)
    ]
    made = emit.temporary(emit.builder.tensors[result].name.decode(), (count, *sizes), kinds[2])
    _multiply(operands, False, True, made, emit)
    emit.reshape(made, result)


def _multiply(sides: Sequence[int], left: bool, right: bool, result: int, emit: LitertEmission) -> None:
    """BATCH_MATMUL; `left` and `right` say that the terms of a side are not where those of a plain product are."""
    emit.operator("BATCH_MATMUL", sides, [result], ("BatchMatMulOptions", {"adjX": left, "adjY": right}), 4)

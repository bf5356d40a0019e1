"""Products of two computed tensors as BATCH_MATMUL, whose first dimensions are batches and whose others are two.

Other dot_generals, such as those of einsum("bqhd,bkhd->bhqk"), get TRANSPOSE and RESHAPE around it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute

from zeropoint.export.litert.emission import LitertEmission
from zeropoint.export.reshaped_orders import moves_units
from zeropoint.ir.stablehlo import DotGeneralOp
from zeropoint.ir.tensors import shape_of

DIMENSIONS = 5
"""The most dimensions that BATCH_MATMUL takes (LiteRT 2.3.0, `kernels/batch_matmul.cc`)."""


def matmul(
    op: DotGeneralOp, sides: Sequence[int], kinds: Sequence[Attribute], result: int, emit: LitertEmission
) -> None:
    """Multiply the tensors of both operands, of types `kinds[:2]`, into that of the result, of type `kinds[2]`."""
    numbers, shapes = op.dot_dimension_numbers.data, [shape_of(side) for side in (op.lhs, op.rhs)]
    batches = numbers.lhs_batching_dimensions, numbers.rhs_batching_dimensions
    summed = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    rank = len(shapes[0])
    plain = batches == (tuple(range(rank - 2)),) * 2 and len(shapes[1]) == rank and len(summed[0]) == 1
    if plain and rank <= DIMENSIONS:
        _multiply(sides, summed[0] == (rank - 2,), summed[1] == (rank - 1,), result, emit)
        return
    free = [
        [axis for axis in range(len(shape)) if axis not in (*batch, *over)]
        for shape, batch, over in zip(shapes, batches, summed, strict=True)
    ]
    count, terms = (prod(shapes[0][axis] for axis in axes[0]) for axes in (batches, summed))
    sizes = [prod(shape[axis] for axis in axes) for shape, axes in zip(shapes, free, strict=True)]
    operands: list[int] = []
    first: list[bool] = []
    for side, kind, batch, axes, over, shape, size in zip(
        sides, kinds, batches, free, summed, shapes, sizes, strict=False
    ):
        leads = moves_units(shape, (*batch, *over, *axes)) and not moves_units(shape, (*batch, *axes, *over))
        order, matrix = ([*batch, *over, *axes], (terms, size)) if leads else ([*batch, *axes, *over], (size, terms))
        side = side if moves_units(shape, tuple(order)) else emit.transposed(side, order, kind)
        operands.append(emit.reshaped(side, (count, *matrix), kind))
        first.append(leads)
    made = _matrices(result, (count, *sizes), kinds[2], emit)
    _multiply(operands, first[0], not first[1], made, emit)
    if made != result:
        emit.reshape(made, result)


def _matrices(result: int, shape: tuple[int, ...], kind: Attribute, emit: LitertEmission) -> int:
    """The tensor of the result as matrices; the result itself if that is its shape."""
    tensor = emit.builder.tensors[result]
    return result if tuple(tensor.shape) == shape else emit.temporary(tensor.name.decode(), shape, kind)


def _multiply(sides: Sequence[int], left: bool, right: bool, result: int, emit: LitertEmission) -> None:
    """BATCH_MATMUL; `left` and `right` say that the terms of a side are not where those of a plain product are."""
    emit.operator("BATCH_MATMUL", sides, [result], ("BatchMatMulOptions", {"adjX": left, "adjY": right}), 4)

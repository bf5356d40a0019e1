"""Reductions: `linalg.reduce`, named poolings, and a `linalg.generic` for other windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.dialects.linalg.ops import ReduceOp, YieldOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.standard.linalg import PoolingNchwMaxOp, PoolingNchwSumOp
from zeropoint.ir.tensors import shape_of
from zeropoint.ir.window_padding import padding_of
from zeropoint.standard.bodies import scalar_results
from zeropoint.standard.contractions import pair
from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.lowering import Standard
from zeropoint.standard.movement import padded
from zeropoint.standard.scalars import GenericBody


def _inits(std: Standard, op: hlo.ReduceOp | hlo.ReduceWindowOp) -> list[SSAValue]:
    """The results filled with the initial values."""
    return [
        std.filled_with(shape_of(result), std.scalar(init))
        for result, init in zip(op.results_, op.init_values, strict=True)
    ]


def _body(std: Standard, op: hlo.ReduceOp | hlo.ReduceWindowOp, ignored: int) -> Block:
    """The op's body on scalars. Its arguments are the elements, then `ignored` unused ones, then the totals."""
    elements = [scalar_type(op, result) for result in op.results_]
    block = Block(arg_types=[*elements, *elements[:1] * ignored, *elements])
    count = len(elements)
    body, given = GenericBody(0, op.location, block), [*block.args[count + ignored :], *block.args[:count]]
    block.add_op(YieldOp(*scalar_results(std, op, op.body.block, body, given)))
    return block


def lower_reduce(std: Standard, op: hlo.ReduceOp) -> SSAValue:
    """`linalg.reduce` into a tensor filled with the initial value."""
    dimensions = DenseArrayBase.from_list(i64, sorted(array_values(op.dimensions, ())))
    (init,), value = _inits(std, op), std.value(op.inputs[0])
    return std.insert(ReduceOp(value, init, dimensions, Region(_body(std, op, 0)))).result[0]


_POOLINGS = {"stablehlo.add": PoolingNchwSumOp, "stablehlo.maximum": PoolingNchwMaxOp}


def lower_reduce_window(std: Standard, op: hlo.ReduceWindowOp) -> Sequence[SSAValue]:
    """A named pooling over the last two of four dimensions, otherwise a generic."""
    rank = len(shape_of(op.inputs[0]))
    sizes = array_values(op.window_dimensions, ())
    strides, dilations = (array_values(found, (1,) * rank) for found in (op.window_strides, op.window_dilations))
    inits = _inits(std, op)
    values = [
        padded(std, std.value(value), partial(std.scalar, init), padding_of(op))
        for value, init in zip(op.inputs, op.init_values, strict=True)
    ]
    element = scalar_type(op, op.results_[0])
    first = op.body.block.first_op
    named = _POOLINGS.get(first.name) if first is not None and first.next_op is op.body.block.last_op else None
    spatial = rank == 4 and sizes[:2] == strides[:2] == (1, 1)
    # Named poolings compare signed integers.
    if named is not None and spatial and isinstance(element, IntegerType) and not is_unsigned(op.results_[0]):
        window = std.empty(sizes[2:], element)
        made = named(
            [values[0], window], inits, [inits[0].type], strides=pair(strides[2:]), dilations=pair(dilations[2:])
        )
        return std.insert(made).results
    return _general(std, op, (values, inits), (sizes, strides, dilations))


def _general(
    std: Standard,
    op: hlo.ReduceWindowOp,
    values: tuple[Sequence[SSAValue], Sequence[SSAValue]],
    window: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> Sequence[SSAValue]:
    """A generic with these loops: positions, then the dimensions of the window."""
    sizes, strides, dilations = window
    (inputs, inits), rank = values, len(sizes)
    loop = [AffineExpr.dimension(dim) for dim in range(2 * rank)]
    reads = [p * s + k * d for p, s, k, d in zip(loop[:rank], strides, loop[rank:], dilations, strict=True)]
    shape = std.empty(sizes, scalar_type(op, op.results_[0]))
    maps = [
        *[AffineMap(2 * rank, 0, tuple(reads))] * len(inputs),
        AffineMap(2 * rank, 0, tuple(loop[rank:])),
        *[AffineMap(2 * rank, 0, tuple(loop[:rank]))] * len(inits),
    ]
    return std.reductions([*inputs, shape], inits, _body(std, op, 1), (maps, rank, rank))

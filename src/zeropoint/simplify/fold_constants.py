"""Evaluate ops whose operands are all constants: arithmetic, functions of one value, movement.

```mlir
%t = stablehlo.transpose %cst, dims = [1, 0] : (tensor<10x64xf32>) -> tensor<64x10xf32>
```
becomes a constant of type tensor<64x10xf32>. Broadcasts are not folded, because that would only make a constant larger.
The exceptions are broadcasts that a contraction uses, because its operand must be a constant or a computed value, and
those that are combined with a constant of the same size: the weights of a weight normalization, g * v / |v|. A function
of a broadcast constant is the broadcast of a constant, and so is a repeated number that is moved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, RewritePattern

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import broadcast_array, constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.functions import function_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    BroadcastInDimOp,
    ConstantOp,
    ConvertOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    ReduceOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.functions import UNARY
from zeropoint.simplify.statements import rewrite

FOLDERS: dict[type[Operation], Callable[[Operation, tuple[Array, ...]], Array | None]] = {
    AddOp: lambda _, operands: operands[0] + operands[1],
    BroadcastInDimOp: lambda op, operands: _broadcast(op, operands[0]),
    DivideOp: lambda _, operands: operands[0] / operands[1],
    MaximumOp: lambda _, operands: np.maximum(*operands),
    MinimumOp: lambda _, operands: np.minimum(*operands),
    MultiplyOp: lambda _, operands: operands[0] * operands[1],
    ReduceOp: lambda op, operands: _reduced(op, operands),
    ReverseOp: lambda op, operands: _reversed(op, operands[0]),
    SliceOp: lambda op, operands: _sliced(op, operands[0]),
    ReshapeOp: lambda op, operands: operands[0].reshape(shape_of(op.results[0])),
    SubtractOp: lambda _, operands: operands[0] - operands[1],
    TransposeOp: lambda op, operands: _transposed(op, operands[0]),
}


def _transposed(op: Operation, array: Array) -> Array:
    assert isinstance(op, TransposeOp)
    return array.transpose(op.permutation.get_values())


def _sliced(op: Operation, array: Array) -> Array:
    assert isinstance(op, SliceOp)
    bounds = (array_values(each) for each in (op.start_indices, op.limit_indices, op.strides))
    return array[tuple(slice(start, limit, step) for start, limit, step in zip(*bounds, strict=True))]


def _broadcast(op: Operation, array: Array) -> Array:
    assert isinstance(op, BroadcastInDimOp)
    shape = shape_of(op.result)
    sizes = dict(zip(op.broadcast_dimensions.get_values(), array.shape, strict=True))
    return np.broadcast_to(array.reshape([sizes.get(axis, 1) for axis in range(len(shape))]), shape)


def _reduced(op: Operation, operands: tuple[Array, ...]) -> Array | None:
    """A sum, maximum or minimum along dimensions; None for other bodies. Sums are rounded once."""
    assert isinstance(op, ReduceOp)
    combined = body_op(op.body)
    rule = None if combined is None or len(operands) != 2 else REDUCED.get(combined)
    array, start = operands[0], operands[-1]
    if rule is None or not array.size:
        return None
    found = rule.reduce(array.astype(np.float64), tuple(array_values(op.dimensions)))
    return rule(found, np.float64(start)).astype(array.dtype)


REDUCED: dict[type[Operation], np.ufunc] = {AddOp: np.add, MaximumOp: np.maximum, MinimumOp: np.minimum}


def _stays(op: Operation) -> bool:
    """Whether an op is a broadcast that no contraction uses."""
    if not isinstance(op, BroadcastInDimOp):
        return False
    return not any(isinstance(use.operation, ConvolutionOp | DotGeneralOp) for use in op.result.uses)


def _reversed(op: Operation, array: Array) -> Array:
    assert isinstance(op, ReverseOp)
    return np.flip(array, array_values(op.dimensions))


def _carry_pinned(op: TransposeOp | ReverseOp, folded: ConstantOp) -> None:
    """Keep a constant's pinned parameters after a transpose, with the axis permuted, or after a reverse.

    A reverse keeps them only if each element keeps its scale.
    """
    given = op.operand.owner
    pinned = given.attributes.get(PINNED) if isinstance(given, ConstantOp) else None
    if not isinstance(pinned, UniformQuantizedType):
        return
    if isinstance(op, ReverseOp):
        if pinned.axis in array_values(op.dimensions):
            return
    elif pinned.axis is not None:
        axis = op.permutation.get_values().index(pinned.axis)
        pinned = UniformQuantizedType.per_channel(pinned.storage, axis, pinned.scales, pinned.zero_points)
    folded.attributes[PINNED] = pinned


def _makes_floats(op: Operation) -> bool:
    """Whether an op gives floats. Integers convert exactly, or round to nearest as in NumPy."""
    return isinstance(element_of(op.results[0]), AnyFloat)


@dataclass
class FoldConstant(RewritePattern):
    """op(constants) -> constant."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fold one op that is in `FOLDERS`."""
        if isinstance(op, ConvertOp) or (isinstance(op, UnaryOp) and function_name(op) in UNARY):
            self._fold_function(op, rewriter)
            return
        folder = FOLDERS.get(type(op))
        if folder is None or _stays(op):
            return
        arrays = [constant_array(operand, self.weights) for operand in op.operands]
        if isinstance(op, BinaryOp) and any(array is not None for array in arrays):
            arrays = [broadcast_array(operand, self.weights) for operand in op.operands]
        known = tuple(array for array in arrays if array is not None)
        found = folder(op, known) if len(known) == len(arrays) and known[0].dtype.kind == "f" else None
        if found is None:
            return
        folded = constant_op(found, self.weights, location=op.location)
        if isinstance(op, TransposeOp | ReverseOp):
            _carry_pinned(op, folded)
        rewriter.replace(op, folded)

    def _fold_function(self, op: ConvertOp | UnaryOp, rewriter: PatternRewriter) -> None:
        """Fold a function of one value, computed as the interpreter does, or a conversion to floats."""
        spread = op.operand.owner if isinstance(op.operand.owner, BroadcastInDimOp) else None
        array = constant_array(op.operand if spread is None else spread.operand, self.weights)
        if array is None or not _makes_floats(op) or (array.dtype.kind != "f" and not isinstance(op, ConvertOp)):
            return
        dtype = element_dtype(element_of(op.result))
        found = array.astype(dtype) if isinstance(op, ConvertOp) else UNARY[function_name(op)](array)
        folded = constant_op(found, self.weights, location=op.location)
        if spread is None:
            rewriter.replace(op, folded)
            return
        wide = BroadcastInDimOp(folded.output, op.result.type, list(array_values(spread.broadcast_dimensions)))
        wide.location = op.location
        rewriter.replace(op, [folded, wide])


class FoldMoved(RewritePattern):
    """reshape, reverse, slice or transpose(broadcast(number)) -> broadcast(number)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Replace movement of elements that are all the same."""
        spread = op.operands[0].owner if isinstance(op, ReshapeOp | ReverseOp | SliceOp | TransposeOp) else None
        if isinstance(spread, BroadcastInDimOp) and not shape_of(spread.operand):
            made = BroadcastInDimOp(spread.operand, op.results[0].type, [])
            made.location = op.location
            rewriter.replace(op, made)


def fold_constants(program: Program) -> Program:
    """Fold all constants in one walk: an operand is folded before its user is reached."""
    program = program.for_change()
    rewrite(program, GreedyRewritePatternApplier([FoldMoved(), FoldConstant(program.weights)]))
    remove_dead_ops(program.entry)
    return program

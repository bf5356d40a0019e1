"""Evaluate ops whose operands are all constants and that only rearrange, select or negate them.

```mlir
%t = stablehlo.transpose %cst, dims = [1, 0] : (tensor<10x64xf32>) -> tensor<64x10xf32>
```
becomes a constant of type tensor<64x10xf32>. Broadcasts are not folded, because that would only make a constant larger.
The exceptions are broadcasts that a contraction uses, because its operand must be a constant or a computed value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConstantOp,
    ConvertOp,
    ConvolutionOp,
    DivideOp,
    DotGeneralOp,
    MultiplyOp,
    NegateOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    SqrtOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

FOLDERS: dict[type[Operation], Callable[[Operation, tuple[Array, ...]], Array]] = {
    AddOp: lambda _, operands: operands[0] + operands[1],
    BroadcastInDimOp: lambda op, operands: _broadcast(op, operands[0]),
    ConvertOp: lambda op, operands: operands[0].astype(element_dtype(element_of(op.results[0]))),
    DivideOp: lambda _, operands: operands[0] / operands[1],
    MultiplyOp: lambda _, operands: operands[0] * operands[1],
    NegateOp: lambda _, operands: -operands[0],
    ReverseOp: lambda op, operands: _reversed(op, operands[0]),
    SliceOp: lambda op, operands: _sliced(op, operands[0]),
    ReshapeOp: lambda op, operands: operands[0].reshape(shape_of(op.results[0])),
    SqrtOp: lambda _, operands: np.sqrt(operands[0]),
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
    """Whether an op converts to floats. Integers convert exactly, or round to nearest as in NumPy."""
    return isinstance(op, ConvertOp) and isinstance(element_of(op.result), AnyFloat)


@dataclass
class FoldConstant(RewritePattern):
    """op(constants) -> constant."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fold one op that is in `FOLDERS`."""
        folder = FOLDERS.get(type(op))
        if folder is None or _stays(op):
            return
        arrays = [constant_array(operand, self.weights) for operand in op.operands]
        known = tuple(array for array in arrays if array is not None)
        if len(known) != len(arrays) or (known[0].dtype.kind != "f" and not _makes_floats(op)):
            return
        folded = constant_op(folder(op, known), self.weights, location=op.location)
        if isinstance(op, TransposeOp | ReverseOp):
            _carry_pinned(op, folded)
        rewriter.replace(op, folded)


def fold_constants(program: Program) -> Program:
    """Fold all constants in one walk: an operand is folded before its user is reached."""
    program = program.clone()
    rewrite(program, FoldConstant(program.weights))
    remove_dead_ops(program.entry)
    return program

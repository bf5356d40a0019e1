"""Evaluates ops whose operands are all constants: arithmetic, functions of one value, movement.

```mlir
%t = stablehlo.transpose %cst, dims = [1, 0] : (tensor<10x64xf32>) -> tensor<64x10xf32>
```
becomes a constant of type tensor<64x10xf32>. Broadcasts are not folded, because that would only make a constant larger,
with two exceptions: broadcasts that a contraction reads, because its operand must be a constant or a computed value,
and broadcasts that are combined with a constant of the same size, as in a weight normalization, g * v / |v|. A function
of a broadcast constant becomes the broadcast of a constant, and so does the movement of a broadcast number.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Operation
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, RewritePattern

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import broadcast_array, constant_array, constant_op, constant_reader
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.evaluation import function_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.channel_scales import reshaped_scales, reversed_scales, transposed_scales
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    ReduceOp,
    ReshapeOp,
    ReverseOp,
    SliceOp,
    TransposeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.joined_pins import has_pins, joined_pin
from zeropoint.simplify.statements import rewrite


def _made(function: Callable[[Array], Array], read: Callable[[], Array]) -> Array:
    """Read a constant and apply a function to it."""
    return function(read())


def _stays(op: Operation) -> bool:
    """Whether an op is a broadcast that no contraction reads."""
    if not isinstance(op, BroadcastInDimOp):
        return False
    return not any(isinstance(use.operation, ConvolutionOp | DotGeneralOp) for use in op.result.uses)


def _carry_pinned(op: ReshapeOp | TransposeOp | ReverseOp, folded: ConstantOp) -> None:
    """Give a moved constant the pinned parameters of the given one, whose scales move with the elements."""
    given = op.operand.owner
    pinned = given.attributes.get(PINNED) if isinstance(given, ConstantOp) else None
    if not isinstance(pinned, UniformQuantizedType):
        return
    if isinstance(op, ReverseOp):
        moved = reversed_scales(pinned, array_values(op.dimensions))
    elif isinstance(op, TransposeOp):
        moved = transposed_scales(pinned, op.permutation.get_values())
    else:
        moved = reshaped_scales(pinned, shape_of(op.operand), shape_of(op.result))
    if moved is not None:
        folded.attributes[PINNED] = moved


def _spread(op: Operation) -> BroadcastInDimOp | None:
    """The broadcast that an elementwise function reads; None for other ops."""
    spread = op.operands[0].owner if isinstance(op, UnaryOp) else None
    return spread if isinstance(spread, BroadcastInDimOp) else None


@dataclass
class FoldConstant(RewritePattern):
    """op(constants) -> constant, for arithmetic, reductions, concatenations and broadcasts."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fold one op."""
        if not isinstance(op, BinaryOp | BroadcastInDimOp | ConcatenateOp | ReduceOp) or _stays(op):
            return
        pinned = joined_pin(op) if isinstance(op, ConcatenateOp) else None
        if isinstance(op, ConcatenateOp) and has_pins(op) and pinned is None:
            return  # the result cannot have the pinned parameters of the operands
        arrays = [constant_array(operand, self.weights) for operand in op.operands]
        if isinstance(op, BinaryOp) and any(array is not None for array in arrays):
            arrays = [broadcast_array(operand, self.weights) for operand in op.operands]
        known = tuple(array for array in arrays if array is not None)
        function = function_of(op) if len(known) == len(arrays) and known[0].dtype.kind == "f" else None
        if function is None:
            return
        folded = constant_op(function(*known), self.weights, location=op.location)
        if pinned is not None:
            folded.attributes[PINNED] = pinned
        rewriter.replace(op, folded)


@dataclass
class FoldFunction(RewritePattern):
    """function(constant) -> constant of floats. A large one is computed again at each look-up."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fold one op. If it reads a broadcast constant, the result is broadcast instead."""
        folds = isinstance(op, ReshapeOp | ReverseOp | SliceOp | TransposeOp | UnaryOp)
        function, spread = function_of(op) if folds else None, _spread(op)
        if function is None or not isinstance(element_of(op.results[0]), AnyFloat):
            return
        read = constant_reader(op.operands[0] if spread is None else spread.operand, self.weights)
        array = None if read is None else read()
        if read is None or array is None or (array.dtype.kind != "f" and not isinstance(op, ConvertOp)):
            return
        folded = constant_op(function(array), self.weights, location=op.location, again=partial(_made, function, read))
        if isinstance(op, ReshapeOp | TransposeOp | ReverseOp):
            _carry_pinned(op, folded)
        if spread is None:
            rewriter.replace(op, folded)
            return
        wide = BroadcastInDimOp(folded.output, op.results[0].type, list(array_values(spread.broadcast_dimensions)))
        wide.location = op.location
        rewriter.replace(op, [folded, wide])


class FoldMoved(RewritePattern):
    """reshape, reverse, slice or transpose(broadcast(number)) -> broadcast(number)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Fold one op that moves a broadcast number."""
        spread = op.operands[0].owner if isinstance(op, ReshapeOp | ReverseOp | SliceOp | TransposeOp) else None
        if isinstance(spread, BroadcastInDimOp) and not shape_of(spread.operand):
            made = BroadcastInDimOp(spread.operand, op.results[0].type, [])
            made.location = op.location
            rewriter.replace(op, made)


def fold_constants(program: Program) -> Program:
    """A copy with folded constants. One walk is enough, because operands are folded before their users are visited."""
    program = program.for_change()
    patterns: list[RewritePattern] = [FoldMoved(), FoldFunction(program.weights), FoldConstant(program.weights)]
    rewrite(program, GreedyRewritePatternApplier(patterns))
    remove_dead_ops(program.entry)
    return program

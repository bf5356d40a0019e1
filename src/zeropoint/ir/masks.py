"""Values that are additive attention masks: -inf hides a score.

```mlir
func.func @main(%scores: ..., %mask: tensor<1x1x8x8xf32> {zeropoint.mask}, %causal: ... {zeropoint.mask}) -> ... {
  %0 = stablehlo.minimum %mask, %causal
  %1 = stablehlo.broadcast_in_dim %0 ...
  %2 = stablehlo.add %scores, %1
  %3 = stablehlo.reduce(%2 ...) applies stablehlo.maximum ...
  %4 = stablehlo.subtract %2, (broadcast of %3)
```
Masks may be moved, added to each other, scaled by a positive number, or combined by a minimum, a maximum or a
selection, before and after the sum with the scores.
"""

from __future__ import annotations

from math import inf

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.ir import Block, Operation, SSAValue, Use

from zeropoint.ir.annotations import MASK
from zeropoint.ir.constants import splat_value
from zeropoint.ir.program import NoEntry, Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ConcatenateOp,
    ConvertOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    ReduceOp,
    ReshapeOp,
    SelectOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights

HIDDEN = -1000.0
"""A number of an additive mask hides a score if it is at most this. Usual biases are not as low."""
MOVES = (BroadcastInDimOp, ConcatenateOp, ConvertOp, PadOp, ReshapeOp, SliceOp, TransposeOp)
COMBINES = (AddOp, MaximumOp, MinimumOp)


def combines_masks(use: Use, weights: Weights) -> bool:
    """Whether the reader of a mask computes another mask of it, or masked scores."""
    op = use.operation
    if isinstance(op, SelectOp):
        return use.index > 0
    if isinstance(op, MultiplyOp) or (isinstance(op, DivideOp) and use.index == 0):
        factor = splat_value(op.operands[1 - use.index], weights)
        return factor is not None and 0 < factor < inf
    return isinstance(op, (*MOVES, *COMBINES))


class Masks:
    """The values of a block that are only read to be added, combined or not, to the operand of a softmax."""

    def __init__(self, block: Block, weights: Weights):
        self._weights = weights
        self._added: dict[SSAValue, bool] = {}
        """Values that only softmaxes read, after combinations. True: every way to a softmax contains a sum."""
        for value in reversed([*block.args, *(result for op in block.ops for result in op.results)]):
            if _begins_softmax(value, [use.operation for use in value.uses]):
                self._added[value] = False
            elif (found := [self._way(use) for use in value.uses]) and None not in found:
                self._added[value] = all(found)

    def __contains__(self, value: SSAValue) -> bool:
        return self._added.get(value, False)

    def reads(self, use: Use) -> bool:
        """Whether one reader of a value takes it as a mask."""
        return self._way(use) is True

    def _way(self, use: Use) -> bool | None:
        results = use.operation.results
        behind = self._added.get(results[0]) if len(results) == 1 else None
        if behind is None or not combines_masks(use, self._weights):
            return None
        return behind or isinstance(use.operation, AddOp)


def _begins_softmax(value: SSAValue, readers: list[Operation]) -> bool:
    """Whether a value is the operand of a softmax: only a maximum, subtractions and comparisons read it."""
    greatest = [op for op in readers if isinstance(op, ReduceOp) and body_op(op.body) is MaximumOp]
    differences = [op for op in readers if isinstance(op, SubtractOp) and op.lhs is value]
    # A model may also test which scores are hidden: `scores == -inf`.
    asking = [op for op in readers if isinstance(op, CompareOp)]
    return bool(greatest) and bool(differences) and len(greatest) + len(differences) + len(asking) == len(readers)


def mark_masks(program: Program) -> Program:
    """Attach the attribute `MASK` to the float inputs of a program that are masks. Changes the program."""
    try:
        function, arguments = program.main, program.entry.args
    except NoEntry:
        return program
    given = function.arg_attrs
    known = [DictionaryAttr({})] * len(arguments) if given is None else given.data
    found = Masks(program.entry, program.weights)
    marks = [isinstance(element_of(argument), AnyFloat) and argument in found for argument in arguments]
    if any(marks):
        marked = [DictionaryAttr({**e.data, MASK: UnitAttr()}) if m else e for e, m in zip(known, marks, strict=True)]
        function.properties["arg_attrs"] = ArrayAttr(marked)
    return program

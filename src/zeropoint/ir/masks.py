"""Inputs of a program that are additive attention masks: -inf hides a score.

```mlir
func.func @main(%scores: ..., %mask: tensor<1x1x8x8xf32> {zeropoint.mask}) -> ... {
  %0 = stablehlo.broadcast_in_dim %mask ...
  %1 = stablehlo.add %scores, %0
  %2 = stablehlo.reduce(%1 ...) applies stablehlo.maximum ...
  %3 = stablehlo.subtract %1, (broadcast of %2)
```
"""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, DictionaryAttr, UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import MASK
from zeropoint.ir.program import NoEntry, Program
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    CompareOp,
    ConvertOp,
    MaximumOp,
    ReduceOp,
    ReshapeOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of

HIDDEN = -1000.0
"""A number of an additive mask hides a score if it is at most this. Usual biases are not as low."""
MOVES = (BroadcastInDimOp, ConvertOp, ReshapeOp, SliceOp, TransposeOp)


Known = dict[SSAValue, bool]
"""Maps values to whether they feed a softmax, so that a chain of sums is followed once, not from each of its inputs."""


def is_mask(value: SSAValue, known: Known) -> bool:
    """Whether every reader of a value adds it to the operand of a softmax."""
    moved = [value]
    for each in moved:
        readers = [use.operation for use in each.uses]
        moved += [reader.results[0] for reader in readers if isinstance(reader, MOVES)]
        sums = [reader for reader in readers if not isinstance(reader, MOVES)]
        if not readers or not all(isinstance(op, AddOp) and _feeds_softmax(op.result, known) for op in sums):
            return False
    return True


def _feeds_softmax(value: SSAValue, known: Known) -> bool:
    """Whether a value, after sums and reshapes, is the operand of a softmax."""
    chain: list[SSAValue] = []
    while value not in known:
        chain.append(value)
        readers = [use.operation for use in value.uses]
        if _begins_softmax(value, readers):
            known[value] = True
        elif len(readers) == 1 and isinstance(readers[0], ReshapeOp | AddOp):
            value = readers[0].results[0]
        else:
            known[value] = False
    known |= dict.fromkeys(chain, known[value])
    return known[value]


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
    seen: Known = {}
    found = [isinstance(element_of(argument), AnyFloat) and is_mask(argument, seen) for argument in arguments]
    if any(found):
        marked = [DictionaryAttr({**e.data, MASK: UnitAttr()}) if m else e for e, m in zip(known, found, strict=True)]
        function.properties["arg_attrs"] = ArrayAttr(marked)
    return program

"""What one op does with masked scores and with masks: it adds, selects, moves or scales them.

```mlir
%0 = "quant.region"(%mask, %causal) ({ minimum })      two masks combined
%1 = "quant.region"(%scores, %0) ({ add })             the masked scores: some are -1e9
%2 = "quant.region"(%1) ({ reshape })                  moved
%3 = "quant.region"(%2, %half) ({ multiply })          scaled: hidden scores are half as far below the visible ones
%4 = "quant.region"(%3, %bias) ({ add })               visible in [-2, 3]: a hidden score may come nearer by 5
%5 = "quant.region"(%4) ({ softmax })                  hides scores that are 8 below the others
```
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from math import prod

import numpy as np
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp, StatisticsOp
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConcatenateOp,
    ConstantOp,
    DivideOp,
    MaximumOp,
    MinimumOp,
    MultiplyOp,
    PadOp,
    ScatterOp,
    SelectOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

MOVES = ("broadcast", "gather", "reshape", "reverse", "slice", "transpose")
"""Kernels that move elements of their first operand."""
INSERTS = SelectOp | PadOp | ConcatenateOp | ScatterOp
"""Ops that write hidden scores beside visible ones."""


class MaskRule(Enum):
    """How a result is computed from terms."""

    SUM = "their sum"
    LEAST = "the least of them"
    GREATEST = "the greatest of them"
    ONE_OF = "each element is one of theirs"
    SCALED = "a positive multiple of one"


RULES: dict[type[Operation], MaskRule] = {AddOp: MaskRule.SUM, MinimumOp: MaskRule.LEAST, MaximumOp: MaskRule.GREATEST}


@dataclass(frozen=True)
class Term:
    """One of the values that an op combines: operand `index` of `holder`, the op itself or one inside the region."""

    holder: Operation
    index: int

    @property
    def value(self) -> SSAValue:
        """The value outside of the region, or the constant inside."""
        return self.holder.operands[self.index]


@dataclass(frozen=True)
class Combined:
    """What an op computes from masks and scores; `factor` is that of a scaled one."""

    rule: MaskRule
    terms: tuple[Term, ...]
    factor: float = 1.0


def combined(op: Operation, weights: Weights) -> Combined | None:
    """How an op combines its operands, directly or in a region with one result; None for any other op."""
    if not isinstance(op, QuantizeRegionOp):
        insert = combination(op, weights)
        return None if insert is None else Combined(MaskRule.ONE_OF, _inserted(insert, op))
    if len(op.outputs) != 1:
        return None
    steps = _steps(op, weights)
    if op.logical_kernel.data in MOVES:
        return Combined(MaskRule.ONE_OF, (Term(op, 0),))
    if not steps:
        return _only_clamped(op)
    if len(steps) > 1:
        return None
    (inner,) = steps
    if isinstance(inner, INSERTS):
        insert = combination(op, weights)
        return None if insert is None else Combined(MaskRule.ONE_OF, _inserted(insert, op))
    if isinstance(inner, MultiplyOp | DivideOp):
        return _scaled(op, inner, weights)
    return _of(RULES[type(inner)], inner, range(2), op) if type(inner) in RULES else None


def _only_clamped(region: QuantizeRegionOp) -> Combined | None:
    """A region that only broadcasts its operand, or raises numbers that are far below the scores."""
    clamps = [op for op in region.body.block.ops if isinstance(op, MaximumOp)]
    if len(clamps) == 1:
        return _of(MaskRule.GREATEST, clamps[0], range(2), region)
    return None if clamps else Combined(MaskRule.ONE_OF, (Term(region, 0),))


def _of(rule: MaskRule, inner: Operation, indices: Sequence[int], op: Operation) -> Combined:
    return Combined(rule, tuple(_term(inner, index, op) for index in indices))


def _inserted(insert: Operation, op: Operation) -> tuple[Term, ...]:
    """The values of which an insertion takes elements."""
    if isinstance(insert, SelectOp | ScatterOp):
        indices = (1, 2) if isinstance(insert, SelectOp) else (0, 2)
    else:
        indices = range(len(insert.operands))
    return tuple(_term(insert, index, op) for index in indices)


def _term(inner: Operation, index: int, op: Operation) -> Term:
    """The operand of a region that an inner op reads, directly or broadcast; else the operand of the inner op."""
    value = inner.operands[index]
    while isinstance(value.owner, BroadcastInDimOp) and inner is not op:
        value = value.owner.operand
    if inner is not op and isinstance(value, BlockArgument):
        return Term(op, value.index)
    return Term(inner, index)


def _scaled(region: QuantizeRegionOp, product: Operation, weights: Weights) -> Combined | None:
    """A region that multiplies or divides an operand by one positive number of ordinary size."""
    terms = [_term(product, index, region) for index in range(2)]
    given = [different_numbers(term.value, weights) for term in terms]
    scored = next((number for number, array in enumerate(given) if array is None), 0)
    factors = given[1 - scored]
    if isinstance(product, DivideOp) and scored:
        return None
    # One positive factor for all elements: a negative one would reverse the order of the scores, and different ones
    # would change their distances. A huge one makes a mask of ones and zeros.
    if factors is None or not factors.size or factors.min() != factors.max() or not 0 < factors.min() < -HIDDEN:
        return None
    factor = float(factors.flat[0])
    factor = 1.0 / factor if isinstance(product, DivideOp) else factor
    return Combined(MaskRule.SCALED, (terms[scored],), factor)


def combination(op: Operation, weights: Weights) -> Operation | None:
    """The op that adds a mask to scores or inserts hidden scores, directly or in a region; None for anything else."""
    if isinstance(op, ScatterOp):
        return op if _overwrites(op) else None
    if isinstance(op, INSERTS):
        return op
    inner = _steps(op, weights) if isinstance(op, QuantizeRegionOp) else []
    return inner[0] if len(inner) == 1 and isinstance(inner[0], AddOp | INSERTS) else None


def _overwrites(op: ScatterOp) -> bool:
    """Whether a scatter of one tensor replaces the elements at its positions."""
    block = op.update_computation.block
    last = block.last_op
    return len(op.inputs) == 1 and last is not None and list(last.operands) == [block.args[1]]


def _steps(region: QuantizeRegionOp, weights: Weights) -> list[Operation]:
    """The ops of a region that change visible scores: all but broadcasts and clamps far below the scores."""
    passing = BroadcastInDimOp | ConstantOp | ReturnOp | StatisticsOp
    return [op for op in region.body.block.ops if not isinstance(op, passing) and not _clamps_far(op, region, weights)]


def _clamps_far(op: Operation, region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether an op of a region only raises numbers that are low enough to hide a score."""
    if not isinstance(op, MaximumOp):
        return False
    found = [different_numbers(_term(op, index, region).value, weights) for index in range(2)]
    return any(array is not None and bool(array.size) and bool(array.max() <= HIDDEN) for array in found)


def numbers(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a float constant or of a broadcast scalar; None otherwise."""
    found = different_numbers(value, weights)
    if found is None or constant_array(value, weights) is not None:
        return found
    return np.full(shape_of(value), found.flat[0] if found.size else 0, found.dtype)


def different_numbers(value: SSAValue, weights: Weights) -> Array | None:
    """The array of a float constant, or the number of a broadcast scalar as an array of one element; None otherwise."""
    array = constant_array(value, weights)
    if array is None and (number := splat_value(value, weights)) is not None:
        # Once, because the value may be as large as an activation.
        array = np.full(min(1, prod(shape_of(value))), number, element_dtype(element_of(value)))
    return array if array is not None and array.dtype.kind == "f" else None

"""Keep values with hidden scores float if their readers do not hide them: a log softmax, other float ops, the caller.

```mlir
%0 = "quant.region"(%scores, %mask) ({ add })    observed in [-1e9, 5]
%1 = "quant.region"(%0) ({ log_softmax })        -1e9 and -2.1 side by side
```
A softmax makes hidden scores 0, so their numbers may be bounded (`bound_masks.py`). The results of a log softmax have
no such bound, and no scale for both. So it stays float, and so does everything between the mask and it. The same holds
for masked scores that float ops or the caller read. Hidden scores come from masks: constants of small and very
negative numbers that are added, and very negative constants that are inserted.
"""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.element_parts import MOVES
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant import ReturnOp as RegionReturnOp
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConstantOp, DivideOp, MultiplyOp, SubtractOp
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.masked_scores import INSERTS, combination, numbers
from zeropoint.targets.logical_kernels import BINARY, MOVEMENTS

WHY = "because it holds hidden scores, and its readers do not hide them"
HANDS_ON = (*MOVEMENTS, *BINARY)
"""Kernels that pass hidden scores on."""
LINEAR = AddOp | BroadcastInDimOp | ConstantOp | DivideOp | MultiplyOp | RegionReturnOp | SubtractOp
FAR = -1e4
"""The greatest number of a constant that counts as hiding a score; it is the usual one of networks in f16."""


def keep_hidden_results(program: Program, constraints: Constraints) -> None:
    """Keep values float that hold hidden scores and have readers that do not hide them, in place."""
    hidden: set[SSAValue] = set()
    for op in program.entry.ops:
        handed_on = _hands_on(op) and any(value in hidden for value in op.operands)
        if handed_on or _masks(op, program.weights):
            hidden.update(op.results)
    observed = {value for value, known in constraints.of_value.items() if (known.minimum or 0.0) <= HIDDEN}
    for op in program.entry.ops:
        region = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else ""
        if region == "log_softmax":
            _keep(op.operands[0], hidden | observed, constraints)
        elif isinstance(op, ReturnOp) or not (region or _hands_on(op)):
            for value in op.operands:
                _keep(value, hidden, constraints)


def _hands_on(op: Operation) -> bool:
    if isinstance(op, QuantizeRegionOp):
        return op.logical_kernel.data in HANDS_ON or all(isinstance(inner, LINEAR) for inner in op.body.block.ops)
    return isinstance(op, MOVES | INSERTS)


def _masks(op: Operation, weights: Weights) -> bool:
    """Whether an op adds a constant mask, or inserts very negative constants."""
    combines = combination(op, weights)
    if combines is None:
        return False
    found = [numbers(value, weights) for value in {*op.operands, *combines.operands}]
    return any(array is not None and _hides(array, adds=isinstance(combines, AddOp)) for array in found)


def _hides(array: Array, *, adds: bool) -> bool:
    """Whether some numbers hide scores; those that are added to the other scores are far from these."""
    far = array <= FAR
    return bool(far.any()) and (not adds or bool((far | (abs(array) < -HIDDEN)).all()))


def _keep(value: SSAValue, hidden: Collection[SSAValue], constraints: Constraints) -> None:
    """Keep a value float if it has hidden scores, and the values that it has them from."""
    pending = [value]
    while pending:
        value = pending.pop()
        known = constraints.of(value)
        if value not in hidden or known.pinned is not None or known.float_reason is not None:
            continue
        known.float_reason = WHY
        known.facts.append(Fact("quantize", "false", "default", WHY))
        if isinstance(value.owner, Operation) and _hands_on(value.owner):
            pending += value.owner.operands

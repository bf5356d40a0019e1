"""Keep values with hidden scores float if a reader does not hide them: a log softmax, other float ops, the caller.

```mlir
%0 = "quant.region"(%scores, %mask) ({ add })    observed in [-1e9, 5]
%1 = "quant.region"(%0) ({ log_softmax })        -1e9 and -2.1 side by side
```
A softmax maps hidden scores to 0, so their numbers may be bounded (`bound_masks.py`). The results of a log softmax have
no such bound, and no scale represents both hidden and visible ones. So the log softmax stays float, and so does
everything between the mask and it. The same holds for masked scores that float ops or the caller read. Hidden scores
come from masks. An added mask is a constant of small and very negative numbers; an inserted mask is a very negative
constant. Three more kinds of values stay float. The first is a sum with an infinite constant that could not be bounded,
whatever reads it, because no scale holds it. The second is rows of a constant table with -inf, and everything computed
from them until a kernel selects the maximum. The third is the operand of a function, such as an exponential, that gives
different results for a hidden score and the least visible one. A clamp whose lower bound is above both gives the same
result.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.bounds import Bounds
from zeropoint.ir.constants import constant_array
from zeropoint.ir.element_parts import MOVES
from zeropoint.ir.masks import HIDDEN
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.quant import ReturnOp as RegionReturnOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConstantOp,
    DivideOp,
    MultiplyOp,
    NegateOp,
    SelectOp,
    SubtractOp,
)
from zeropoint.ir.tensors import Array
from zeropoint.ir.weights import Weights
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.masks.masked_scores import INSERTS, combination, different_numbers
from zeropoint.targets.logical_kernels import BINARY, FUNCTIONS, MOVEMENTS

WHY = "because it holds hidden scores, and its readers do not hide them"
GATHERED = "because it holds -inf from a table, which no scale can represent"
SELECTS = ("max_pool", "maximum", "reduce_max", "relu")
"""Kernels whose results contain no -inf of an operand, because they select a larger number."""
HANDS_ON = (*MOVEMENTS, *BINARY)
"""Kernels that pass hidden scores on."""
LINEAR = AddOp | BroadcastInDimOp | ConstantOp | DivideOp | MultiplyOp | NegateOp | RegionReturnOp | SubtractOp
FAR = -1e4
"""Numbers of a constant up to this one count as hiding a score. Networks in f16 often use this number."""


def keep_hidden_results(program: Program, constraints: Constraints) -> bool:
    """Keep values with hidden scores float, in place, if a reader does not hide them. Returns whether there are any.

    Before calibration, the reach of a clamp is unknown, so more values are kept.
    """
    hidden: set[SSAValue] = set()
    for op in program.entry.ops:
        handed_on = _hands_on(op) and any(value in hidden for value in op.operands)
        if handed_on or _masks(op, program.weights):
            hidden.update(op.results)
    _keep_gathered(program, constraints)
    observed = {value for value, known in constraints.of_value.items() if (known.minimum or 0.0) <= HIDDEN}
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp) and _adds_infinity(op, program.weights):
            _keep(op.outputs[0], hidden, constraints)
        region = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else ""
        if region == "log_softmax":
            _keep(op.operands[0], hidden | observed, constraints)
        elif isinstance(op, QuantizeRegionOp) and _shows(op, program.weights, constraints):
            _keep(op.operands[0], hidden, constraints)
        elif isinstance(op, ReturnOp) or not (region or _hands_on(op)):
            for value in op.operands:
                _keep(value, hidden, constraints)
    return any(constraints.of(value).float_reason == WHY for value in hidden)


def _keep_gathered(program: Program, constraints: Constraints) -> None:
    """Keep rows of constant tables with -inf float, and the values that kernels compute from them."""
    infinite: set[SSAValue] = set()
    for op in program.entry.ops:
        if not isinstance(op, QuantizeRegionOp) or len(op.outputs) != 1 or op.logical_kernel.data in SELECTS:
            continue
        table = constant_array(op.inputs[0], program.weights) if op.logical_kernel.data == "gather" else None
        if any(value in infinite for value in op.inputs) or (table is not None and np.isneginf(table).any()):
            infinite.add(op.outputs[0])
            known = constraints.of(op.outputs[0])
            if known.pinned is None and known.float_reason is None:
                known.float_reason = GATHERED
                known.facts.append(Fact("quantize", "false", "default", GATHERED))


def _shows(region: QuantizeRegionOp, weights: Weights, constraints: Constraints) -> bool:
    """Whether a function of one value gives different results for a hidden score and for the least visible one."""
    if region.logical_kernel.data not in FUNCTIONS or _restores(region):
        return False
    bounds, least = Bounds(), constraints.of(region.inputs[0]).minimum
    steps = [op for op in region.body.block.ops if not isinstance(op, BroadcastInDimOp | ConstantOp | RegionReturnOp)]
    clamps = all([bounds.then(op, weights) for op in steps])
    return not clamps or least is None or bounds.low < least


def _restores(region: QuantizeRegionOp) -> bool:
    """Whether the results for hidden scores are overwritten after a function, by a select with the predicate that put
    them there (`simplify/restore_limits.py`)."""
    maker, value = unstated(region.inputs[0]).owner, region.outputs[0]
    while (use := value.get_unique_use()) is not None and isinstance(use.operation, StatisticsOp):
        value = use.operation.res
    if use is None or not isinstance(maker, Operation):
        return False
    selections = [_selection(op) for op in (maker, use.operation)]
    return None not in selections and selections[0] is selections[1]


def _selection(op: Operation) -> SSAValue | None:
    """The predicate of a select, directly or as the operand of a region; None for anything else."""
    select = next((inner for inner in op.walk() if isinstance(inner, SelectOp)), None)
    if select is None or not isinstance(op, QuantizeRegionOp):
        return None if select is None else select.pred
    holds = select.pred
    return op.inputs[holds.index] if isinstance(holds, BlockArgument) else None


def _hands_on(op: Operation) -> bool:
    if isinstance(op, QuantizeRegionOp):
        return op.logical_kernel.data in HANDS_ON or all(isinstance(inner, LINEAR) for inner in op.body.block.ops)
    return isinstance(op, MOVES | INSERTS)


def _masks(op: Operation, weights: Weights) -> bool:
    """Whether an op adds a constant mask or inserts very negative constants."""
    combines = combination(op, weights)
    if combines is None:
        return False
    found = [different_numbers(value, weights) for value in {*op.operands, *combines.operands}]
    return any(array is not None and _hides(array, adds=isinstance(combines, AddOp)) for array in found)


def _adds_infinity(region: QuantizeRegionOp, weights: Weights) -> bool:
    """Whether a region only adds a constant that contains -inf."""
    if not isinstance(combination(region, weights), AddOp):
        return False
    found = [different_numbers(value, weights) for value in region.inputs]
    return any(array is not None and bool(np.isneginf(array).any()) for array in found)


def _hides(array: Array, *, adds: bool) -> bool:
    """Whether an array hides scores. If it is added, all its other numbers must be small."""
    far = array <= FAR
    return bool(far.any()) and (not adds or bool((far | (abs(array) < -HIDDEN)).all()))


def _keep(value: SSAValue, hidden: Collection[SSAValue], constraints: Constraints) -> None:
    """Keep a value float if it has hidden scores, and the values that these come from."""
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

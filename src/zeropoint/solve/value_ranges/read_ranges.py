"""Narrow the range of a value to what its readers need.

```mlir
%c = ... convolution, observed in [-300, 300]
%s = "quant.region"(%c) ({ slice }) ...     observed in [-3, 3], the only reader: %c may saturate at [-3, 3]
```
A kernel that only moves or selects elements commutes with a clamp: `clamp(slice(x)) = slice(clamp(x))`, and
`clamp(maximum(a, b)) = maximum(clamp(a), clamp(b))`. So such a reader only needs its operand in the range of its
result. A slice or a gather drops the other elements. A max pool never returns values below its own minimum, and padding
with a very negative number before it does not change its result. If the result of a continuous function of one value is
narrowed, its operand is only needed where the function is within the narrowed range. Values outside saturate at the
same bound. An example is a negation between the padding and the max pool. All other readers need all of the observed
range.

A maximum or minimum that stays float compares its operands at their own scales, so it needs their whole ranges.
Example: `minimum(a, b)` with `a` in [-79, 71] and `b` in [-0.05, 0.05]. In steps of 0.31, an `a` that saturates at 0.05
is stored as 0, which hides every positive `b`. Which of them stay float is decided later. Ranges are then narrowed
again.

If a model has statistics only before and after such kernels, the values between them get the range that is read. Ranges
that the model or the user states are kept. Each reader of a float value quantizes it for itself, so each has its own
range (`ports.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from xdsl.ir import Block, Operation, SSAValue

from zeropoint.ir.annotations import Fact
from zeropoint.ir.functions import evaluate_chain
from zeropoint.ir.locations import written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.weights import Weights
from zeropoint.numerics.ranges import RealRange
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.value_constraint import STRENGTH, ValueConstraint
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

CALIBRATED = STRENGTH["calibrated"]
"""The strength of an observed range. Stronger ranges are kept."""
POINTS = 1025
"""The number of points at which a function is evaluated to find where it enters and leaves a range."""
REFINED = 3
"""The number of searches for each end. Each one refines the interval between two points of the one before."""


COMPARING = frozenset({"maximum", "minimum"})
"""Kernels that choose between elements of their operands by comparing them."""


def compares(op: Operation) -> bool:
    """Whether an op is a region whose kernel passes on the larger or the smaller of two elements."""
    return isinstance(op, QuantizeRegionOp) and len(op.inputs) > 1 and op.logical_kernel.data in COMPARING


def narrow_ranges(program: Program, constraints: Constraints, floats: Collection[Operation] = ()) -> None:
    """Narrow the observed ranges of a program's values, readers first, in place.

    `floats` has the comparing kernels that stay float. Earlier narrowing is undone first.
    """
    constraints.of_value.update(constraints.before_narrowing)
    constraints.before_narrowing.clear()
    block, narrowed = program.entry, set[SSAValue]()
    values = [*block.args, *(result for op in block.ops for result in op.results)]
    for value in reversed(values):
        known = constraints.get(value)
        if known is None and _passes_elements(value.owner):
            _take_over(value, constraints, floats)
        observed = None if known is None else _observed(known)
        if known is None or observed is None or known.coupled is not None or known.strength > CALIBRATED:
            continue
        taken = _union(
            [
                None
                if use.operation in floats
                else _taken_by(use.operation, observed, constraints, narrowed, program.weights)
                for use in value.uses
            ]
        )
        if taken is not None:
            low, high = max(observed[0], taken[0]), min(observed[1], taken[1])
            if observed != (low, high) and low <= high:
                narrowed.add(value)
                _narrow(value, constraints, low, high)


def _take_over(value: SSAValue, constraints: Constraints, floats: Collection[Operation]) -> None:
    """Give a value without statistics the range that its readers need, such as the maximum in a split clamp."""
    readers = [use.operation for use in value.uses]
    taken = _union([None if reader in floats else taken_by(reader, constraints) for reader in readers])
    if taken is not None:
        _narrow(value, constraints, *taken)


def _observed(known: ValueConstraint) -> RealRange | None:
    open_range = known.pinned is None and known.float_reason is None
    if not open_range or known.minimum is None or known.maximum is None:
        return None
    return known.minimum, known.maximum


def _taken_by(
    reader: Operation, observed: RealRange, constraints: Constraints, narrowed: Collection[SSAValue], weights: Weights
) -> RealRange | None:
    """The range that a reader needs of an operand observed in `observed`; None if it needs all of it."""
    found = taken_by(reader, constraints)
    if found is not None or not isinstance(reader, QuantizeRegionOp) or len(reader.inputs) != 1:
        return found
    known = constraints.get(reader.outputs[0]) if reader.outputs[0] in narrowed else None
    wanted = None if known is None else _observed(known)
    return None if wanted is None else _reaching(reader, wanted, observed, weights)


def _reaching(region: QuantizeRegionOp, wanted: RealRange, observed: RealRange, weights: Weights) -> RealRange | None:
    """The part of `observed` in which the function of a region is within `wanted`; None if it is not a function of one
    value.

    Each end is bracketed between neighbouring points, and the bracket is refined `REFINED` times.
    """
    block = region.body.block
    assert block.last_op is not None
    low, high = observed
    ends = [observed, observed]
    for _ in range(REFINED):
        for number, (first, last) in enumerate(ends):
            points = np.linspace(first, last, POINTS, dtype=np.float64).astype(np.float32)
            try:
                with np.errstate(all="ignore"):
                    made = evaluate_chain(block.last_op.operands[0], block.args[0], points, weights)
            except ValueError:
                return None
            inside = np.flatnonzero((made >= wanted[0]) & (made <= wanted[1]))
            if not inside.size:
                return None
            position = int(inside[-1] if number else inside[0])
            neighbours = (position, min(position + 1, POINTS - 1)) if number else (max(position - 1, 0), position)
            first, last = (float(points[index]) for index in neighbours)
            ends[number] = first, last
            low, high = (low, last) if number else (first, high)
    return low, high


def taken_by(reader: Operation, constraints: Constraints) -> RealRange | None:
    """The range that a reader needs of its operands, which is that of its results; None if it needs all of them."""
    if not isinstance(reader, QuantizeRegionOp) or not _passes_elements(reader):
        return None
    known = [constraints.get(result) for result in reader.outputs]
    return _union([None if one is None else _observed(one) for one in known])


def _passes_elements(op: Operation | Block) -> bool:
    return isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in PASSES_ELEMENTS


def _union(ranges: Sequence[RealRange | None]) -> RealRange | None:
    """The smallest range that contains all ranges; None if one is None or there are none."""
    found = [taken for taken in ranges if taken is not None]
    if not found or len(found) < len(ranges):
        return None
    return min(low for low, _ in found), max(high for _, high in found)


def _narrow(value: SSAValue, constraints: Constraints, low: float, high: float) -> None:
    known = constraints.of(value)
    constraints.before_narrowing[value] = replace(known, facts=[*known.facts])
    known.minimum, known.maximum, known.extremes = low, high, None
    known.quantiles = tuple(min(max(point, low), high) for point in known.quantiles)
    names = ", ".join(f"'{name}'" for name in sorted({written_name(use.operation.results[0]) for use in value.uses}))
    source = f"the part that its readers need: {names}"
    known.facts.append(Fact("range", f"[{low:g}, {high:g}]", "calibrated", source))

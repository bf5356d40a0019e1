"""Limit what a value was observed in to a demanded range of the value whose elements it has.

```mlir
%p = ... multiply, with a range of [-0.5, 0.5] from a recipe
%t = "quant.region"(%p) ({ transpose }) ...     observed in [-3, 11]: what it moves ends at -0.5 and 0.5
```
The kernel of the transpose has one type for both. Without the limit, that would be the type of [-3, 11], and the rule
would have no effect. The same holds for the range that the observer of a rule chose. A range that a rule demands for
the moved value itself is kept.
"""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import SSAValue

from zeropoint.ir.annotations import DEMANDS, Fact, facts_of
from zeropoint.ir.constants import is_constant
from zeropoint.ir.locations import written_name
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.kernel import ADDS_ELEMENTS, is_float
from zeropoint.solve.value_constraint import STRENGTH, ValueConstraint
from zeropoint.targets.logical_kernels import PASSES_ELEMENTS

MOVES = PASSES_ELEMENTS.difference(ADDS_ELEMENTS, ("concatenate", "maximum", "minimum", "pack", "select"))
"""Kernels whose results are elements of one operand, and of no constant."""


def limit_moved_ranges(program: Program, constraints: Constraints) -> None:
    """Limit the observed ranges of moved elements to demanded ones, definitions first, in place."""
    demanded: dict[SSAValue, SSAValue] = {
        value: value for value in program.entry.args if _is_stated(constraints.get(value))
    }
    for op in program.entry.ops:
        if not isinstance(op, QuantizeRegionOp):
            continue
        has_observer = any(fact.name == "observer" for fact in facts_of(op, DEMANDS))
        source = demanded.get(moved_operand(op) or op.outputs[0])
        for result in op.outputs:
            if has_observer or _is_stated(constraints.get(result)):
                demanded[result] = result
            elif source is not None:
                demanded[result] = source
                _limit(result, source, constraints)


def _is_stated(known: ValueConstraint | None) -> bool:
    """Whether the user states the range of a value, but not its type."""
    return known is not None and known.pinned is None and known.strength == STRENGTH["user"]


def moved_operand(region: QuantizeRegionOp) -> SSAValue | None:
    """The operand that has all elements of a region's results; None if there is none."""
    if region.logical_kernel.data not in MOVES:
        return None
    data = [value for value in region.inputs if is_float(value) and not is_constant(value)]
    return data[0] if len(data) == 1 else None


def _limit(value: SSAValue, source: SSAValue, constraints: Constraints) -> None:
    """Limit the range of a value to that of the one whose elements it has."""
    known, given = constraints.get(value), constraints.get(source)
    if known is None or known.minimum is None or known.maximum is None or known.pinned is not None:
        return
    if given is None or given.minimum is None or given.maximum is None:
        return
    low, high = (min(max(end, given.minimum), given.maximum) for end in (known.minimum, known.maximum))
    fact = Fact("range", f"[{low:g}, {high:g}]", "calibrated", f"what '{written_name(source)}' holds of it")
    # Wider types hold what an observer leaves out, but not what lies outside of a stated range.
    extremes = None if _is_stated(given) else known.extremes or (known.minimum, known.maximum)
    constraints.of_value[value] = replace(
        known,
        minimum=low,
        maximum=high,
        extremes=extremes,
        quantiles=tuple(min(max(point, low), high) for point in known.quantiles),
        facts=[*known.facts, fact],
    )

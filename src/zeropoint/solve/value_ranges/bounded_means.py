"""Widen the observed range of a mean of probabilities to what it can be, if that costs at most one bit.

```mlir
%p = "quant.region"(%x) ({ softmax }) ...                every result is in [0, 1]
%m = "quant.region"(%p) ({ mean over 4 windows }) ...    observed in [0, 0.6], can be in [0, 1]
```
The mean of a class over few windows is 1 if all windows agree. A few calibration samples may not show that, and other
samples would be cut, which costs more than a step of twice the size. If the observed range is less than half of what
the mean can be, then calibration is believed: such a mean is of so many elements that it hardly varies.
"""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.locations import named_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.regions import regions_of
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.value_constraint import ValueConstraint
from zeropoint.solve.value_ranges.moved_ranges import moved_operand

PROBABILITIES = ("logistic", "softmax")
"""Kernels whose results are in [0, 1]."""
MEANS = ("average_pool", "mean")
MOST = 2.0
"""The range that a mean can have is used if it is at most this many times as wide as the observed one."""


def widen_bounded_means(program: Program, constraints: Constraints) -> None:
    """Widen the ranges of means of probabilities and of values that have their elements, in place."""
    widened: dict[SSAValue, str] = {}
    for region in regions_of(program):
        if region.logical_kernel.data in MEANS:
            why = _probabilities(region.inputs[0])
        else:
            moved = moved_operand(region)
            why = None if moved is None else widened.get(unstated(moved))
        known = constraints.get(region.outputs[0])
        if why is None or (known is not None and not _is_near(known)):
            continue
        widened[region.outputs[0]] = why
        if known is not None and known.minimum is not None:
            known.observe(0.0, 1.0, "calibrated", why)


def _is_near(known: ValueConstraint) -> bool:
    """Whether what a mean of probabilities can be is at most `MOST` times as wide as its range, if that is known."""
    if known.minimum is None or known.maximum is None:
        return True
    # Other ranges are of regions that also compute something else.
    is_inside = known.minimum >= 0.0 and known.maximum <= 1.0
    return is_inside and MOST * known.maximum >= 1.0  # every range includes 0


def _probabilities(value: SSAValue) -> str | None:
    """Where the elements of a value come from, if they are probabilities; None otherwise."""
    maker = unstated(value).owner
    while isinstance(maker, QuantizeRegionOp) and (moved := moved_operand(maker)) is not None:
        maker = unstated(moved).owner
    if not isinstance(maker, QuantizeRegionOp) or maker.logical_kernel.data not in PROBABILITIES:
        return None
    return f"a mean of the probabilities of {named_kernel(maker.logical_kernel.data, maker.outputs[0])}"

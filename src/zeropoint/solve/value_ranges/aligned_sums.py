"""Give a value and its sum with a number one scale, of which the number is a multiple, so that the sum is exact.

```mlir
%e = ... erf or tanh, in [-1, 1]                  its step would be 2 / 255
%s = "quant.region"(%e, %one) ({ add })           in [0, 2]: 1 is 127.5 of these steps
```
Each sum would be in the middle of two results, and runtimes whose functions differ in the last bits would not round
alike. With steps of 1 / 127, every sum is one of the results. The scale is a little coarser than that of either range,
but only the operand is rounded to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor

from xdsl.ir import BlockArgument, SSAValue

from zeropoint.ir.constants import constant_array
from zeropoint.ir.locations import named_kernel
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.quant.statements import unstated
from zeropoint.ir.regions import regions_of
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.value_constraint import NARROW, STRENGTH, ValueConstraint

SUMS = ("add", "subtract")
STEPS = 2**NARROW - 1
Range = tuple[float, float]


def align_sums(program: Program, constraints: Constraints) -> None:
    """Widen the ranges of values that are only read by a sum with a number, and those of the sums, in place."""
    for region in regions_of(program):
        if region.logical_kernel.data not in SUMS or len(region.inputs) != 2:
            continue
        found = [(value, constant_array(value, program.weights)) for value in region.inputs]
        numbers = [float(array.reshape(())) for _, array in found if array is not None and array.size == 1]
        values = [value for value, array in found if array is None]
        if len(numbers) != 1 or len(values) != 1 or not _is_inside(values[0]):
            continue
        known = [constraints.get(value) for value in (values[0], region.outputs[0])]
        ranges = [given for each in known if each is not None and (given := _observed(each)) is not None]
        if len(ranges) == 2 and (aligned := _aligned(ranges, abs(numbers[0]))) is not None:
            why = f"steps of which the number in {named_kernel('a sum', region.outputs[0])} is a multiple"
            for each, (low, high) in zip(known, aligned, strict=True):
                assert each is not None
                each.observe(low, high, "calibrated", why)


def _is_inside(value: SSAValue) -> bool:
    """Whether a value is no input of the program, and has one reader."""
    source = unstated(value)
    return not isinstance(source, BlockArgument) and len(list(_readers(source))) == 1


def _readers(value: SSAValue) -> Iterator[object]:
    """The ops that read a value, also through statistics."""
    for use in value.uses:
        stated = [result for result in use.operation.results if unstated(result) is value]
        if isinstance(use.operation, QuantizeRegionOp) or not stated:
            yield use.operation
        else:
            for result in stated:
                yield from _readers(result)


def _observed(known: ValueConstraint) -> Range | None:
    """The range of a value with 0, if calibration observed it and nothing else decides its type."""
    if known.minimum is None or known.maximum is None or known.pinned is not None:
        return None
    if known.strength != STRENGTH["calibrated"] or known.float_reason is not None:
        return None
    return min(known.minimum, 0.0), max(known.maximum, 0.0)


def _aligned(ranges: list[Range], number: float) -> list[Range] | None:
    """The least ranges of one scale around two, where `number` is a multiple of the scale; None if they round more."""
    steps = [(high - low) / STEPS for low, high in ranges]
    count = floor(number / max(steps)) if all(steps) else 0
    while count > 0 and (number / count) ** 2 < sum(step**2 for step in steps):
        scale = number / count
        below = [ceil(-low / scale) for low, _ in ranges]
        found = [(-zero * scale, (STEPS - zero) * scale) for zero in below]
        if all(high <= end for (_, high), (_, end) in zip(ranges, found, strict=True)):
            return found
        count -= 1
    return None

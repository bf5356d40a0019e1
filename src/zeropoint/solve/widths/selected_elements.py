"""Find the floats whose whole part selects elements of a tensor: pixels around a position, rows of a table.

```mlir
%0 = stablehlo.floor %position : tensor<4xf32>
%1 = stablehlo.convert %0 : (tensor<4xf32>) -> tensor<4xi64>
%2 = "stablehlo.gather"(%table, %1) {...}
```
In a range of 370 rows, 8 bits of `%position` have steps of 1.5: they select the wrong rows. The SQNR of `%position`
says nothing about this. It is judged as the sign that alternates from element to element: interpolated if the position
has other readers, which compute the shares of the elements around it, otherwise that of the nearest element.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.builtin import AnyFloat, IntegerType
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.stablehlo import ConvertOp, DynamicSliceOp, GatherOp, IotaOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.ir.whole_numbers import SOURCES, float_operands
from zeropoint.solve.widths.distribution import RealFunction

NEAREST = 6.0
"""How many times finer positions without interpolation must be, so that the wrong element is as rare as noise is small.

Steps of s select another element with probability s/4, which costs twice the signal. Noise of s^2/12 costs
pi^2 s^2/12 of an interpolated sign. At 20 dB, s is 0.02 and 0.11.
"""


def alternating(positions: Array) -> Array:
    """A smooth function that is 1 at even positions and -1 at odd ones."""
    return np.cos(np.pi * positions)


def alternating_finely(positions: Array) -> Array:
    """What stands for `alternating` where the nearest element is selected."""
    return alternating(NEAREST * positions)


def selecting_floats(ops: list[Operation]) -> list[tuple[SSAValue, RealFunction]]:
    """The floats whose whole part selects elements, each with the function by which it is judged, in the order of
    `ops`."""
    todo = [value for op in ops for value in _selectors(op)]
    seen: set[SSAValue] = set()
    found: set[SSAValue] = set()
    while todo:
        value = todo.pop()
        maker = value.owner
        if value in seen or not isinstance(maker, Operation):
            continue
        seen.add(value)
        if isinstance(maker, ConvertOp) and isinstance(element_of(maker.operand), AnyFloat):
            found |= set(_positions(maker.operand))
        else:
            todo += [operand for operand in maker.operands if _is_integer(operand)]
    positions = dict.fromkeys(operand for op in ops for operand in op.operands if operand in found)
    return [(value, alternating if _is_interpolated(value) else alternating_finely) for value in positions]


def _is_interpolated(position: SSAValue) -> bool:
    return any(not isinstance(use.operation, (*SOURCES, ConvertOp)) for use in position.uses)


def _selectors(op: Operation) -> list[SSAValue]:
    """The integers by which an op selects elements."""
    if isinstance(op, GatherOp):
        return [op.start_indices]
    if isinstance(op, DynamicSliceOp):
        return [*op.start_indices]
    if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data == "gather":
        return [value for value in op.inputs if _is_integer(value)]
    return []


def _is_integer(value: SSAValue) -> bool:
    return isinstance(element_of(value), IntegerType)


def _positions(value: SSAValue) -> Iterator[SSAValue]:
    """The floats before the ops that round them to the whole numbers `value`; `value` itself if `convert` does it."""
    todo, seen, rounded = [value], set[SSAValue](), False
    while todo:
        maker = todo.pop().owner
        if not isinstance(maker, Operation) or isinstance(maker, QuantizeRegionOp):
            continue
        if isinstance(maker, SOURCES) and not isinstance(maker, IotaOp):
            rounded = True
            yield from maker.operands
        elif not isinstance(maker, SOURCES):
            todo += [operand for operand in float_operands(maker) if operand not in seen]
            seen |= set(float_operands(maker))
    if not rounded:
        yield value

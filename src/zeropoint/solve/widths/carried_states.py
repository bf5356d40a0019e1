"""Find the states that a program of one step reads from an input and returns, for the caller to give them back.

```mlir
func.func @main(%x, %state) {
  %h = quant.region "slice"(%state) ...                          the way in
  %d = quant.region "subtract"(%candidate, %h) ...
  %p = quant.region "multiply"(%gate, %d) ...
  %s = quant.region "add"(%h, %p) ...                            the state
  %r = quant.region "reshape"(%s) ...                            the way out
  return %y, %r
```

A state is a sum. One of its terms is a product with what comes from an input, by movements and differences. Movements
bring the sum to an output of that input's shape.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.solve.termination import PortNumber
from zeropoint.targets import OUTPUT
from zeropoint.targets.logical_kernels import MOVEMENTS

DIFFERENCES = 4
"""The number of kernels from a product to the state before: `z * (h - n)`, and what is moved in between."""


@dataclass(frozen=True)
class EdgeWay:
    """A way between a kernel and an edge of the program: the value there, and the kernels and ports between the two."""

    edge: SSAValue
    regions: tuple[QuantizeRegionOp, ...] = ()
    ports: tuple[PortNumber, ...] = ()

    def after(self, region: QuantizeRegionOp, index: int) -> EdgeWay:
        """This way from an input, which then passes operand `index` of a region."""
        return EdgeWay(self.edge, (*self.regions, region), (*self.ports, (region, index), (region, OUTPUT)))


def is_step(program: Program) -> bool:
    """Whether a program may have states: at least two inputs, because something else changes the state."""
    return sum(isinstance(element_of(value), AnyFloat) for value in program.entry.args) > 1


def ways_in(region: QuantizeRegionOp, left: int = DIFFERENCES) -> Iterator[EdgeWay]:
    """The ways from inputs to the operands of a region, by movements and differences."""
    for index, value in enumerate(region.inputs):
        while isinstance(value.owner, StatisticsOp):
            value = value.owner.arg
        if isinstance(value.owner, Block):
            yield EdgeWay(value).after(region, index)
        elif left and isinstance(value.owner, QuantizeRegionOp):
            maker = value.owner
            if maker.logical_kernel.data in (*MOVEMENTS, "subtract"):
                yield from (way.after(region, index) for way in ways_in(maker, left - 1))


def ways_out(region: QuantizeRegionOp) -> Iterator[EdgeWay]:
    """The ways from the result of a region to outputs, by movements."""
    open_ = [(use, EdgeWay(region.outputs[0])) for use in region.outputs[0].uses]
    while open_:
        use, way = open_.pop()
        op = use.operation
        if isinstance(op, ReturnOp):
            yield EdgeWay(op.operands[use.index], way.regions, way.ports)
        elif isinstance(op, StatisticsOp):
            open_ += [(further, way) for further in op.results[0].uses]
        elif isinstance(op, QuantizeRegionOp) and op.logical_kernel.data in MOVEMENTS:
            open_ += [(further, way.after(op, use.index)) for further in op.outputs[0].uses]


def carried(state: QuantizeRegionOp, product: QuantizeRegionOp) -> tuple[list[EdgeWay], list[EdgeWay]]:
    """The ways in by which the product of a sum reads the state of the step before, and the ways out of the sum.

    Both are empty if the sum is no such state.
    """
    out = list(ways_out(state))
    shapes = {shape_of(way.edge) for way in out}
    given = {way.edge for way in ways_in(product) if shape_of(way.edge) in shapes}
    # In `h + z * (n - h)`, the sum reads the state without the product, too.
    found = [way for reader in (product, state) for way in ways_in(reader) if way.edge in given]
    shapes = {shape_of(edge) for edge in given}
    return found, [way for way in out if shape_of(way.edge) in shapes]

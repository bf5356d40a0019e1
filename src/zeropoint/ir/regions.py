"""Lists the kernels of a program before materialization."""

from __future__ import annotations

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp


def regions_of(program: Program) -> list[QuantizeRegionOp]:
    """The regions of the entry function, in order."""
    return [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]

"""The kernels that a target has for a float program, before any statistics: what `explain` says of a float model."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr

from zeropoint.calibrate import instrument
from zeropoint.fuse import fuse
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.simplify import simplify
from zeropoint.solve import wanted_statistics
from zeropoint.solve.name_kernels import name_kernels
from zeropoint.targets import Target


def with_open_kernels(program: Program, target: Target) -> Program:
    """A float program fused into kernels, with statistics requests, and with reasons for kernels that stay float."""
    if not any(isinstance(op, QuantizeRegionOp) for op in program.entry.ops):
        program = fuse(simplify(program), target)
    program = name_kernels(instrument(program, asks=wanted_statistics(target)))
    for op in program.entry.ops:
        if isinstance(op, QuantizeRegionOp) and op.logical_kernel.data not in target.by_kernel:
            reason = f"target {target.name} has no kernel '{op.logical_kernel.data}'"
            op.attributes.setdefault(FLOAT_REASON, StringAttr(reason))
    return program

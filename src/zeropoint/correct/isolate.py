"""A quantized kernel of a program as an integer program of its own: what the walk of both networks runs.

The kernel is materialized and lowered, with integers at its edges where it can; `zeropoint.ir.isolation` takes it out.
"""

from __future__ import annotations

from zeropoint.ir.isolation import isolated
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.lower import LoweringError, integer_io, integer_program
from zeropoint.materialize import materialize


def integer_form(program: Program, op: QuantizeRegionOp) -> Program:
    """A quantized kernel alone, as integers: the same as the same kernel in the whole program computes.

    Its inputs and outputs are storage integers; where a float op stands at an edge they are all real numbers.
    """
    lowered = integer_program(materialize(isolated(program, op)))
    try:
        return integer_io(lowered)
    except LoweringError:
        return lowered

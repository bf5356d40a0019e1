"""Extract a quantized kernel as a separate integer program, for the walk over both networks.

`zeropoint.ir.isolation` extracts the kernel. Then it is materialized and lowered, with integer inputs and outputs if
possible.
"""

from __future__ import annotations

from zeropoint.ir.isolation import isolated
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.ir.sequence import in_sequence
from zeropoint.lower import LoweringError, integer_io, integer_program
from zeropoint.materialize import materialize


def integer_form(program: Program, op: QuantizeRegionOp) -> Program:
    """A quantized kernel alone, as an integer program that gives the same results as the kernel in the whole program.

    Its inputs and outputs are storage integers, or all floats if one of them belongs to a float op.
    """
    lowered = in_sequence((lambda whole: isolated(whole, op), materialize, integer_program), program)
    try:
        return integer_io(lowered)
    except LoweringError:
        return lowered

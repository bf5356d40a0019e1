"""Float kernels that a runtime computes of integers, although no row of its table says so, get the types of what they
read and of what reads them.

Rows would give types to values that need none. What a runtime does with values that have types in any case is in other
keys of its table: contractions (`file_contractions.py`), functions of sums (`join_functions.py`) and of
contractions (`join_product_functions.py`), differences, and kernels of values with a scale per channel
(`cast_kernels.py`).
"""

from __future__ import annotations

from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.materialize.cast_kernels import BY_CHANNEL, take_cast_types
from zeropoint.materialize.file_contractions import FileContraction
from zeropoint.materialize.join_functions import JoinedFunction
from zeropoint.materialize.join_product_functions import join_function
from zeropoint.targets import Target


def take_types(program: Program, target: Target) -> Program:
    """A copy in which such kernels have types; the program itself if the target has none of them."""
    if not (target.unquantized_results or target.joins_functions or target.cast_kernels):
        return program
    program = program.for_change()
    for region in list(program.entry.ops):
        if not isinstance(region, QuantizeRegionOp) or region.parent is None:
            continue
        if (contraction := FileContraction.of(region, program.weights, target)) is not None:
            contraction.state(program, target)
        elif target.joins_functions and (joined := JoinedFunction.of(region, program.weights)) is not None:
            joined.replace(program)
        elif region.logical_kernel.data in (*target.cast_kernels, *(BY_CHANNEL if target.channel_scales else ())):
            take_cast_types(region, program.weights)
        if target.joins_functions:
            join_function(region, program)
    remove_dead_ops(program.entry)
    return program

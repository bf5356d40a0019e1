"""Lowering: from the quantized program to the integer program."""

from zeropoint.ir.program import Program
from zeropoint.ir.sequence import in_sequence
from zeropoint.lower.block_scales import expand_block_scales
from zeropoint.lower.context import LoweringError
from zeropoint.lower.float_casts import lower_float_casts
from zeropoint.lower.fold_bounds import fold_bounds
from zeropoint.lower.integer_io import integer_io
from zeropoint.lower.lower import lower
from zeropoint.lower.merge_sums import merge_sums

__all__ = [
    "LoweringError",
    "expand_block_scales",
    "fold_bounds",
    "integer_io",
    "integer_program",
    "lower",
    "lower_float_casts",
    "merge_sums",
]


def integer_program(program: Program, profile: str | None = None, zero_points: str | None = None) -> Program:
    """Run `lower`, then `merge_sums`, `fold_bounds` and `expand_block_scales`."""

    def lowered(program: Program) -> Program:
        return lower(program, profile, zero_points)

    return in_sequence((lowered, merge_sums, fold_bounds, expand_block_scales), program)

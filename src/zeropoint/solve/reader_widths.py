"""Find the values whose readers take nothing as narrow as their kernels usually give.

If every row of a reader takes at least 16 bits at an operand, such as a softmax of 16-bit scores, the kernel that
produces the operand gives so many, if the table has such a row. The operands of that row may then be wide as well, and
so on backwards. Without this, a value would be rounded to 8 bits and then rescaled to 16.

Source: the RFC on quantization transformations, section "Target Constraints": the storage of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp
from zeropoint.solve.termination import Port
from zeropoint.targets import DATA, OUTPUT, KernelRow, Target


def reader_widths(program: Program, target: Target) -> dict[Port, int]:
    """The least width in bits of the outputs, and of the operands of wide kernels, that readers require."""
    found: dict[Port, int] = {}
    for region in reversed(list(program.entry.ops)):
        if not isinstance(region, QuantizeRegionOp) or len(region.outputs) != 1:
            continue
        rows = target.by_kernel.get(region.logical_kernel.data, ())
        asked = found.get((region, OUTPUT), 0)
        rows = [row for row in rows if max(row.output.widths) >= asked]
        if not rows:
            found.pop((region, OUTPUT), None)
            continue
        for index, value in enumerate(region.inputs):
            least = _least(rows, index, asked)
            maker = value.owner
            if least > 8:
                found[region, index] = least
                if isinstance(maker, QuantizeRegionOp):
                    found[maker, OUTPUT] = max(least, found.get((maker, OUTPUT), 0))
    return found


def _least(rows: Sequence[KernelRow], index: int, asked: int) -> int:
    """The least width that some row takes at an operand; 0 for weights and for operands that are not quantized."""
    widths: list[int] = []
    for row in rows:
        rule = row.input_rule(index)
        if rule.role not in DATA:
            return 0
        shared = asked if (row.same_storage and rule.wildcard) or row.tied(index) else 0
        widths.append(min((width for width in rule.widths if width >= shared), default=0))
    return min(widths, default=0)

"""Find the storage that the readers of a value require if it has more than 8 bits, or a sign that others lack.

Rows of a table are in order of preference. The first fitting row of a reader may take more than 8 bits at an operand,
such as a softmax of 16-bit scores. The kernel that produces the operand then gives that storage, if the table has such
a row. The operands of that row may be wide, too, and so on backwards. Without this, a value would be rounded to 8 bits
and then rescaled to 16. A row that requires more than a producer can give is skipped if there is another one.

The same holds for i8 where a target's other kernels have u8: a product of two activations in OpenVINO, whose operands
are i8 with zero point 0.

Source: the RFC on quantization transformations, section "Target Constraints": the storage of the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, Storage
from zeropoint.ir.regions import regions_of
from zeropoint.solve.accumulators import sums_fit
from zeropoint.solve.constraints import Constraints
from zeropoint.solve.termination import PortNumber
from zeropoint.solve.zero_point_rows import zero_points_fit
from zeropoint.targets import DATA, OUTPUT, AtLeast, KernelRow, PortRule, SameScale, Target

Asked = Storage | AtLeast
"""The one storage that all readers require, or the least width."""
BYTE = 8


def reader_storages(program: Program, target: Target, constraints: Constraints) -> dict[PortNumber, Asked]:
    """The storages that readers require of the results of kernels, and wide kernels of their operands, by port."""
    regions = [region for region in regions_of(program) if len(region.outputs) == 1]
    rows = {region: _fitting(region, target, constraints) for region in regions}
    narrow: set[SSAValue] = set()  # results of kernels that give at most 8 bits
    for region in regions:
        if not any(_gives_wide(row, region, narrow) for row in rows[region]):
            narrow.add(region.outputs[0])
    found: dict[PortNumber, Asked] = {}
    for region in reversed(regions):
        asked = found.get((region, OUTPUT))
        able = _accepting(rows[region], asked)
        if not able:
            found.pop((region, OUTPUT), None)
            able, asked = rows[region], None
        elif isinstance(asked, Storage) and not able[0].output.accepts(asked):
            asked = found[region, OUTPUT] = AtLeast(asked.type.width)
        for index, wanted in _wanted(able, region, asked, narrow).items():
            found[region, index] = wanted
            maker = region.inputs[index].owner
            if isinstance(maker, QuantizeRegionOp):
                found[maker, OUTPUT] = _of_both(wanted, found.get((maker, OUTPUT)))
    return found


def _fitting(region: QuantizeRegionOp, target: Target, constraints: Constraints) -> list[KernelRow]:
    rows = target.by_kernel.get(region.logical_kernel.data, ())
    held = [row for row in rows if sums_fit(region, row)] or list(rows)
    return [row for row in held if zero_points_fit(region, row, constraints)] or held


def _gives_wide(row: KernelRow, region: QuantizeRegionOp, narrow: set[SSAValue]) -> bool:
    """Whether a row gives more than 8 bits. A row that moves data does so only if its operands have more."""
    moved = [value for index, value in enumerate(region.inputs) if _shares(row, index)]
    return max(row.output.widths) > BYTE and not any(value in narrow for value in moved)


def _shares(row: KernelRow, index: int) -> bool:
    """Whether operand `index` has the storage of the result."""
    return row.tied(index) or (row.same_storage and row.input_rule(index).wildcard)


def _accepting(rows: Sequence[KernelRow], asked: Asked | None) -> list[KernelRow]:
    """The rows that give the required storage. If no row gives it, the rows that give its width."""
    exact = [row for row in rows if row.output.accepts(asked)]
    if exact or not isinstance(asked, Storage):
        return exact
    return [row for row in rows if row.output.accepts(AtLeast(asked.type.width))]


def _wanted(
    rows: Sequence[KernelRow], region: QuantizeRegionOp, asked: Asked | None, narrow: set[SSAValue]
) -> dict[int, Asked]:
    """The storages that the preferred row requires of its operands.

    The preferred row is the first one whose operands can be wide, or the narrowest one if the kernel only moves data.
    """
    every = [_of_row(row, region, asked) for row in rows]
    if not rows:
        return {}
    if isinstance(rows[0].relation, SameScale):
        return min(every, key=lambda wanted: max(map(_width, wanted.values()), default=0))
    makes = (
        wanted
        for wanted in every
        if not any(_width(asked) > BYTE and region.inputs[index] in narrow for index, asked in wanted.items())
    )
    return next(makes, min(every, key=len))


def _of_row(row: KernelRow, region: QuantizeRegionOp, asked: Asked | None) -> dict[int, Asked]:
    found: dict[int, Asked] = {}
    for index in range(len(region.inputs)):
        rule = row.input_rule(index)
        wanted = _of_rule(rule, asked if _shares(row, index) else None)
        if rule.role in DATA and wanted is not None:
            found[index] = wanted
    return found


def _of_rule(rule: PortRule, shared: Asked | None) -> Asked | None:
    if not rule.wildcard:
        return rule.storage if rule.storage.type.width > BYTE or rule.zero_point is not None else None
    if min(rule.widths) > BYTE:
        return AtLeast(min(rule.widths))
    return shared if shared is not None and rule.accepts(shared) else None


def _of_both(first: Asked, second: Asked | None) -> Asked:
    if second is None or first == second:
        return first
    return AtLeast(max(_width(first), _width(second)))


def _width(asked: Asked) -> int:
    return asked.type.width if isinstance(asked, Storage) else asked.bits

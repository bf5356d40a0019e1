"""A unique name for every value that calibration may observe: keys of statistics, and names of kernels.

One op of the original model may become several kernels, as a GRU does. They all have its location. Here they are called
`gru`, `gru_1`, `gru_2`, in program order. A name depends on the program alone, not on which values a target observes;
statistics that are inserted later do not change it.
"""

from __future__ import annotations

from itertools import chain

from xdsl.ir import Block, Operation, OpResult, SSAValue

from zeropoint.ir.captured import captured
from zeropoint.ir.locations import location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, StatisticsOp, StatisticsRefOp
from zeropoint.ir.tensors import has_floats
from zeropoint.ir.value_names import Names

_STATISTICS = (StatisticsOp, StatisticsRefOp)


def result_names(program: Program, *, every_result: bool = False) -> dict[SSAValue, str]:
    """The names of arguments, of results of regions, and of other floats that a region reads, in program order.

    With `every_result`, the float results of all ops that depend on an argument are included. A name is that of the
    original model, or else that of the value in the text. `#index` follows if the op has several results, and a number
    if the name is taken.
    """
    names = Names()
    ports = zip(program.entry.args, program.inputs, strict=True)
    found: dict[SSAValue, str] = {argument: names.free(port.name) for argument, port in ports}
    varying = varying_values(program.entry)
    for op in program.entry.ops:
        # Statistics have the location of their operand and would take its name.
        if isinstance(op, _STATISTICS):
            continue
        for result in op.results:
            # Integers, such as the computed indices of a gather, are not observed and would take the name of the
            # kernel.
            is_named = has_floats(result) and (every_result or feeds_region(result))
            # Regions are named even if they read only constants: they are kernels, which the search for widths refers
            # to by name.
            if isinstance(op, QuantizeRegionOp) or (is_named and result in varying):
                found[result] = names.free(_result_name(result))
    return found


def varying_values(block: Block) -> set[SSAValue]:
    """The values that depend on an argument, also through the regions of an op; all others are constants."""
    varying: set[SSAValue] = set(block.args)
    for op in block.ops:
        if any(value in varying for value in chain(op.operands, captured(op.regions))):
            varying.update(op.results)
    return varying


def feeds_region(value: SSAValue) -> bool:
    """Whether a region reads a value, directly or through statistics of it."""
    users = [use.operation for use in value.uses]
    return any(isinstance(op, QuantizeRegionOp) or _passes_on(op) for op in users)


def _passes_on(op: Operation) -> bool:
    return isinstance(op, _STATISTICS) and feeds_region(op.results[0])


def _result_name(result: OpResult) -> str:
    op = result.op
    kind = op.logical_kernel.data if isinstance(op, QuantizeRegionOp) else op.name
    name = location_text(op.location) or result.name_hint or kind
    return name if len(op.results) == 1 else f"{name}#{result.index}"

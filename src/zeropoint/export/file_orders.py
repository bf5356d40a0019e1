"""Remove the transposes beside inputs and outputs that the importer of an exported file inserted.

```mlir
func.func @main(%x: tensor<1x4x6x6xf32> {zeropoint.file_order = array<i64: 0, 2, 3, 1>})
  %t = "quant.region"(%x) ({ transpose, dims = [0, 2, 3, 1] })
```
becomes
```mlir
func.func @main(%x: tensor<1x6x6x4xf32> {zeropoint.order = array<i64: 0, 2, 3, 1>})
```
A transpose that rounds leaves a rescale, unless its operand and its readers have its type.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.builder import Builder
from xdsl.dialects.func import ReturnOp as FunctionReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.export.movement_regions import rescale_region, transpose_region
from zeropoint.export.permuted import Permuted, inverse
from zeropoint.export.port_orders import reorder_arguments, return_reordered, stated_orders
from zeropoint.export.region_types import is_read_as, made_as
from zeropoint.export.reshaped_orders import DimensionOrder
from zeropoint.export.wanted_orders import permutation
from zeropoint.ir.annotations import FILE_ORDER
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp


def restore_file_orders(program: Program) -> Program:
    """The program with inputs and outputs in the order of its file. The transposes of the model stay."""
    program = program.clone()
    function, block, terminator = program.main, program.entry, program.entry.last_op
    assert isinstance(terminator, FunctionReturnOp)
    _take(program, stated_orders(function.arg_attrs, len(block.args), FILE_ORDER))
    orders = stated_orders(function.res_attrs, len(terminator.operands), FILE_ORDER)
    values = zip(terminator.operands, orders, strict=True)
    return_reordered(program, [None if order is None else _before_transpose(value, order) for value, order in values])
    remove_dead_ops(block)
    return program


def _take(program: Program, orders: Sequence[DimensionOrder | None]) -> None:
    """Take arguments in the given orders if only transposes to them read the arguments."""
    inserted: set[Operation] = set()
    for argument, order in zip(program.entry.args, orders, strict=True):
        for op in [use.operation for use in argument.uses]:
            if order is None or permutation(op) != order:
                continue
            if isinstance(op, QuantizeRegionOp) and not _is_read_in_its_type(op):
                op = _apart(op, order)
            inserted.add(op)
    reorder_arguments(program, inserted)


def _is_read_in_its_type(region: QuantizeRegionOp) -> bool:
    """Whether a transpose and every reader of it have one type: the readers do the rounding of the transpose."""
    spec = region.output_specs.data[0]
    return region.input_specs.data[0] == spec and is_read_as(region.outputs[0], spec)


def _apart(region: QuantizeRegionOp, order: DimensionOrder) -> QuantizeRegionOp:
    """Replace a transpose by a transpose and a rescale to the type of its result. Returns the transpose."""
    builder, specs = Builder(InsertPoint.before(region)), (region.input_specs.data[0], region.output_specs.data[0])
    moved = builder.insert(transpose_region(region.inputs[0], order, specs[0]))
    rounded = builder.insert(rescale_region(moved.outputs[0], *specs))
    for made in (moved, rounded):
        made.location = region.location
    rounded.attributes.update({**region.attributes, **rounded.attributes})
    region.outputs[0].replace_all_uses_with(rounded.outputs[0])
    Rewriter.erase_op(region)
    return moved


def _before_transpose(value: SSAValue, order: DimensionOrder) -> Permuted | None:
    """What a returned transpose reads, rescaled if the transpose rounds; None for any other value."""
    op = value.owner
    if not isinstance(op, Operation) or permutation(op) != inverse(order):
        return None
    operand = op.operands[0]
    if not isinstance(op, QuantizeRegionOp):
        return Permuted(operand, order)
    specs = op.input_specs.data[0], op.output_specs.data[0]
    if specs[0] == specs[1] == made_as(operand):
        return Permuted(operand, order)
    rounded = Builder(InsertPoint.before(op)).insert(rescale_region(operand, *specs))
    rounded.location = op.location
    rounded.attributes.update({**op.attributes, **rounded.attributes})
    return Permuted(rounded.outputs[0], order)

"""Ops with several results, most with a body: reductions of several operands, or by any body; sorting; barriers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import Attribute, Block, Operation, SSAValue

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.access import Access
from zeropoint.codegen.kernels.elements import Region
from zeropoint.codegen.kernels.folds import Fold
from zeropoint.codegen.kernels.sorting import Sort
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.copies import memory_form
from zeropoint.codegen.select.elementwise import ELEMENTWISE
from zeropoint.codegen.select.expression import Expression, half_of, scalar_type
from zeropoint.codegen.select.reductions import ORDER_ONLY, combiner
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import OptimizationBarrierOp, ReduceOp, SortOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of


def region_of(selection: Selection, op: Operation, block: Block, elements: Sequence[Attribute]) -> Region:
    """A body as instructions on its arguments, which have to be of these element types.

    Raises CodegenError for a body that converts at its edges, holds an op that is not elementwise, or takes a value
    from around it that is no number.
    """
    found = [element_of(argument) for argument in block.args]
    if found != list(elements) or any(isinstance(element, UniformQuantizedType) for element in found):
        raise CodegenError(
            f"{describe(op)}: found a body on {', '.join(map(str, found))} for elements "
            f"{', '.join(map(str, elements))}; native code has bodies on the same numbers (run it with the interpreter)"
        )
    last = block.last_op
    assert last is not None
    members = [inner for inner in block.ops if inner is not last]
    for inner in members:
        if type(inner) not in ELEMENTWISE and selection.splat(inner.results[0]) is None:
            raise CodegenError(f"{describe(op)}: found {inner.name} in its body; run it with the interpreter")
    expression = Expression(selection, frozenset(members), (), ELEMENTWISE)
    for n, argument in enumerate(block.args):
        expression.bind(argument, expression.step("argument", argument, (), n))
    region = expression.region([expression.value(value, ()) for value in last.operands])
    if any(i.op in ("read", "gather", "table") for i in region.body):
        raise CodegenError(f"{describe(op)}: found a body that reads values around it; run it with the interpreter")
    return region


def select_fold(selection: Selection, op: ReduceOp) -> None:
    """A reduction that `generic` has no form of. Raises NoKernel for others."""
    found = combiner(op) if len(op.inputs) == 1 else None
    if found is not None and (found[0] in ORDER_ONLY or not half_of(found[1])):
        raise NoKernel
    elements = [element_of(value) for value in (*op.inputs, *op.inputs)]
    region = region_of(selection, op, op.body.block, elements)
    shape, reduced = shape_of(op.inputs[0]), sorted(array_values(op.dimensions))
    kept = [d for d in range(len(shape)) if d not in reduced]
    order = [*kept, *reduced]
    values, starts = ([selection.view(value) for value in part] for part in (op.inputs, op.init_values))
    targets = [_target(selection, op, result) for result in op.results_]
    none = (0,) * len(reduced)
    kernel = Fold(
        (1, *(shape[d] for d in order)),
        len(reduced),
        tuple(_access(view, (0, *(view.strides[d] for d in order))) for view in values),
        tuple(_access(view, (0,) * (1 + len(order))) for view in starts),
        tuple(_access(view, (0, *view.strides, *none)) for view in targets),
        region,
    )
    if kernel.tasks(selection.isa):
        selection.graph.call(describe(op), kernel, [*values, *starts], targets)


def select_sort(selection: Selection, op: SortOp) -> None:
    """A stable sort along one dimension."""
    elements = [element for value in op.inputs for element in [element_of(value)] * 2]
    region = region_of(selection, op, op.comparator.block, elements)
    shape, axis = shape_of(op.inputs[0]), op.axis()
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    values = [selection.view(value) for value in op.inputs]
    targets = [_target(selection, op, result) for result in op.results_]
    reads, writes = (
        tuple(_access(view, (0, *(view.strides[d] for d in order))) for view in views) for views in (values, targets)
    )
    kernel = Sort((1, *(shape[d] for d in order)), reads, writes, region)
    if not kernel.tasks(selection.isa) * kernel.length:
        return
    positions = selection.dense((kernel.tasks(selection.isa), 2, kernel.length), np.dtype(np.int32))
    selection.graph.call(describe(op), kernel, values, [*targets, positions])


def select_barrier(selection: Selection, op: OptimizationBarrierOp) -> None:
    """The operands as they are: nothing moves across steps here."""
    for value, result in zip(op.inputs, op.results_, strict=True):
        selection.bind(result, selection.view(value))


def _target(selection: Selection, op: Operation, result: SSAValue) -> View:
    scalar_type(result)
    view = selection.output(result) or selection.target(op, result)
    selection.bind(result, view)
    return view


def _access(view: View, strides: tuple[int, ...]) -> Access:
    type_, form = memory_form(view)
    return Access(type_, strides, form)

"""Schedules ops with a region: reductions of several operands or with any body, and sorts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from xdsl.ir import Attribute, Block, Operation

from zeropoint.codegen.graph import View, matrix_view
from zeropoint.codegen.kernels.elements import Argument, Gather, Interpolate, Number, Read, Region
from zeropoint.codegen.kernels.folds import Fold
from zeropoint.codegen.kernels.sorting import Sort
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.schedule.body import Body
from zeropoint.codegen.schedule.elementwise import ELEMENTWISE, MOVEMENT
from zeropoint.codegen.schedule.expression import Expression, ExpressionScope, Indices, ScalarRule, scalar_type
from zeropoint.codegen.views import access_of
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConstantOp, ReduceOp, ReduceWindowOp, ScatterOp, SortOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_of, shape_of


def _constant(e: Expression, op: ConstantOp, _: Indices) -> int:
    """A number that a splat of floats does not give: NaN, an infinity, an integer beyond 2^53."""
    array = e.scope.values.constant(op.output)
    assert array is not None
    return e.step(Number(array.reshape(-1)[0].item()), op.output)


_RULES: Mapping[type[Operation], ScalarRule] = {
    **ELEMENTWISE,
    ConstantOp: _constant,
    StorageCastOp: MOVEMENT[StorageCastOp],
}


def region_of(scope: ExpressionScope, op: Operation, block: Block, elements: Sequence[Attribute]) -> Region:
    """The block as scalars of its arguments, which must have the given element types.

    Raises the errors of `region_and_tables`, and CodegenError for a body that looks up a table.
    """
    region, tables = region_and_tables(scope, op, block, elements)
    if tables:
        raise CodegenError(f"{describe(op)}: found a body that looks up a table; run it with the interpreter")
    return region


def region_and_tables(
    scope: ExpressionScope, op: Operation, block: Block, elements: Sequence[Attribute]
) -> tuple[Region, list[View]]:
    """The block as scalars of its arguments, and the tables that it looks up.

    Raises CodegenError if the arguments do not have the types `elements` or are quantized, if an op is not elementwise,
    or if the block captures a value that is not a constant number.
    """
    for result in op.results:
        scalar_type(result)
    found = [element_of(argument) for argument in block.args]
    if found != list(elements) or any(isinstance(element, UniformQuantizedType) for element in found):
        raise CodegenError(
            f"{describe(op)}: found a body on {', '.join(map(str, found))} for elements "
            f"{', '.join(map(str, elements))}; expected equal types, not quantized (run it with the interpreter)"
        )
    last = block.last_op
    assert last is not None
    members = [inner for inner in block.ops if inner is not last]
    for inner in members:
        if type(inner) not in _RULES and scope.values.constant(inner.results[0]) is None:
            raise CodegenError(f"{describe(op)}: found {inner.name} in its body; run it with the interpreter")
    expression = Expression(scope, frozenset([*members, *_captured(members)]), (), _RULES)
    for n, argument in enumerate(block.args):
        expression.bind(argument, expression.step(Argument(n), argument))
    region = expression.region([expression.value(value, ()) for value in last.operands])
    if any(isinstance(i.what, Read | Gather | Interpolate) for i in region.body):
        raise CodegenError(f"{describe(op)}: found a body that reads outer values; run it with the interpreter")
    return region, expression.operands


def _captured(members: Sequence[Operation]) -> list[Operation]:
    """The constant numbers before the op that its body reads, as writers of StableHLO move them out of it."""
    read = (value.owner for inner in members for value in inner.operands)
    return [owner for owner in read if isinstance(owner, ConstantOp) and not shape_of(owner.output)]


def fold_body(scope: ExpressionScope, op: ReduceOp | ReduceWindowOp) -> tuple[Region, list[View]]:
    """The body of a reduction, which combines two elements of each operand, and the tables that it looks up."""
    return region_and_tables(scope, op, op.body.block, [element_of(value) for value in (*op.inputs, *op.inputs)])


def sort_body(scope: ExpressionScope, op: SortOp) -> Region:
    """The comparator of a sort, on two elements of each operand."""
    elements = [element for value in op.inputs for element in [element_of(value)] * 2]
    return region_of(scope, op, op.comparator.block, elements)


def scatter_body(scope: ExpressionScope, op: ScatterOp) -> Region:
    """The body of a scatter, which combines an element with its update."""
    return region_of(scope, op, op.update_computation.block, [element_of(op.inputs[0]), element_of(op.updates[0])])


def schedule_fold(body: Body) -> None:
    """Append the step of a reduction in the interpreter's order."""
    op, targets = body.root, body.outputs
    assert isinstance(op, ReduceOp | ReduceWindowOp)
    values, starts = ([body.view(value) for value in part] for part in (op.inputs, op.init_values))
    kept, reduced, strides = _loops(op)
    none, (region, tables) = (0,) * len(reduced), fold_body(body, op)
    kernel = Fold(
        (1, *kept, *reduced),
        len(reduced),
        tuple(access_of(view, (0, *strides(view))) for view in values),
        tuple(access_of(view, (0,) * (1 + len(kept) + len(reduced))) for view in starts),
        tuple(access_of(view, ()) for view in tables),
        tuple(access_of(view, (0, *view.strides, *none)) for view in targets),
        region,
        left_to_right=isinstance(op, ReduceWindowOp),
    )
    if kernel.tasks(body.isa):
        body.graph.call(body.name, kernel, [*values, *starts, *tables], targets)


def _loops(op: ReduceOp | ReduceWindowOp) -> tuple[list[int], list[int], Callable[[View], list[int]]]:
    """The sizes of the loops over results and over reduced elements, and a function from a view to its strides."""
    shape = shape_of(op.inputs[0])
    if isinstance(op, ReduceOp):
        reduced = sorted(array_values(op.dimensions))
        kept = [d for d in range(len(shape)) if d not in reduced]
        sizes = [shape[d] for d in kept], [shape[d] for d in reduced]
        apart = [(d, 1) for d in (*kept, *reduced)]
    else:
        ones = (1,) * len(shape)
        sizes = list(shape_of(op.results[0])), list(array_values(op.window_dimensions))
        steps = array_values(op.window_strides, ones), array_values(op.window_dilations, ones)
        apart = [pair for part in steps for pair in enumerate(part)]

    def strides(view: View) -> list[int]:
        return [view.strides[d] * by for d, by in apart]

    return *sizes, strides


def schedule_sort(body: Body) -> None:
    """Append the step of a stable sort. A buffer in the arena holds the positions of the elements."""
    op, targets = body.root, body.outputs
    assert isinstance(op, SortOp)
    shape, axis = shape_of(op.inputs[0]), op.axis()
    order = [*(d for d in range(len(shape)) if d != axis), axis]
    values = [body.view(value) for value in op.inputs]
    reads, writes = (
        tuple(access_of(view, (0, *(view.strides[d] for d in order))) for view in views) for views in (values, targets)
    )
    kernel = Sort((1, *(shape[d] for d in order)), reads, writes, sort_body(body, op))
    if not kernel.tasks(body.isa) * kernel.length:
        return
    positions = matrix_view((kernel.tasks(body.isa), 2, kernel.length), np.dtype(np.int32), 4)
    body.graph.call(body.name, kernel, values, [*targets, positions])

"""Ops with several results or a region: reductions of several operands or with any body, sorts, updates."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.patterns.match import Declined, Match
from zeropoint.codegen.patterns.nest import NestTrial
from zeropoint.codegen.schedule.regions import fold_body, scatter_body, sort_body
from zeropoint.codegen.values import Values
from zeropoint.expand.reductions import SINGLE, is_single
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import DynamicUpdateSliceOp, ReduceOp, ReduceWindowOp, ScatterOp, SortOp
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import element_of


def _computed(values: Values, operands: Sequence[SSAValue]) -> tuple[SSAValue, ...]:
    """The distinct operands that are not constants. Constants are part of the kernel."""
    return tuple(dict.fromkeys(value for value in operands if values.constant(value) is None))


def match_single(_: Values, op: ReduceOp | ReduceWindowOp) -> Declined:
    """No match: a reduction of one operand by one op becomes part of a loop nest, which other ops can join."""
    if is_single(op):
        return Declined()
    if (count := len(op.inputs)) != 1:
        return Declined(f"found {count} operands, expected 1")
    body = body_op(op.body)
    if body is None or not issubclass(body, SINGLE):
        return Declined(f"found a body other than one of {', '.join(kind.name for kind in SINGLE)}")
    return Declined(f"found sums in {element_of(op.body.block.args[0])}, whose result depends on the order")


def match_fold(values: Values, op: ReduceOp | ReduceWindowOp) -> Match | Declined:
    """A reduction that loop nests do not support."""
    if is_single(op):
        return Declined()
    fold_body(NestTrial(values), op)
    return Match("fold", tuple(op.results_), _computed(values, [*op.inputs, *op.init_values]))


def match_sort(values: Values, op: SortOp) -> Match:
    """A stable sort along one dimension."""
    sort_body(NestTrial(values), op)
    return Match("sort", tuple(op.results_), _computed(values, op.inputs))


def match_slice_update(values: Values, op: DynamicUpdateSliceOp) -> Match:
    """The operand with `update` inserted."""
    return Match("update", (op.result,), _computed(values, op.operands))


def match_scatter(values: Values, op: ScatterOp) -> Match:
    """The operand with updates scattered into it. Updates that may overlap are applied sequentially."""
    if len(op.inputs) != 1:
        raise CodegenError(f"{describe(op)}: found {len(op.inputs)} inputs, expected 1; run it with the interpreter")
    scatter_body(NestTrial(values), op)
    return Match("update", (op.results_[0],), _computed(values, op.operands))

"""Which kernel computes which ops of an integer program: the one list of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult

from zeropoint.codegen.graph import Buffer, Graph, Space, View, row_major
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.select.batches import select_product, select_requantized
from zeropoint.codegen.select.copies import copy
from zeropoint.codegen.select.edges import select_dequantize, select_quantize
from zeropoint.codegen.select.expression import scalar_type
from zeropoint.codegen.select.floats import select_float_convolution
from zeropoint.codegen.select.generic import materialize
from zeropoint.codegen.select.lookup import select_gather
from zeropoint.codegen.select.regions import select_barrier, select_fold, select_sort
from zeropoint.codegen.select.selection import NoKernel, Selection
from zeropoint.codegen.select.tables import select_table
from zeropoint.codegen.select.values import select_cast, select_pad, select_reshape, select_sum
from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import quant
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

__all__ = ["select"]

DEEPEST = 64
"""How many ops in a row may wait for the one that uses them."""

RULES: dict[type[Operation], Callable[[Selection, Any], None]] = {
    fxp.RequantizeOp: select_requantized,
    fxp.TableOp: select_table,
    fxp.WeightedSumOp: select_sum,
    hlo.ConvolutionOp: select_float_convolution,
    hlo.DotGeneralOp: select_product,
    hlo.GatherOp: select_gather,
    hlo.OptimizationBarrierOp: select_barrier,
    hlo.PadOp: select_pad,
    hlo.ReduceOp: select_fold,
    hlo.ReshapeOp: select_reshape,
    hlo.SortOp: select_sort,
    hlo.UniformDequantizeOp: select_dequantize,
    hlo.UniformQuantizeOp: select_quantize,
    quant.StorageCastOp: select_cast,
}
"""Kernels of special form, tried first, and views; everything else is a loop nest (`generic`) once it is used."""


def select(program: Program, isa: InstructionSet) -> Graph:
    """The kernels of an integer program for one instruction set.

    Raises CodegenError, with the op's name and place, where an op has no kernel.
    """
    graph = Graph(program.inputs, program.outputs, isa)
    selection = Selection(program, graph, materialize)
    for index, argument in enumerate(program.entry.args):
        shape, dtype = shape_of(argument), element_dtype(element_of(argument))
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        view = View(Buffer(Space.INPUT, size, index), 0, shape, row_major(shape, dtype.itemsize), dtype)
        selection.bind(argument, view)
    depths: dict[Operation, int] = {}
    for op in program.entry.ops:
        if isinstance(op, ReturnOp):
            graph.results = [_returned(selection, op, index) for index in range(len(op.operands))]
            continue
        if _select_nothing(selection, op):
            continue
        rule = RULES.get(type(op))
        if rule is not None:
            try:
                rule(selection, op)
            except NoKernel:
                selection.forget(op.results[0])
        _bound_depth(selection, op, depths)
    return graph


def _select_nothing(selection: Selection, op: Operation) -> bool:
    """Give empty results their place, where nothing is computed; whether all of the op's results are empty."""
    shapes = [shape_of(result) if isinstance(result.type, TensorType) else () for result in op.results]
    for result, shape in zip(op.results, shapes, strict=True):
        if not math.prod(shape):
            selection.bind(result, selection.dense(shape, element_dtype(element_of(result))))
    return bool(shapes) and not any(map(math.prod, shapes))


def _bound_depth(selection: Selection, op: Operation, depths: dict[Operation, int]) -> None:
    """Compute a value now where many ops before it wait: what computes it later goes back through all of them."""
    waiting = [
        depths.get(operand.op, 0)
        for operand in op.operands
        if isinstance(operand, OpResult) and not selection.has(operand)
    ]
    depths[op] = 1 + max(waiting, default=0)
    if depths[op] >= DEEPEST and len(op.results) == 1:
        selection.view(op.results[0])


def _returned(selection: Selection, op: ReturnOp, index: int) -> View:
    """The caller's array that holds a result, written by the kernel that computes it or copied."""
    value = op.operands[index]
    scalar_type(value)
    view = selection.view(value)
    if view.buffer.space is Space.OUTPUT and view.buffer.index == index:
        return view
    shape, dtype = shape_of(value), element_dtype(element_of(value))
    buffer = Buffer(Space.OUTPUT, math.prod(shape) * dtype.itemsize, index)
    result = View(buffer, 0, shape, row_major(shape, dtype.itemsize), dtype)
    copy(selection.graph, op, view, result)
    return result

"""Which kernel computes which ops of an integer program: the one list of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation

from zeropoint.codegen.graph import Buffer, Graph, Space, View, row_major
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.contraction import select_requantize
from zeropoint.codegen.select.selection import Selection
from zeropoint.codegen.select.values import (
    select_cast,
    select_dequantize,
    select_pad,
    select_quantize,
    select_reshape,
    select_sum,
)
from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import quant
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

__all__ = ["select"]

RULES: dict[type[Operation], Callable[[Selection, Any], None]] = {
    fxp.RequantizeOp: select_requantize,
    fxp.WeightedSumOp: select_sum,
    hlo.PadOp: select_pad,
    hlo.ReshapeOp: select_reshape,
    hlo.UniformDequantizeOp: select_dequantize,
    hlo.UniformQuantizeOp: select_quantize,
    quant.StorageCastOp: select_cast,
}

PARTS: frozenset[type[Operation]] = frozenset(
    {
        hlo.AddOp,
        hlo.BroadcastInDimOp,
        hlo.ConstantOp,
        hlo.ConvertOp,
        hlo.ConvolutionOp,
        hlo.DotGeneralOp,
        hlo.ReduceOp,
        hlo.ReduceWindowOp,
        hlo.ReshapeOp,
        hlo.SubtractOp,
    }
)
"""Ops that a kernel computes as a part of what follows; it is an error where nothing follows that does."""


def select(program: Program, isa: InstructionSet) -> Graph:
    """The kernels of an integer program for one instruction set.

    Raises CodegenError, with the op's name and place, where an op has no kernel.
    """
    graph = Graph(program.inputs, program.outputs, isa)
    selection = Selection(program, graph)
    for index, argument in enumerate(program.entry.args):
        shape, dtype = shape_of(argument), element_dtype(element_of(argument))
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        view = View(Buffer(Space.INPUT, size, index), 0, shape, row_major(shape, dtype.itemsize), dtype)
        selection.bind(argument, view)
    for op in program.entry.ops:
        if isinstance(op, ReturnOp):
            graph.results = [selection.view(value) for value in op.operands]
            continue
        rule = RULES.get(type(op))
        waits = type(op) in PARTS and not all(selection.has(operand) for operand in op.operands)
        if rule is not None and not waits:
            rule(selection, op)
        elif type(op) not in PARTS:
            selection.view(op.results[0])
    for index, view in enumerate(graph.results):
        if view.buffer.space is not Space.OUTPUT:
            raise CodegenError(f"output '{graph.outputs[index].name}': found a value with no kernel that writes it out")
    return graph

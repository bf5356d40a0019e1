"""A kernel to schedule: its body, the views of its operands and results, and the graph to which steps are added."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseResourceAttr, IntegerAttr, StringAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Buffer, Graph, Space, View, row_major
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.values import Values
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array
from zeropoint.numerics.dot_forms import DotForm, dot_form


class Constants:
    """The constant arrays in the weights of a graph. Equal arrays are stored once."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: dict[object, Buffer] = {}

    def view(self, array: Array, of: SSAValue | None = None) -> View:
        """A row-major view of the array in the weights. The array is added if needed. `of` is its constant, if any."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        # A handle identifies its content, so that megabytes of weights are not hashed.
        key = (_handle(of), array.dtype) if _handle(of) else hashlib.sha256(data).digest()
        if key not in self._known:
            stored = self._graph.parameters(data)
            self._known[key] = Buffer(Space.WEIGHTS, len(data), offset=stored.offset)
        return View(self._known[key], 0, array.shape, row_major(array.shape, array.dtype.itemsize), array.dtype)


def _handle(value: SSAValue | None) -> str | None:
    """The handle of a constant that is stored as a resource; None for other values."""
    if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
        stored = value.op.value
        return stored.resource_handle.data if isinstance(stored, DenseResourceAttr) else None
    return None


@dataclass(eq=False)
class Body:
    """A kernel op and the views of its operands, `inputs` and `outputs`. `found` has the matches of the program."""

    program: Program
    graph: Graph
    constants: Constants
    kernel: KernelOp
    inputs: list[View]
    outputs: list[View]
    found: Found
    values: Values = field(init=False)

    def __post_init__(self) -> None:
        self.values = Values.inside(self.program, self.kernel.body.block)

    def in_graph(self, graph: Graph) -> Body:
        """The same kernel, to be scheduled in another graph."""
        return replace(self, graph=graph, constants=Constants(graph))

    @property
    def isa(self) -> InstructionSet:
        """The instruction set for which the kernel is compiled."""
        return self.graph.isa

    @cached_property
    def ops(self) -> list[Operation]:
        """The ops of the body, including its constants, without the terminator."""
        *ops, _ = self.kernel.body.block.ops
        return ops

    @property
    def members(self) -> frozenset[Operation]:
        """The ops of the body except constants."""
        return frozenset(op for op in self.ops if not isinstance(op, ConstantOp))

    @property
    def result(self) -> SSAValue:
        """The kernel's first result, as a value of the body."""
        return self.kernel.terminator.values[0]

    @property
    def root(self) -> Operation:
        """The op that computes `result`."""
        return cast("OpResult", self.result).op

    @property
    def name(self) -> str:
        """The name of the kernel's steps, for profiles and errors."""
        return describe(self.root)

    @property
    def row(self) -> int:
        """The dimension along which rows run."""
        assert isinstance(self.kernel.row, IntegerAttr)
        return self.kernel.row.value.data

    def view(self, value: SSAValue) -> View:
        """The view of an operand, or of a constant of the body."""
        if isinstance(value, BlockArgument):
            return self.inputs[value.index]
        array = self.values.constant(value)
        assert array is not None, f"{self.name} reads {value} before it is computed"
        return self.constants.view(array, value)

    def constant_view(self, array: Array) -> View:
        """The view of an array in the weights."""
        return self.constants.view(array)


def named_form(body: Body) -> DotForm | None:
    """The dot form in the attributes of the kernel's contraction; None for sums over windows and 16-bit numbers."""
    for op in body.kernel.body.block.ops:
        if isinstance(name := op.attributes.get(DOT_FORM), StringAttr):
            return dot_form(name.data)
    return None

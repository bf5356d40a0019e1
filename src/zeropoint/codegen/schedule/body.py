"""A kernel that is scheduled: its body, where its operands and results lie, and the graph that its steps go to."""

from __future__ import annotations

from functools import cached_property
from typing import cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Buffer, Graph, Space, View, row_major
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.values import Values
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import ConstantOp
from zeropoint.ir.tensors import Array


class Constants:
    """The arrays among the weights of a graph; equal ones are there once."""

    def __init__(self, graph: Graph):
        self._graph = graph
        self._known: dict[bytes, Buffer] = {}

    def view(self, array: Array) -> View:
        """Where an array is, dense."""
        data = np.ascontiguousarray(array).tobytes()
        buffer = self._known.get(data)
        if buffer is None:
            place = self._graph.parameters(data)
            buffer = self._known[data] = Buffer(Space.WEIGHTS, len(data), offset=place.offset)
        return View(buffer, 0, array.shape, row_major(array.shape, array.dtype.itemsize), array.dtype)


class Body:
    """`inputs` and `outputs` are the views of the kernel's operands; `found` is what patterns know of kernels."""

    def __init__(
        self,
        program: Program,
        graph: Graph,
        constants: Constants,
        kernel: KernelOp,
        inputs: list[View],
        outputs: list[View],
        found: Found,
    ):
        self.program = program
        self.graph = graph
        self.kernel = kernel
        self.inputs = inputs
        self.outputs = outputs
        self.found = found
        self.values = Values.inside(program, kernel.body.block)
        self._constants = constants

    @property
    def isa(self) -> InstructionSet:
        """What the kernel is for."""
        return self.graph.isa

    @cached_property
    def ops(self) -> list[Operation]:
        """The ops of the body, its constants too."""
        *ops, _ = self.kernel.body.block.ops
        return ops

    @property
    def members(self) -> frozenset[Operation]:
        """The ops that compute."""
        return frozenset(op for op in self.ops if not isinstance(op, ConstantOp))

    @property
    def result(self) -> SSAValue:
        """The first value that it computes."""
        return self.kernel.terminator.values[0]

    @property
    def root(self) -> Operation:
        """The op that computes it."""
        return cast("OpResult", self.result).op

    @property
    def name(self) -> str:
        """What its steps are called."""
        return describe(self.root)

    @property
    def row(self) -> int:
        """The dimension that rows run along."""
        assert isinstance(self.kernel.row, IntegerAttr)
        return self.kernel.row.value.data

    def view(self, value: SSAValue) -> View:
        """Where an operand lies, or a constant of the body."""
        if isinstance(value, BlockArgument):
            return self.inputs[value.index]
        array = self.values.constant(value)
        assert array is not None, f"{self.name} reads {value} before it is computed"
        return self.constant_view(array)

    def constant_view(self, array: Array) -> View:
        """Where numbers are among the weights."""
        return self._constants.view(array)

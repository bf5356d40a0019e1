"""Converts a laid-out program to steps: `Program -> Graph`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xdsl.dialects.bufferization import ToBufferOp, ToTensorOp
from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.dialects.memref import AllocOp, MemorySpaceCastOp, ReinterpretCastOp
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from zeropoint.codegen.controlled import inside
from zeropoint.codegen.graph import Buffer, Graph, Space, TripCounter, View
from zeropoint.codegen.kernels.border import Border
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.memrefs import size_of, strides_of, unconverted
from zeropoint.codegen.parameters import ParameterBlock
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.schedule.body import Body, Constants
from zeropoint.codegen.schedule.contraction import schedule_contraction
from zeropoint.codegen.schedule.control import count_trips, has_loops, inner_trips, schedule_case, schedule_while
from zeropoint.codegen.schedule.images import schedule_dequantize, schedule_quantize
from zeropoint.codegen.schedule.nest import schedule_bytes, schedule_nest, schedule_rows
from zeropoint.codegen.schedule.placement import schedule_update
from zeropoint.codegen.schedule.products import schedule_product
from zeropoint.codegen.schedule.regions import schedule_fold, schedule_sort
from zeropoint.codegen.values import Values
from zeropoint.codegen.views import copy, fill
from zeropoint.ir.locations import location_text, noting
from zeropoint.ir.mapped import RECENT_PAGES
from zeropoint.ir.native import BorderOp, ControlOp, KernelOp, NativeWhileOp, memory_of
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import element_dtype


def _copy(body: Body) -> None:
    copy(body.graph, _said("copy", body.kernel), body.inputs[0], body.outputs[0])


def _fill(body: Body) -> None:
    number = body.values.splat(body.result)
    assert number is not None
    fill(body.graph, _said("fill", body.kernel), number, body.outputs[0])


KERNELS: Mapping[str, Callable[[Body], None]] = {
    "contraction": schedule_contraction,
    "product": schedule_product,
    "bytes": schedule_bytes,
    "quantize": schedule_quantize,
    "dequantize": schedule_dequantize,
    "rows": schedule_rows,
    "nest": schedule_nest,
    "fold": schedule_fold,
    "sort": schedule_sort,
    "update": schedule_update,
    "copy": _copy,
    "fill": _fill,
}
"""The function that schedules a kernel, by the kernel's kind."""


def schedule(
    program: Program,
    isa: InstructionSet,
    found: Found | None = None,
    weights: ParameterBlock | None = None,
    observed: int = 0,
) -> Graph:
    """The graph of steps of a program's kernels, for one instruction set. `found` has the known matches of kernels.

    Parameters are appended to `weights`, by default to a block of the graph's own. The last `observed` results stay
    where they were computed.
    """
    block = ParameterBlock() if weights is None else weights
    return _Schedule(program, isa, {} if found is None else found, block, observed=observed).graph


class _Schedule:
    def __init__(
        self,
        program: Program,
        isa: InstructionSet,
        found: Found,
        weights: ParameterBlock,
        trips: TripCounter | None = None,
        observed: int = 0,
    ):
        self._found = found
        outputs = program.outputs[: len(program.outputs) - observed]
        self.graph = Graph(program.inputs, outputs, isa, weights=weights, trips=trips)
        if trips is None and has_loops(program.entry):
            self.graph.trips = count_trips(self.graph)
        self._program = program
        self._values = Values(program, program.entry, lambda _: True)
        self._constants = Constants(self.graph)
        self._views: dict[SSAValue, View] = {}
        *ops, last = program.entry.ops
        assert isinstance(last, ReturnOp)
        returned, kept = last.operands[: len(outputs)], last.operands[len(outputs) :]
        self._outputs = {self._returned(value): index for index, value in enumerate(returned)}
        for op in ops:
            self._append(op)
            RECENT_PAGES.release()  # the match has read the weights, and their packed copy is complete
        self.graph.results = [self._views[self._returned(value)] for value in returned]
        self.graph.observed = [self._views[_memref(value)] for value in kept]

    @staticmethod
    def _returned(value: SSAValue) -> SSAValue:
        """The memref of the caller's array for a returned tensor."""
        cast = _memref(value)
        assert isinstance(cast, OpResult) and isinstance(cast.op, MemorySpaceCastOp)
        return cast.op.source

    def _append(self, op: Operation) -> None:
        if isinstance(op, AllocOp):
            self._views[op.memref] = self._allocated(op.memref)
        elif isinstance(op, ToBufferOp):
            self._views[op.memref] = self._given(op)
        elif isinstance(op, MemorySpaceCastOp):
            self._views[op.dest] = self._views[op.source]
        elif isinstance(op, ReinterpretCastOp):
            self._views[op.result] = self._view(self._views[op.source].buffer, op.result)
        elif isinstance(op, BorderOp):
            self._border(op)
        elif isinstance(op, ControlOp):
            self._control(op)
        elif isinstance(op, KernelOp):
            inputs, outputs = ([self._views[value] for value in part] for part in (op.inputs, op.outputs))
            with noting(op):
                KERNELS[op.kind.data](
                    Body(self._program, self.graph, self._constants, op, inputs, outputs, self._found)
                )

    def _control(self, op: ControlOp) -> None:
        """Append a loop or branch. Its regions are scheduled as programs."""
        inputs, outputs = ([self._views[value] for value in part] for part in (op.inputs, op.outputs))
        graphs: list[Graph] = []
        for number in range(len(op.programs)):
            with noting(op), inside(self._program, op, number) as program:
                graph = self.graph
                graphs.append(_Schedule(program, graph.isa, self._found, graph.weights, inner_trips(graph.trips)).graph)
        if isinstance(op, NativeWhileOp):
            schedule_while(self.graph, _said("while", op), (graphs[0], graphs[1]), inputs, outputs)
        else:
            schedule_case(self.graph, _said("case", op), graphs, inputs, outputs)

    def _allocated(self, value: SSAValue) -> View:
        index = self._outputs.get(value)
        if index is not None:
            return self._view(Buffer(Space.OUTPUT, size_of(value), index), value)
        carried = memory_of(value).memory_space == StringAttr(Space.CARRIED.value)
        return self._view(Buffer(Space.CARRIED if carried else Space.ARENA, size_of(value)), value)

    def _given(self, op: ToBufferOp) -> View:
        """The view of an input or a constant."""
        tensor = unconverted(op.tensor)
        if not isinstance(tensor, BlockArgument):
            array = self._values.constant(tensor)
            assert array is not None
            return self._constants.view(array, tensor)
        return self._view(Buffer(Space.INPUT, size_of(op.memref), tensor.index), op.memref)

    @staticmethod
    def _view(buffer: Buffer, value: SSAValue) -> View:
        """The view of a buffer with a memref's shape, strides and offset."""
        type_ = memory_of(value)
        shape, dtype = tuple(type_.get_shape()), element_dtype(type_.element_type)
        known = strides_of(value)
        assert known is not None
        offset, strides = known
        return View(buffer, offset * dtype.itemsize, shape, tuple(step * dtype.itemsize for step in strides), dtype)

    def _border(self, op: BorderOp) -> None:
        """Append the step that fills the border of an image: above, below, and between rows."""
        view, (top, left, bottom, right) = self._views[op.image], op.widths
        n, _, h, w = self._values.image(view)
        image, _, row, pitch = self._values.image_strides(view)
        activation = (op.value.value.data + self.graph.isa.offset) & 255
        value = activation if view.itemsize == 1 else 0
        kernel = Border(n, h, row, image, w * pitch, top * row + left * pitch, right * pitch + bottom * row, value)
        self.graph.call(_said("border", op), kernel, [], [view], halo=True)


def _memref(value: SSAValue) -> SSAValue:
    """The memref of a returned tensor."""
    value = unconverted(value)
    assert isinstance(value, OpResult) and isinstance(value.op, ToTensorOp)
    return value.op.memref


def _said(what: str, op: Operation) -> str:
    """The name of a step without a corresponding op of the program."""
    text = location_text(op.location)
    return f"{what} '{text}'" if text else what

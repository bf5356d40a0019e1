"""The state of selection: where values are, and what may be allocated for them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Buffer, Graph, Halo, Space, View, image_view, matrix_view, row_major
from zeropoint.codegen.kernels.border import Border
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import ConvolutionOp, PadOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

BYTE = np.dtype(np.int8)


class Selection:
    """Views of the values of a program, and the graph that grows."""

    def __init__(self, program: Program, graph: Graph):
        self.program = program
        self.graph = graph
        self.isa = graph.isa
        self.channel = _channel_dimension(program)
        self._views: dict[SSAValue, View] = {}

    # Values.

    def bind(self, value: SSAValue, view: View) -> None:
        """Say where a value is."""
        self._views[value] = view

    def has(self, value: SSAValue) -> bool:
        """Whether a value is somewhere already."""
        return value in self._views

    def view(self, value: SSAValue) -> View:
        """Where a value is. Raises CodegenError for one that only a kernel which does not exist would compute."""
        if value not in self._views:
            owner = value.owner
            what = describe(owner) if isinstance(owner, Operation) else "an argument"
            raise CodegenError(f"{what}: found no kernel for this op; run it with the interpreter")
        return self._views[value]

    def constant(self, value: SSAValue) -> Array | None:
        """The array of a constant."""
        return constant_array(value, self.program.weights)

    def splat(self, value: SSAValue) -> float | None:
        """The number that a constant repeats."""
        return splat_value(value, self.program.weights)

    # Allocation.

    def is_image(self, value: SSAValue) -> bool:
        """Whether a value lies with its channels innermost: rank 4, in a program with convolutions."""
        return self.channel is not None and len(shape_of(value)) == 4

    def bytes_for(self, op: Operation, value: SSAValue, *, narrow: bool = False) -> View:
        """A new view for stored 8-bit integers, with the padding that their users want; its border is filled.

        `narrow` allows 4 bytes a pixel for up to four channels, from kernels that write no more.
        """
        shape = shape_of(value)
        if not self.is_image(value):
            view = matrix_view(shape, BYTE, 16)
            self.bind(value, view)
            return view
        assert self.channel is not None
        channels = shape[self.channel]
        pitch = 4 if narrow and channels <= 4 else -(-channels // 16) * 16
        halo = self._halo(value)
        view = image_view(shape, self.channel, pitch, BYTE, halo)
        self.bind(value, view)
        if halo is not None:
            self._border(op, view, pitch, halo)
        return view

    def output(self, value: SSAValue) -> View | None:
        """The caller's array, where a value is only returned: dense, in the program's order."""
        uses = list(value.uses)
        if len(uses) != 1 or not isinstance(uses[0].operation, ReturnOp):
            return None
        shape, dtype = shape_of(value), element_dtype(element_of(value))
        buffer = Buffer(Space.OUTPUT, int(np.prod(shape)) * dtype.itemsize, uses[0].index)
        return View(buffer, 0, shape, row_major(shape, dtype.itemsize), dtype)

    def _halo(self, value: SSAValue) -> Halo | None:
        """The padding that users add with one value; None where nobody pads it with a constant."""
        found: Halo | None = None
        for use in value.uses:
            user = use.operation
            if isinstance(user, StorageCastOp):
                wanted = self._halo(user.result)
            elif isinstance(user, PadOp) and use.index == 0:
                wanted = self.padding(user)
            else:
                continue
            if wanted is not None and (found is None or found.value == wanted.value):
                found = wanted if found is None else found.union(wanted)
        return found

    def padding(self, op: PadOp) -> Halo | None:
        """The padding of a `pad` of the image dimensions by a constant; None for any other."""
        value = self.splat(op.padding_value)
        rank = len(shape_of(op.operand))
        low, high, interior = (
            array_values(a, (0,) * rank) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
        )
        if value is None or not self.is_image(op.operand) or any(interior) or min(*low, *high) < 0:
            return None
        assert self.channel is not None
        y, x = (2, 3) if self.channel == 1 else (1, 2)
        if any(low[d] or high[d] for d in (0, self.channel)):
            return None
        return Halo(low[y], low[x], high[y], high[x], int(value))

    def _border(self, op: Operation, view: View, pitch: int, halo: Halo) -> None:
        n, _, h, w = self.image(view)
        strides = self.image_strides(view)
        row, length = strides[2], w * pitch
        before = halo.top * row + halo.left * pitch
        after = halo.right * pitch + halo.bottom * row
        kernel = Border(n, h, row, strides[0], length, before, after, (halo.value + self.isa.offset) & 255)
        self.graph.call(f"border of {describe(op)}", kernel, [], [view])
        self.graph.steps[-1] = replace(self.graph.steps[-1], halo=True)

    def image(self, view: View) -> tuple[int, int, int, int]:
        """(N, C, H, W) of an image view."""
        return _nchw(view.shape, self.channel)

    def image_strides(self, view: View) -> tuple[int, int, int, int]:
        """Strides of N, C, H, W in bytes."""
        return _nchw(view.strides, self.channel)


def _nchw(values: tuple[int, ...], channel: int | None) -> tuple[int, int, int, int]:
    n, a, b, c = values
    return (n, a, b, c) if channel == 1 else (n, c, a, b)


def _channel_dimension(program: Program) -> int | None:
    """Which dimension of images holds channels: what the first convolution says."""
    for op in program.entry.ops:
        if isinstance(op, ConvolutionOp) and len(shape_of(op.lhs)) == 4:
            layout = op.dimension_numbers.data
            if layout.input_batch_dimension == 0 and layout.input_feature_dimension in (1, 3):
                return layout.input_feature_dimension
    return None


def owner_of(value: SSAValue) -> Operation | None:
    """The op that computes a value, None for an argument."""
    return value.op if isinstance(value, OpResult) else None

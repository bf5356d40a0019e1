"""The state of selection: where values are, and what may be allocated for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.codegen.graph import ALIGNMENT, Buffer, Graph, Halo, Space, View, image_view, matrix_view, row_major
from zeropoint.codegen.kernels.border import Border
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.select.copies import copy, parts_of
from zeropoint.codegen.select.phases import Dilated
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import ConcatenateOp, ConvolutionOp, PadOp, ReduceWindowOp
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of

BYTE = np.dtype(np.int8)


class NoKernel(CodegenError):
    """A kernel of special form does not compute this; a loop nest does, or says that it does not either."""


class Selection:
    """Views of the values of a program, and the graph that grows."""

    def __init__(self, program: Program, graph: Graph, materialize: Callable[[Selection, SSAValue], View]):
        self.program = program
        self.graph = graph
        self.isa = graph.isa
        self.channel = _channel_dimension(program)
        self.order = {op: n for n, op in enumerate(program.entry.ops)}
        """The places of ops in the program."""
        self._materialize = materialize
        self._views: dict[SSAValue, View] = {}
        self._allocated: dict[SSAValue, View] = {}
        self._constants: dict[bytes, Buffer] = {}
        self._wholes: dict[ConcatenateOp, View] = {}

    # Values.

    def bind(self, value: SSAValue, view: View) -> None:
        """Say where a value is."""
        self._views[value] = view

    def has(self, value: SSAValue) -> bool:
        """Whether a value is somewhere already."""
        return value in self._views

    def view(self, value: SSAValue) -> View:
        """Where a value is; it is computed now where no kernel has computed it yet.

        Raises CodegenError where an op has no native form.
        """
        if value not in self._views:
            self._views[value] = self._materialize(self, value)
        return self._views[value]

    def constant(self, value: SSAValue) -> Array | None:
        """The array of a constant."""
        return constant_array(value, self.program.weights)

    def splat(self, value: SSAValue) -> float | None:
        """The number that a constant repeats."""
        return splat_value(value, self.program.weights)

    def constant_view(self, array: Array) -> View:
        """An array among the weights, dense; equal ones are there once."""
        data = np.ascontiguousarray(array).tobytes()
        buffer = self._constants.get(data)
        if buffer is None:
            place = self.graph.parameters(data)
            buffer = self._constants[data] = Buffer(Space.WEIGHTS, len(data), offset=place.offset)
        return View(buffer, 0, array.shape, row_major(array.shape, array.dtype.itemsize), array.dtype)

    def fitting(self, op: Operation, value: SSAValue, multiple: int = 16) -> View:
        """A value for kernels that read `multiple` bytes at a time of adjacent channels (of images) or elements.

        Nothing that they read so lies outside of the buffer. What lies otherwise is copied.
        """
        view = self.view(value)
        if self.fits(value, view, multiple):
            return view
        made = self.fresh(view.shape, view.dtype)
        copy(self.graph, op, view, made)
        return made

    def fits(self, value: SSAValue, view: View, multiple: int = 16) -> bool:
        """Whether kernels may read (and, of a view of its own, write) so many bytes at a time."""
        inner = self.channel if self.is_image(value) else len(view.shape) - 1
        assert inner is not None
        steps = [stride for d, stride in enumerate(view.strides) if d != inner and view.shape[d] > 1]
        return (
            view.activations
            and (inner < 0 or view.strides[inner] == 1 or view.shape[inner] == 1)
            and not any(number % multiple for number in (*steps, view.offset, view.buffer.size))
        )

    # Allocation.

    def fresh(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> View:
        """A new view in the arena: of rank 4 channels innermost where there are images; rows start at 16 bytes."""
        if self.channel is not None and len(shape) == 4:
            pitch = -(-shape[self.channel] * dtype.itemsize // 16) * 16
            return image_view(shape, self.channel, pitch, dtype, None)
        return matrix_view(shape, dtype, 16)

    def lines(self, shape: Sequence[int], dtype: np.dtype[np.generic], halo: Halo | None = None) -> View:
        """A new view in the arena whose pixels or rows are whole cache lines."""
        if self.channel is not None and len(shape) == 4:
            pitch = -(-shape[self.channel] * dtype.itemsize // ALIGNMENT) * ALIGNMENT
            return image_view(shape, self.channel, pitch, dtype, halo)
        return matrix_view(shape, dtype, ALIGNMENT)

    def floats_for(self, op: Operation, value: SSAValue) -> View:
        """A new view for f32 in whole lines, with the padding (by 0) that its users want; its border is filled."""
        halo = self._halo(value) if self.is_image(value) else None
        view = self.lines(shape_of(value), np.dtype(np.float32), halo)
        if halo is not None:
            self._border(op, view, self.image_strides(view)[3], halo)
        self.bind(value, view)
        return view

    def surrounded(self, op: Operation, view: View, padding: Halo | None) -> View:
        """A window that begins with the padding of an image; the image is copied where that is not there."""
        if padding is None:
            return view
        there = view.halo
        fits = there is not None and there.value == padding.value and there.union(padding) == there
        if not fits:
            made = self.lines(view.shape, view.dtype, padding) if view.dtype != BYTE else self._bytes(view, padding)
            self._border(op, made, self.image_strides(made)[3], padding)
            copy(self.graph, op, view, made)
            view = made
        _, _, row, pixel = self.image_strides(view)
        return view.moved(-padding.top * row - padding.left * pixel)

    def _bytes(self, view: View, padding: Halo) -> View:
        assert self.channel is not None
        return image_view(view.shape, self.channel, -(-view.shape[self.channel] // 16) * 16, BYTE, padding)

    def dense(self, shape: Sequence[int], dtype: np.dtype[np.generic]) -> View:
        """A new view in the arena, in the program's order without gaps."""
        return matrix_view(shape, dtype, dtype.itemsize)

    def target(self, op: Operation, value: SSAValue) -> View:
        """A new view for a value."""
        dtype = element_dtype(element_of(value))
        return self.bytes_for(op, value) if dtype == BYTE else self.fresh(shape_of(value), dtype)

    def is_image(self, value: SSAValue) -> bool:
        """Whether a value lies with its channels innermost: rank 4, in a program with convolutions."""
        return self.channel is not None and len(shape_of(value)) == 4

    def bytes_for(self, op: Operation, value: SSAValue, *, narrow: bool = False) -> View:
        """A new view for stored 8-bit integers, with the padding that their users want; its border is filled.

        `narrow` allows 4 bytes a pixel for up to four channels, from kernels that write no more.
        """
        if value not in self._allocated:
            self._allocated[value] = self._allocate_bytes(op, value, narrow)
        self.bind(value, self._allocated[value])
        return self._allocated[value]

    def forget(self, value: SSAValue) -> None:
        """Nothing has computed a value after all; what was allocated for it is there for whatever does."""
        self._views.pop(value, None)

    def _allocate_bytes(self, op: Operation, value: SSAValue, narrow: bool) -> View:
        shape = shape_of(value)
        if not self.is_image(value):
            return matrix_view(shape, BYTE, 16)
        assert self.channel is not None
        channels = shape[self.channel]
        pitch = 4 if narrow and channels <= 4 else -(-channels // 16) * 16
        halo = self._halo(value)
        inside = None if halo is not None or narrow else self._inside_concatenation(value)
        if inside is not None:
            return inside
        view = image_view(shape, self.channel, pitch, BYTE, halo)
        if halo is not None:
            self._border(op, view, pitch, halo)
        return view

    def whole(self, op: ConcatenateOp) -> View | None:
        """The result of a concatenation of which some parts are computed in their place."""
        return self._wholes.get(op)

    def _inside_concatenation(self, value: SSAValue) -> View | None:
        """Where a value lies in the concatenation that uses it, if kernels can write it there."""
        for use in value.uses:
            op = use.operation
            if not isinstance(op, ConcatenateOp) or list(op.inputs).index(value) != use.index:
                continue
            sizes = [shape_of(part)[self.channel or 0] for part in op.inputs[:-1]]
            if int(op.dimension.value.data) == self.channel and any(size % 16 for size in sizes):
                continue
            if op not in self._wholes:
                self._wholes[op] = self.bytes_for(op, op.result)
                self.forget(op.result)  # until all parts are there
            return parts_of(op, self._wholes[op])[use.index]
        return None

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
                wanted = self._wanted_around(user)
            elif isinstance(user, ConvolutionOp) and use.index == 0:
                wanted = padding_of(user, self.splat)
            elif isinstance(user, ReduceWindowOp) and use.index == 0:
                wanted = self.window_padding(user)
            else:
                continue
            if wanted is not None and (found is None or found.value == wanted.value):
                found = wanted if found is None else found.union(wanted)
        return found

    def _wanted_around(self, op: PadOp) -> Halo | None:
        """The padding of a `pad`; of one that dilates, what the convolution of its result reads around the operand."""
        if not any(array_values(op.interior_padding)):
            return self.padding(op)
        user = next(iter(op.result.uses)).operation if op.result.has_one_use() else None
        return padding_of(user, self.splat) if isinstance(user, ConvolutionOp) and user.lhs is op.result else None

    def window_padding(self, op: ReduceWindowOp) -> Halo | None:
        """The padding of the windows of an image of bytes; None where there is none, or other dimensions are padded."""
        number, rank = self.splat(op.init_values[0]), len(shape_of(op.inputs[0]))
        pairs = padding_values(op.padding, rank)
        bytes_ = element_dtype(element_of(op.inputs[0])) == BYTE
        if number is None or not bytes_ or not self.is_image(op.inputs[0]) or len(op.inputs) != 1:
            return None
        y, x = (2, 3) if self.channel == 1 else (1, 2)
        inside = all(pair == (0, 0) for d, pair in enumerate(pairs) if d not in (y, x))
        dilated = any(step != 1 for step in array_values(op.base_dilations, (1,) * rank))
        sides = (pairs[y][0], pairs[x][0], pairs[y][1], pairs[x][1])
        return Halo(*sides, int(number)) if inside and not dilated and min(sides) >= 0 and any(sides) else None

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
        floats = element_dtype(element_of(op.operand)).kind != "i"
        if any(low[d] or high[d] for d in (0, self.channel)) or (floats and value != 0):
            return None
        return Halo(low[y], low[x], high[y], high[x], int(value))

    def _border(self, op: Operation, view: View, pitch: int, halo: Halo) -> None:
        n, _, h, w = self.image(view)
        strides = self.image_strides(view)
        row, length = strides[2], w * pitch
        before = halo.top * row + halo.left * pitch
        after = halo.right * pitch + halo.bottom * row
        value = (halo.value + self.isa.offset) & 255 if view.dtype == BYTE else 0
        kernel = Border(n, h, row, strides[0], length, before, after, value)
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


def padding_of(op: ConvolutionOp, splat: Callable[[SSAValue], float | None]) -> Halo | None:
    """What surrounds the input of a convolution of images, by which it pads it itself or is padded and dilated before.

    None where nothing does.
    """
    dilated = Dilated.of(op, splat)
    if dilated is not None:
        return dilated.padding(op)
    pairs = padding_values(op.padding, len(op.dimension_numbers.data.input_spatial_dimensions))
    if len(pairs) != 2 or not any(side > 0 for pair in pairs for side in pair) or min(map(min, pairs)) < 0:
        return None
    (top, bottom), (left, right) = pairs
    return Halo(top, left, bottom, right, 0)

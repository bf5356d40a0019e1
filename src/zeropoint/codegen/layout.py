"""Where values lie: `Program -> Program`, from kernels on tensors to kernels on memrefs.

    %y = "native.kernel"(%x) ({...}) : (tensor<1x8x4x4xi8>) -> tensor<1x8x4x4xi8>

becomes

    %b = memref.alloc() : memref<576xi8, "arena">
    %v = memref.reinterpret_cast %b to offset: [112], sizes: [1, 8, 4, 4], strides: [576, 1, 96, 16]
    "native.border"(%v) <{sides = array<i64: 1, 1, 1, 1>, value = 0}>
    "native.kernel"(%u, %v) ({...})

Images lie with their channels innermost, pixels and rows at multiples of 16 bytes (64 of floats). Padding around an
image belongs to the buffer of the value that is padded, so a `pad` is a larger window of it. Operands of a
concatenation are computed in their place, results in the caller's arrays. A value that lies as no kernel can read it is
copied.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.bufferization import ToTensorOp
from xdsl.dialects.builtin import MemRefType, StringAttr, TensorType
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, OpResult, Region, SSAValue

from zeropoint.codegen.graph import ALIGNMENT, Halo, Space, View, image_view, matrix_view
from zeropoint.codegen.memrefs import Memory
from zeropoint.codegen.patterns.contraction import ContractionMatch, contraction_of
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.patterns.products import product_of
from zeropoint.codegen.values import Values, dense
from zeropoint.codegen.views import has_even_rows, part, parts_of, reshaped, transposed
from zeropoint.ir.constants import constant_op
from zeropoint.ir.native import BorderOp, KernelOp, YieldOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConcatenateOp, ConstantOp, IotaOp, PadOp, ReshapeOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import dtype_element, element_dtype, element_of, shape_of, with_shape

BYTE = np.dtype(np.int8)
REAL = np.dtype(np.float32)


def layout(program: Program) -> Program:
    """A grouped program with memrefs as the operands of its kernels."""
    laid = program.clone()
    lay_out(laid, {})
    return laid


def lay_out(program: Program, found: Found) -> None:
    """Do that to a program that nobody else has; `found` is what patterns know of its kernels."""
    _Layout(program, found).run()


def is_laid_out(program: Program) -> bool:
    """Whether a program has memrefs already."""
    last = program.entry.last_op
    assert isinstance(last, ReturnOp)
    return all(isinstance(value, OpResult) and isinstance(value.op, ToTensorOp) for value in last.operands)


class _Layout:
    """New ops grow behind the old ones, which go in the end; `views` are where the old values lie."""

    def __init__(self, program: Program, found: Found):
        self.program = program
        self._found = found
        self.block = program.entry
        self.values = Values(program, self.block, lambda value: value in self.views)
        self.memory = Memory(self.block)
        self.views: dict[SSAValue, View] = {}
        self._allocated: dict[SSAValue, View] = {}
        self._wholes: dict[ConcatenateOp, View] = {}

    def run(self) -> None:
        *old, last = self.block.ops
        assert isinstance(last, ReturnOp)
        for argument in self.block.args:
            self.views[argument] = self.memory.given(argument, Space.INPUT, argument.index)
        for op in old:
            self._place(op)
        results = [self._returned(last, index) for index in range(len(last.operands))]
        last.operands = [self.memory.returned(view) for view in results]
        for op in old[::-1]:
            if not isinstance(op, ConstantOp) or not op.output.first_use:
                op.detach()
                op.erase()

    def _place(self, op: Operation) -> None:
        if isinstance(op, KernelOp):
            self._kernel(op)
        elif isinstance(op, ConstantOp):
            self.views[op.output] = self.memory.given(op.output, Space.WEIGHTS)
        elif isinstance(op, IotaOp):
            self.views[op.output] = self._iota(op)
        elif isinstance(op, StorageCastOp):
            self.views[op.result] = self.views[op.input]
        elif isinstance(op, ReshapeOp):
            self._reshape(op)
        elif isinstance(op, TransposeOp):
            if op.result not in self.views:
                self.views[op.result] = transposed(self.views[op.operand], array_values(op.permutation))
        elif isinstance(op, PadOp):
            self.views[op.result] = self._padded(op)
        else:
            assert isinstance(op, ConcatenateOp), f"{op.name} outside of kernels"
            self.views[op.result] = self._concatenated(op)

    def _returned(self, op: ReturnOp, index: int) -> View:
        """The caller's array that holds a result, written by the kernel that computes it or copied."""
        view = self.views[op.operands[index]]
        if view.buffer.space is Space.OUTPUT and view.buffer.index == index:
            return view
        result = self._caller(op.operands[index], index)
        self._copy(op, view, result)
        return result

    # Values that are moved as a whole.

    def _iota(self, op: IotaOp) -> View:
        shape, dimension = shape_of(op.output), int(op.iota_dimension.value.data)
        counts = np.arange(shape[dimension]).astype(element_dtype(element_of(op.output)))
        ones = [shape[dimension] if d == dimension else 1 for d in range(len(shape))]
        array = np.ascontiguousarray(np.broadcast_to(counts.reshape(ones), shape))
        made = self.memory.insert(constant_op(array, self.program.weights))
        return self.memory.given(made.results[0], Space.WEIGHTS)

    def _reshape(self, op: ReshapeOp) -> None:
        """The operand's elements where they are; of a dense copy where they do not lie one after the other."""
        if op.result in self.views:
            return
        source, shape = self.views[op.operand], shape_of(op.result)
        found = reshaped(source, shape)
        if found is None:
            found = self._destination(op, op.result)
            place = reshaped(found, source.shape)
            if place is None:
                place = matrix_view(source.shape, source.dtype, source.itemsize)
                self._copy(op, source, place)
                source, place = reshaped(place, shape), found
            assert source is not None
            self._copy(op, source, place)
        self.views[op.result] = found

    def _padded(self, op: PadOp) -> View:
        """A larger window of the buffer, if the padding is there already; else a copy with the number around it."""
        source = self.views[op.operand]
        low, interior = array_values(op.edge_padding_low), array_values(op.interior_padding)
        wanted, there = self._padding(op), source.halo
        if wanted is not None and there is not None and _holds(there, wanted):
            _, _, row, pixel = self.values.image_strides(source)
            return View(source.buffer, source.offset - wanted.top * row - wanted.left * pixel,
                        shape_of(op.result), source.strides, source.dtype)  # fmt: skip
        target = self._destination(op, op.result)
        number = self.values.constant(op.padding_value)
        assert number is not None
        self._fill(op, number, target)
        starts: list[int] = []
        places: list[int] = []
        counts: list[int] = []
        for size, extent, before, between in zip(source.shape, target.shape, low, interior, strict=True):
            first = max(0, -(before // (between + 1)))
            last = min(size - 1, (extent - 1 - before) // (between + 1))
            starts.append(first)
            places.append(before + first * (between + 1))
            counts.append(max(0, last + 1 - first))
        inside = part(target, places, counts, [between + 1 for between in interior])
        self._copy(op, part(source, starts, counts), inside)
        return target

    def _concatenated(self, op: ConcatenateOp) -> View:
        """Every part into its place, but those that are there already."""
        whole = self._wholes.get(op) or self._destination(op, op.result)
        for value, place in zip(op.inputs, parts_of(op, whole), strict=True):
            source = self.views[value]
            if (source.buffer, source.offset, source.strides) != (place.buffer, place.offset, place.strides):
                self._copy(op, source, place)
        return whole

    # Kernels.

    def _kernel(self, op: KernelOp) -> None:
        kind = op.kind.data
        if kind == "contraction":
            inputs, result = self._contraction(op)
            return self._call(op, inputs, [result])
        if kind == "product":
            inputs, result = self._product(op)
            return self._call(op, inputs, [result])
        inputs = [self.views[value] for value in op.inputs]
        if kind in ("sum", "table"):
            inputs = [self._fitting(op, value) for value in op.inputs]
            return self._call(op, inputs, [self._bytes_for(op, op.values[0])])
        if kind == "quantize":
            return self._call(op, inputs, [self._bytes_for(op, op.values[0], narrow=True)])
        return self._call(op, inputs, [self._in_reshape(op, value) for value in op.values])

    def _call(self, op: KernelOp, inputs: Sequence[View], outputs: Sequence[View]) -> None:
        """The kernel on memrefs."""
        for value, view in zip(op.values, outputs, strict=True):
            self.views.setdefault(value, view)
        made = KernelOp(
            op.kind.data,
            [self.memory.of(view) for view in inputs],
            [self.memory.of(view) for view in outputs],
            (),
            op.detach_region(op.body),
            declined=op.reasons,
            row=None if op.row is None else op.row.value.data,
        )
        self.memory.insert(made, op)

    def _in_reshape(self, op: KernelOp, value: SSAValue) -> View:
        """Where a loop nest writes a value: in the place of its reshape, if only that uses it."""
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        if isinstance(user, ReshapeOp) and op.kind.data in ("nest", "rows"):
            whole = self._destination(op, user.result)
            place = reshaped(whole, shape_of(value))
            if place is not None:
                self.views[user.result] = whole
                return place
        return self._destination(op, value)

    def _contraction(self, op: KernelOp) -> tuple[list[View], View]:
        match = contraction_of(self.program, op, self._found)
        result, source, other = op.values[0], match.source, match.tail.other
        added = [] if other is None else [self._added(op, op.inputs[-1], match)]
        # One operand that is both lies well for both as it is added.
        read = added.pop() if other is source else self._read(op, op.inputs[0], match)
        if match.windows is not None:
            read = self._surrounded(op, read, match.windows.padding)
        bytes_ = element_dtype(element_of(result)) == BYTE
        target = self._bytes_for(op, result) if bytes_ else self._floats_for(op, result)
        return [read, *added], target

    def _read(self, op: KernelOp, source: SSAValue, match: ContractionMatch) -> View:
        """What a contraction reads, as it can."""
        if match.arithmetic is not None:
            view = self._fitting(op, source, 16 if match.depthwise else 4)
            return view if match.matrix is None else self._even(op, view)
        view = self.views[source]
        if match.matrix is not None or match.depthwise or self.values.image_strides(view)[1] != view.itemsize:
            return self._lined(op, source)
        return view

    def _added(self, op: KernelOp, other: SSAValue, match: ContractionMatch) -> View:
        """What a contraction adds at its end."""
        if match.tail.sum is None:
            return self._lined(op, other)
        view = self._fitting(op, other)
        return view if match.matrix is None else self._even(op, view)

    def _even(self, op: Operation, view: View) -> View:
        """Rows at even distances, where they are not so: a copy."""
        if has_even_rows(view):
            return view
        made = matrix_view(view.shape, view.dtype, 16)
        self._copy(op, view, made)
        return made

    def _product(self, op: KernelOp) -> tuple[list[View], View]:
        match = product_of(self.program, op, self._found)
        dims = match.dimensions
        lhs, rhs = self.views[op.inputs[0]], self.views[op.inputs[-1]]
        if match.output is None:
            left = lhs if lhs.strides[dims.term] == lhs.itemsize else self._turned(op, lhs, dims.term, lhs.itemsize)
            return [left] if match.lhs is match.rhs else [left, rhs], self._target(op)
        left = lhs if _words(lhs, (dims.term,)) else self._turned(op, lhs, dims.term, 16)
        if match.lhs is match.rhs:
            return [left], self._target(op)
        last = len(rhs.shape) - 1
        right = rhs if _words(rhs, (dims.other_term, dims.column)) else self._turned(op, rhs, last, 16)
        return [left, right], self._target(op)

    def _turned(self, op: Operation, view: View, inner: int, multiple: int) -> View:
        """A copy whose elements are adjacent in dimension `inner`."""
        order = tuple(sorted(range(len(view.shape)), key=lambda d: d == inner))
        made = matrix_view([view.shape[d] for d in order], view.dtype, multiple)
        made = transposed(made, tuple(order.index(d) for d in range(len(order))))
        self._copy(op, view, made)
        return made

    def _target(self, op: KernelOp) -> View:
        """A new view for a product; where a transpose alone uses it, so that the transposed value lies in order."""
        value = op.values[0]
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        bytes_ = element_dtype(element_of(value)) == BYTE
        kept = user.result if isinstance(user, TransposeOp) else value
        whole = self._bytes_for(op, kept) if bytes_ else self._floats_for(op, kept)
        if not isinstance(user, TransposeOp):
            return whole
        self.views[user.result] = whole
        order = array_values(user.permutation)
        return transposed(whole, tuple(order.index(d) for d in range(len(order))))

    # Operands that lie as kernels can read them.

    def _fitting(self, op: Operation, value: SSAValue, multiple: int = 16) -> View:
        """A value for kernels that read `multiple` bytes at a time of adjacent channels (of images) or elements.

        Nothing that they read so lies outside of the buffer. What lies otherwise is copied.
        """
        view = self.views[value]
        if self.values.fits(view, multiple):
            return view
        made = self.values.fresh(view.shape, view.dtype)
        self._copy(op, view, made)
        return made

    def _lined(self, op: Operation, value: SSAValue) -> View:
        """A value in whole lines: copied where it lies otherwise."""
        view, inner = self.views[value], self.values.innermost(value)
        outer = [step for d, step in enumerate(view.strides) if d != inner and view.shape[d] > 1]
        whole = not any(step % ALIGNMENT for step in (*outer, view.offset, view.buffer.size))
        if whole and view.strides[inner] == view.itemsize and (self.values.is_image(value) or has_even_rows(view)):
            return view
        made = self.values.fresh(view.shape, view.dtype, ALIGNMENT)
        self._copy(op, view, made)
        return made

    def _surrounded(self, op: Operation, view: View, padding: Halo | None) -> View:
        """An image with padding around it; the image is copied where that is not there."""
        if padding is None or (view.halo is not None and _holds(view.halo, padding)):
            return view
        made = self._image(view.shape, view.dtype, 16 if view.dtype == BYTE else ALIGNMENT, padding)
        self._border(op, made, padding)
        self._copy(op, view, made)
        return made

    # Places for results.

    def _destination(self, op: Operation, value: SSAValue) -> View:
        """The caller's array, where a value is only returned; else a new view."""
        found = self.values.output(value)
        if found is not None:
            return self._caller(value, found.buffer.index)
        dtype = element_dtype(element_of(value))
        return self._bytes_for(op, value) if dtype == BYTE else self.values.fresh(shape_of(value), dtype)

    def _caller(self, value: SSAValue, index: int) -> View:
        """The caller's array number `index`, which holds a value."""
        view = dense(value, Space.OUTPUT, index)
        type_ = MemRefType(element_of(value), shape_of(value), memory_space=StringAttr("output"))
        self.memory.allocate(view, type_)
        return view

    def _image(self, shape: tuple[int, ...], dtype: np.dtype[np.generic], multiple: int, halo: Halo | None) -> View:
        assert self.values.channel is not None
        pitch = -(-shape[self.values.channel] * dtype.itemsize // multiple) * multiple
        return image_view(shape, self.values.channel, pitch, dtype, halo)

    def _floats_for(self, op: Operation, value: SSAValue) -> View:
        """A new view for f32 in whole lines, with the padding (by 0) that its users want; its border is filled."""
        halo = self._halo(value) if self.values.is_image(value) else None
        if halo is None:
            return self.values.fresh(shape_of(value), REAL, ALIGNMENT)
        view = self._image(shape_of(value), REAL, ALIGNMENT, halo)
        self._border(op, view, halo)
        return view

    def _bytes_for(self, op: Operation, value: SSAValue, *, narrow: bool = False) -> View:
        """A new view for stored 8-bit integers, with the padding that their users want; its border is filled.

        `narrow` allows 4 bytes a pixel for up to four channels, from kernels that write no more.
        """
        if value not in self._allocated:
            self._allocated[value] = self._new_bytes(op, value, narrow)
        return self._allocated[value]

    def _new_bytes(self, op: Operation, value: SSAValue, narrow: bool) -> View:
        shape = shape_of(value)
        if not self.values.is_image(value):
            return matrix_view(shape, BYTE, 16)
        halo = self._halo(value)
        inside = None if halo is not None or narrow else self._inside_concatenation(value)
        if inside is not None:
            return inside
        few = narrow and shape[self.values.innermost(value)] <= 4
        view = self._image(shape, BYTE, 4 if few else 16, halo)
        if halo is not None:
            self._border(op, view, halo)
        return view

    def _inside_concatenation(self, value: SSAValue) -> View | None:
        """Where a value lies in the concatenation that uses it, if kernels can write it there."""
        channel = self.values.channel
        for use in value.uses:
            op = use.operation
            if not isinstance(op, ConcatenateOp) or list(op.inputs).index(value) != use.index:
                continue
            sizes = [shape_of(part)[channel or 0] for part in op.inputs[:-1]]
            if int(op.dimension.value.data) == channel and any(size % 16 for size in sizes):
                continue
            if op not in self._wholes:
                self._wholes[op] = self._bytes_for(op, op.result)
            return parts_of(op, self._wholes[op])[use.index]
        return None

    # Padding.

    def _halo(self, value: SSAValue) -> Halo | None:
        """The padding that users add with one value; None where nobody pads it with a constant."""
        found: Halo | None = None
        for use in value.uses:
            user = use.operation
            if isinstance(user, StorageCastOp):
                wanted = self._halo(user.result)
            elif isinstance(user, PadOp) and use.index == 0:
                wanted = self._padding(user)
            elif isinstance(user, KernelOp) and user.kind.data == "contraction":
                windows = contraction_of(self.program, user, self._found).windows
                wanted = None if windows is None or use.index else windows.padding
            else:
                continue
            if wanted is not None and (found is None or found.value == wanted.value):
                found = wanted if found is None else found.union(wanted)
        return found

    def _padding(self, op: PadOp) -> Halo | None:
        """The padding of a `pad` of the image dimensions by a constant; None for any other."""
        value = self.values.splat(op.padding_value)
        rank = len(shape_of(op.operand))
        low, high, interior = (
            array_values(a, (0,) * rank) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
        )
        if value is None or not self.values.is_image(op.operand) or any(interior) or min(*low, *high) < 0:
            return None
        y, x = self.values.spatial
        dtype = element_dtype(element_of(op.operand))
        if any(low[d] or high[d] for d in range(4) if d not in (y, x)) or (dtype != BYTE and value != 0):
            return None
        return Halo(low[y], low[x], high[y], high[x], int(value))

    # Ops of the layout itself.

    def _border(self, op: Operation, view: View, halo: Halo) -> None:
        self.memory.insert(BorderOp(self.memory.of(view), halo.sides, halo.value), op)

    def _copy(self, op: Operation, source: View, target: View) -> None:
        """Write the elements of one view to another of the same shape and dtype."""
        if math.prod(target.shape):
            block = Block(arg_types=[TensorType(dtype_element(source.dtype), source.shape)])
            block.add_op(YieldOp([block.args[0]]))
            places = [self.memory.of(source)], [self.memory.of(target)]
            self.memory.insert(KernelOp("copy", *places, (), Region(block)), op)

    def _fill(self, op: Operation, number: np.ndarray[tuple[int, ...], np.dtype[np.generic]], target: View) -> None:
        """Repeat a number."""
        if math.prod(target.shape):
            constant = constant_op(number.reshape(()), self.program.weights)
            repeated = BroadcastInDimOp(constant.output, with_shape(constant.output, target.shape), [])
            block = Block([constant, repeated, YieldOp([repeated.result])])
            self.memory.insert(KernelOp("fill", (), [self.memory.of(target)], (), Region(block)), op)


def _holds(there: Halo, wanted: Halo) -> bool:
    """Whether padding that is there is enough."""
    return there.value == wanted.value and there.union(wanted) == there


def _words(view: View, dimensions: tuple[int, ...]) -> bool:
    """Whether a view has activation bytes, adjacent in one of the dimensions, whose words of four may be read."""
    inner = next((d for d in dimensions if view.strides[d] == 1), None)
    others = [step for d, step in enumerate(view.strides) if d != inner and view.shape[d] > 1]
    return view.activations and inner is not None and not any(n % 4 for n in (*others, view.offset, view.buffer.size))

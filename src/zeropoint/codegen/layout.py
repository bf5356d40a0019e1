"""Memory layout: `Program -> Program`, from kernels on tensors to kernels on memrefs.

    %y = "native.kernel"(%x) ({...}) : (tensor<1x8x4x4xi8>) -> tensor<1x8x4x4xi8>

becomes

    %b = memref.alloc() : memref<576xi8, "arena">
    %v = memref.reinterpret_cast %b to offset: [112], sizes: [1, 8, 4, 4], strides: [576, 1, 96, 16]
    "native.border"(%v) <{sides = array<i64: 1, 1, 1, 1>, value = 0}>
    "native.kernel"(%u, %v) ({...})

Images have their channels innermost, with pixels and rows at multiples of 16 bytes (64 for floats). Padding around an
image is part of the image's buffer, so that a `pad` is a larger view of it. Operands of a concatenation are computed in
place, and results in the caller's arrays. A value is copied if a kernel cannot read its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.bufferization import ToTensorOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, OpResult, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.codegen.allocation import Allocation, holds
from zeropoint.codegen.controlled import inside
from zeropoint.codegen.graph import Space, View, dense_view, matrix_view, row_major
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.memrefs import Memory, unconverted
from zeropoint.codegen.operands import Operands, is_read_by_words
from zeropoint.codegen.patterns.contraction import ContractionMatch, contraction_of
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.patterns.products import product_of
from zeropoint.codegen.values import Values
from zeropoint.codegen.views import part, parts_of, reshaped, transposed
from zeropoint.errors import reading
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import describe, noting
from zeropoint.ir.native import ControlOp, KernelOp, NativeWhileOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import ConcatenateOp, ConstantOp, IotaOp, PadOp, ReshapeOp, TransposeOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.limits import LimitExceeded, afford

IN_RESHAPES = frozenset({"nest", "rows", "dequantize"})
"""Kernels that can write any view."""


def layout(program: Program) -> Program:
    """A copy of a grouped program with memrefs as the operands of its kernels.

    Raises CodegenError for a program that is not grouped, and for one that has memrefs already.
    """
    if is_laid_out(program) and any(isinstance(op, KernelOp) for op in program.entry.ops):
        raise CodegenError("found a program that has memrefs already, expected one from 'group'", program.main)
    laid = program.clone()
    with reading("kernels", CodegenError):  # from a text, which may have been edited
        lay_out(laid, {})
    return laid


def lay_out(program: Program, found: Found, observed: int = 0) -> None:
    """`layout` in place; `found` has the matches of the program's kernels.

    The last `observed` results stay where they were computed: the caller gets no copy of them.
    """
    _Layout(program, found).run(observed)


def is_laid_out(program: Program) -> bool:
    """Whether a program has memrefs."""
    last = program.entry.last_op
    assert isinstance(last, ReturnOp)
    returned = map(unconverted, last.operands)
    return all(isinstance(value, OpResult) and isinstance(value.op, ToTensorOp) for value in returned)


class _Layout:
    """Appends new ops after the old ones, which are removed at the end. `views` maps old values to their views."""

    def __init__(self, program: Program, found: Found):
        self.program = program
        self._found = found
        self.block = program.entry
        self.values = Values(program, self.block, lambda value: value in self.views)
        self.memory = Memory(self.block)
        self.views: dict[SSAValue, View] = {}
        self.allocation = Allocation(program, self.values, self.memory, found)
        self.operands = Operands(self.values, self.allocation, self.views)

    def run(self, observed: int) -> None:
        *old, last = self.block.ops
        assert isinstance(last, ReturnOp)
        count = len(last.operands) - observed
        kept, last.operands = last.operands[count:], last.operands[:count]
        for argument in self.block.args:
            self.views[argument] = self.memory.given(argument, Space.INPUT, argument.index)
        for op in old:
            with noting(op):
                try:
                    self._lay_out(op)
                except LimitExceeded as error:
                    raise LimitExceeded(f"{describe(op)}: {error}") from error
        results = [self._returned(last, index) for index in range(len(last.operands))]
        types = [value.type for value in last.operands]
        returned = [self.memory.returned(view, type_) for view, type_ in zip(results, types, strict=True)]
        last.operands = [*returned, *(self.memory.kept(self.views[value], value.type) for value in kept)]
        # In reverse, so that every op is erased after its users.
        for op in old[::-1]:
            if not isinstance(op, ConstantOp) or not op.output.first_use:
                Rewriter.erase_op(op)

    def _lay_out(self, op: Operation) -> None:
        if isinstance(op, KernelOp):
            self._kernel(op)
        elif isinstance(op, ControlOp):
            self._control(op)
        else:
            self._move(op)

    def _move(self, op: Operation) -> None:
        """Lay out an op outside of kernels."""
        if isinstance(op, ConstantOp):
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
        elif not isinstance(op, ConcatenateOp):
            raise CodegenError(f"{describe(op)}: found an op outside of kernels, expected none; run 'group' before", op)
        else:
            self.views[op.result] = self._concatenated(op)

    def _returned(self, op: ReturnOp, index: int) -> View:
        """The caller's array of a result. The kernel writes it directly, or the value is copied to it."""
        view = self.views[op.operands[index]]
        # A value that is returned twice is computed in the first array and copied to the second one.
        if view.buffer.space is Space.OUTPUT and view.buffer.index == index:
            return view
        result = self.allocation.caller(op.operands[index], index)
        self.allocation.copy(op, view, result)
        return result

    # Values that are moved as a whole.

    def _iota(self, op: IotaOp) -> View:
        shape, dimension = shape_of(op.output), int(op.iota_dimension.value.data)
        afford(shape, element_dtype(element_of(op.output)).itemsize)
        counts = np.arange(shape[dimension]).astype(element_dtype(element_of(op.output)))
        ones = [shape[dimension] if d == dimension else 1 for d in range(len(shape))]
        array = np.ascontiguousarray(np.broadcast_to(counts.reshape(ones), shape))
        made = self.memory.insert(constant_op(array, self.program.weights))
        return self.memory.given(made.results[0], Space.WEIGHTS)

    def _reshape(self, op: ReshapeOp) -> None:
        """Make a reshape another view of the operand, or of a copy if the strides do not allow a view."""
        if op.result in self.views:
            return
        source, shape = self.views[op.operand], shape_of(op.result)
        found = reshaped(source, shape)
        if found is None:
            found = self.allocation.destination(op, op.result)
            into = reshaped(found, source.shape)
            if into is None:
                # Neither value can be viewed in the shape of the other, so the elements are copied twice: first to a
                # dense buffer in the old shape.
                into = matrix_view(source.shape, source.dtype, source.itemsize)
                self.allocation.copy(op, source, into)
                source, into = reshaped(into, shape), found
            assert source is not None
            self.allocation.copy(op, source, into)
        self.views[op.result] = found

    def _padded(self, op: PadOp) -> View:
        """A larger view of the buffer if it has the padding already; otherwise a copy with padding around it."""
        source = self.views[op.operand]
        low, interior = array_values(op.edge_padding_low), array_values(op.interior_padding)
        wanted, there = self.allocation.padding(op), source.halo
        if wanted is not None and there is not None and holds(there, wanted):
            # The buffer has space for the padding, which is filled already, so the padded value is only a view.
            _, _, row, pixel = self.values.image_strides(source)
            return View(source.buffer, source.offset - wanted.top * row - wanted.left * pixel,
                        shape_of(op.result), source.strides, source.dtype)  # fmt: skip
        target = self.allocation.destination(op, op.result)
        number = self.values.constant(op.padding_value)
        assert number is not None
        starts: list[int] = []
        corner: list[int] = []
        counts: list[int] = []
        for size, extent, before, between in zip(source.shape, target.shape, low, interior, strict=True):
            # Negative padding crops. These are the first elements that remain, and their indices in the result.
            first = max(0, -(before // (between + 1)))
            last = min(size - 1, (extent - 1 - before) // (between + 1))
            starts.append(first)
            corner.append(before + first * (between + 1))
            counts.append(max(0, last + 1 - first))
        if tuple(counts) != target.shape:
            # The whole target is filled before the copy, because the positions of interior padding are not a view.
            self.allocation.fill(op, number, target)
        into = part(target, corner, counts, [between + 1 for between in interior])
        self.allocation.copy(op, part(source, starts, counts), into)
        return target

    def _concatenated(self, op: ConcatenateOp) -> View:
        """Copy every operand to its part, except those computed in place."""
        whole = self.allocation.wholes.get(op) or self.allocation.destination(op, op.result)
        for value, into in zip(op.inputs, parts_of(op, whole), strict=True):
            source = self.views[value]
            # Operands that were computed in place need no copy.
            if (source.buffer, source.offset, source.strides) != (into.buffer, into.offset, into.strides):
                self.allocation.copy(op, source, into)
        return whole

    # Loops and branches.

    def _control(self, op: ControlOp) -> None:
        """Emit a loop or branch on memrefs. They are dense, like the arguments and results of a program."""
        results = [self.allocation.carried(value) for value in op.values]
        operands = list(op.inputs)
        if isinstance(op, NativeWhileOp):
            for value, view in zip(op.inputs, results, strict=False):
                self.allocation.copy(op, self.views[value], view)
            operands = list(op.captured)
        inputs = [self._handed(op, self.views[value]) for value in operands]
        self.views.update(zip(op.values, results, strict=True))
        memrefs = [[self.memory.of(view) for view in views] for views in (inputs, results)]
        channels = array_values(op.channels)
        regions = [op.detach_region(region) for region in list(op.programs)]
        made = type(op)(memrefs[0], memrefs[1], (), regions, channels)
        self.memory.insert(made, op)
        for number in range(len(regions)):
            with inside(self.program, made, number) as program:
                lay_out(program, self._found)

    def _handed(self, op: Operation, view: View) -> View:
        """A value for the regions of a loop or branch, copied unless it is dense and stored without an offset."""
        if view.is_dense and not view.activations:
            return replace(view, strides=row_major(view.shape, view.itemsize), halo=None)
        return self.allocation.copy(op, view, dense_view(view.shape, view.dtype, Space.CARRIED))

    # Kernels.

    def _kernel(self, op: KernelOp) -> None:
        kind = op.kind.data
        if kind in ("contraction", "product"):
            inputs, result = self._contraction(op) if kind == "contraction" else self._product(op)
            return self._call(op, inputs, [result])
        inputs = [self.views[value] for value in op.inputs]
        if kind == "bytes":
            inputs = [self.operands.adjacent(op, value) for value in op.inputs]
            # The kernel writes the caller's array directly, unless it is an image, whose order in memory differs.
            made = self.allocation.bytes_for if self.values.is_image(op.values[0]) else self.allocation.destination
            return self._call(op, inputs, [made(op, op.values[0])])
        if kind == "quantize":
            return self._call(op, inputs, [self.allocation.bytes_for(op, op.values[0], narrow=True)])
        return self._call(op, inputs, [self._in_reshape(op, value) for value in op.values])

    def _call(self, op: KernelOp, inputs: Sequence[View], outputs: Sequence[View]) -> None:
        """Emit the kernel on memrefs."""
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
        """The view that a kernel writes. If the only user is a reshape, some kernels write the reshaped layout."""
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        if isinstance(user, ReshapeOp) and op.kind.data in IN_RESHAPES:
            whole = self.allocation.destination(op, user.result)
            into = reshaped(whole, shape_of(value))
            if into is not None:
                self.views[user.result] = whole
                return into
        return self.allocation.destination(op, value)

    def _contraction(self, op: KernelOp) -> tuple[list[View], View]:
        match = contraction_of(self.program, op, self._found)
        result, source, other = op.values[0], match.source, match.tail.other
        added = [] if other is None else [self._added(op, value, match) for value in op.inputs[1:] or op.inputs]
        # If the source and the added value are the same, one view in the layout of the added value is used for both.
        read = added.pop() if other is source else self._read(op, op.inputs[0], match)
        if match.windows is not None:
            read = self.operands.surrounded(op, read, match.windows.padding)
        return [read, *added], self.allocation.sums_for(op, result)

    def _read(self, op: KernelOp, source: SSAValue, match: ContractionMatch) -> View:
        """The source of a contraction, in a layout that its kernel can read."""
        padding = None if match.windows is None else match.windows.padding
        if match.arithmetic is not None:
            if match.windows is not None and match.windows.reads_rows and self.values.has_rows(self.views[source]):
                return self.views[source]
            view = self.operands.fitting(op, source, 16 if match.depthwise else 4, padding)
            return view if match.matrix is None else self.operands.even(op, view)
        if match.matrix is not None or match.depthwise:
            return self.operands.lined(op, source, padding)
        return self.operands.interleaved(op, source, padding)

    def _added(self, op: KernelOp, other: SSAValue, match: ContractionMatch) -> View:
        """The value that a contraction adds at its end, or its factors, in a layout that the kernel can read."""
        if match.factor is not None:
            return self.operands.without_gaps(op, other)
        if element_dtype(element_of(other)) != np.int8:
            return self.operands.lined(op, other)
        view = self.operands.fitting(op, other)
        return view if match.matrix is None else self.operands.even(op, view)

    def _product(self, op: KernelOp) -> tuple[list[View], View]:
        match = product_of(self.program, op, self._found)
        dims = match.dimensions
        lhs, rhs = self.views[op.inputs[0]], self.views[op.inputs[-1]]
        if match.output is None:
            adjacent = lhs.strides[dims.term] == lhs.itemsize
            left = lhs if adjacent else self.operands.turned(op, lhs, dims.term, lhs.itemsize)
            return [left] if match.lhs is match.rhs else [left, rhs], self._target(op)
        # The dot product reads four adjacent terms of a row at once.
        left = lhs if is_read_by_words(lhs, (dims.term,)) else self.operands.turned(op, lhs, dims.term, 16)
        if match.lhs is match.rhs:
            return [left], self._target(op)
        last = len(rhs.shape) - 1
        by_words = is_read_by_words(rhs, (dims.other_term, dims.column))
        right = rhs if by_words else self.operands.turned(op, rhs, last, 16)
        return [left, right], self._target(op)

    def _target(self, op: KernelOp) -> View:
        """A new view for a product. If a transpose is its only user, the transposed value is in default layout."""
        value = op.values[0]
        user = next(iter(value.uses)).operation if value.has_one_use() else None
        kept = user.result if isinstance(user, TransposeOp) else value
        whole = self.allocation.sums_for(op, kept)
        if not isinstance(user, TransposeOp):
            return whole
        self.views[user.result] = whole
        order = array_values(user.permutation)
        return transposed(whole, tuple(order.index(d) for d in range(len(order))))

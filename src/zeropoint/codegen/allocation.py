"""The memory that `layout` allocates for new values: pitch, padding, concatenations in place, and caller's arrays."""

from __future__ import annotations

import math

import numpy as np
from xdsl.dialects.builtin import MemRefType, StringAttr, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.codegen.graph import Halo, Space, View, matrix_view
from zeropoint.codegen.memrefs import Memory, stored_element
from zeropoint.codegen.parameters import ALIGNMENT
from zeropoint.codegen.patterns.contraction import contraction_of
from zeropoint.codegen.patterns.match import Found
from zeropoint.codegen.values import Values, dense
from zeropoint.codegen.views import parts_of
from zeropoint.ir.constants import constant_op
from zeropoint.ir.native import BorderOp, KernelOp, YieldOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConcatenateOp, PadOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import dtype_element, element_dtype, element_of, shape_of, with_shape

BYTE = np.dtype(np.int8)


class Allocation:
    """Creates views of new buffers, and the ops that fill or copy them."""

    def __init__(self, program: Program, values: Values, memory: Memory, found: Found):
        self.program, self.values, self.memory = program, values, memory
        self.wholes: dict[ConcatenateOp, View] = {}
        """The views of concatenations whose operands are computed in place."""
        self._found = found
        self._allocated: dict[SSAValue, View] = {}

    def destination(self, op: Operation, value: SSAValue) -> View:
        """The view that a value is computed in: the caller's array if it is only returned, else a new view."""
        found = self.values.output(value)
        if found is not None:
            return self.caller(value, found.buffer.index)
        dtype = element_dtype(element_of(value))
        return self.bytes_for(op, value) if dtype == BYTE else self.values.fresh(shape_of(value), dtype)

    def caller(self, value: SSAValue, index: int) -> View:
        """The caller's array number `index`, for a value that is returned."""
        view = dense(value, Space.OUTPUT, index)
        type_ = MemRefType(stored_element(value), shape_of(value), memory_space=StringAttr("output"))
        self.memory.allocate(view, type_)
        return view

    def carried(self, value: SSAValue) -> View:
        """A dense view for a value that a loop carries or a branch returns.

        It is the caller's array if the value is only returned.
        """
        found = self.values.output(value)
        return dense(value, Space.CARRIED) if found is None else self.caller(value, found.buffer.index)

    def padded(
        self, op: Operation, shape: tuple[int, ...], dtype: np.dtype[np.generic], multiple: int, halo: Halo | None
    ) -> View:
        """A new view with padding around it, and the op that fills the padding."""
        view = self.values.fresh(shape, dtype, multiple, halo)
        if halo is not None:
            self.memory.insert(BorderOp(self.memory.of(view), halo.sides, halo.value), op)
        return view

    def sums_for(self, op: Operation, value: SSAValue) -> View:
        """A new view for the result of a contraction.

        8-bit integers are stored as by `bytes_for`. Wider integers and floats are stored in whole cache lines. Images
        have the zero padding that their users need.
        """
        dtype = element_dtype(element_of(value))
        if dtype == BYTE:
            return self.bytes_for(op, value)
        halo = self.halo(value) if self.values.is_image(value) else None
        return self.padded(op, shape_of(value), dtype, ALIGNMENT, halo)

    def bytes_for(self, op: Operation, value: SSAValue, *, narrow: bool = False) -> View:
        """A new view for stored 8-bit integers, with the padding that their users need.

        `narrow` allows 4 bytes per pixel for up to four channels, for kernels that write only 4 bytes.
        """
        if value not in self._allocated:
            self._allocated[value] = self._new_bytes(op, value, narrow)
        return self._allocated[value]

    def _new_bytes(self, op: Operation, value: SSAValue, narrow: bool) -> View:
        shape = shape_of(value)
        if not self.values.is_image(value):
            return matrix_view(shape, BYTE, 16)
        halo = self.halo(value)
        # A value with padding needs space around it, which its neighbours in a concatenation occupy.
        inside = None if halo is not None or narrow else self._inside_concatenation(value)
        if inside is not None:
            return inside
        few = narrow and shape[self.values.innermost(value)] <= 4
        pitch = 1 if few and self._is_read_in_rows(value) else 4 if few else 16
        return self.padded(op, shape, BYTE, pitch, halo)

    def _is_read_in_rows(self, value: SSAValue) -> bool:
        """Whether all readers of an image of one channel are contractions that take rows of adjacent bytes."""
        for use in value.uses:
            user = use.operation
            if isinstance(user, StorageCastOp) or (isinstance(user, PadOp) and use.index == 0):
                if not self._is_read_in_rows(user.results[0]):
                    return False
            elif isinstance(user, KernelOp) and user.kind.data == "contraction":
                windows = contraction_of(self.program, user, self._found).windows
                if use.index or windows is None or not windows.reads_rows:
                    return False
            else:
                return False
        return True

    def _inside_concatenation(self, value: SSAValue) -> View | None:
        """The view of a value inside a concatenation that reads it; None if kernels cannot write it there."""
        channel = self.values.channel
        for use in value.uses:
            op = use.operation
            # An operand that occurs twice can be computed in only one of its parts.
            if not isinstance(op, ConcatenateOp) or list(op.inputs).index(value) != use.index:
                continue
            sizes = [shape_of(part)[channel or 0] for part in op.inputs[:-1]]
            # Kernels write whole blocks of 16 channels. A part that begins inside a block would be overwritten by the
            # previous part.
            if int(op.dimension.value.data) == channel and any(size % 16 for size in sizes):
                continue
            if op not in self.wholes:
                self.wholes[op] = self.bytes_for(op, op.result)
            return parts_of(op, self.wholes[op])[use.index]
        return None

    # Padding.

    def halo(self, value: SSAValue) -> Halo | None:
        """The smallest padding that covers the constant padding of all users of a value; None if there is none."""
        found: Halo | None = None
        for use in value.uses:
            user = use.operation
            if isinstance(user, StorageCastOp):
                wanted = self.halo(user.result)
            elif isinstance(user, PadOp) and use.index == 0:
                wanted = self.padding(user)
            elif isinstance(user, KernelOp) and user.kind.data == "contraction":
                windows = contraction_of(self.program, user, self._found).windows
                wanted = None if windows is None or use.index else windows.padding
            else:
                continue
            # A buffer has one border, so the first padding value is used. Users that need another value get a copy.
            if wanted is not None and (found is None or found.value == wanted.value):
                found = wanted if found is None else found.union(wanted)
        return found

    def padding(self, op: PadOp) -> Halo | None:
        """The padding of a `pad` of the image dimensions with a constant; None for any other `pad`."""
        value = self.values.splat(op.padding_value)
        rank = len(shape_of(op.operand))
        low, high, interior = (
            array_values(a, (0,) * rank) for a in (op.edge_padding_low, op.edge_padding_high, op.interior_padding)
        )
        if value is None or not self.values.is_image(op.operand) or any(interior) or min(*low, *high) < 0:
            return None
        y, x = self.values.spatial
        dtype = element_dtype(element_of(op.operand))
        # `native.border` fills only borders of bytes, or of zeros.
        if any(low[d] or high[d] for d in range(4) if d not in (y, x)) or (dtype != BYTE and value != 0):
            return None
        return Halo(low[y], low[x], high[y], high[x], int(value))

    # Ops of the layout itself.

    def copy(self, op: Operation, source: View, target: View) -> View:
        """Copy the elements of one view to another of the same shape and dtype. Returns the target."""
        if math.prod(target.shape):
            block = Block(arg_types=[TensorType(dtype_element(source.dtype), source.shape)])
            block.add_op(YieldOp([block.args[0]]))
            memrefs = [self.memory.of(source)], [self.memory.of(target)]
            self.memory.insert(KernelOp("copy", *memrefs, (), Region(block)), op)
        return target

    def fill(self, op: Operation, number: np.ndarray[tuple[int, ...], np.dtype[np.generic]], target: View) -> None:
        """Fill a view with one number."""
        if math.prod(target.shape):
            constant = constant_op(number.reshape(()), self.program.weights)
            repeated = BroadcastInDimOp(constant.output, with_shape(constant.output, target.shape), [])
            block = Block([constant, repeated, YieldOp([repeated.result])])
            self.memory.insert(KernelOp("fill", (), [self.memory.of(target)], (), Region(block)), op)


def holds(there: Halo, wanted: Halo) -> bool:
    """Whether the existing padding includes the wanted padding."""
    return there.value == wanted.value and there.union(wanted) == there

"""The memrefs of buffers and views, as emitted by `layout`."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from xdsl.dialects.bufferization import ToBufferOp, ToTensorOp
from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerType,
    MemRefType,
    NoneAttr,
    StridedLayoutAttr,
    StringAttr,
    UnrealizedConversionCastOp,
    i32,
    i64,
)
from xdsl.dialects.memref import AllocOp, MemorySpaceCastOp, ReinterpretCastOp
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue

from zeropoint.codegen.graph import Buffer, Space, View, row_major
from zeropoint.codegen.values import dense
from zeropoint.ir.native import memory_of
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.tensors import dtype_element, element_dtype, element_of, with_element
from zeropoint.limits import afford


class Memory:
    """Creates the memrefs of buffers and views, each once, at the end of the block."""

    def __init__(self, block: Block):
        self._block = block
        self._bases: dict[Buffer, SSAValue] = {}
        self._memrefs: dict[object, SSAValue] = {}
        self._given: dict[Buffer, tuple[SSAValue, View]] = {}

    def insert(self, op: Operation, like: Operation | None = None) -> Operation:
        """Insert an op at the end, before the terminator."""
        if like is not None:
            op.location = like.location
        last = self._block.last_op
        assert last is not None
        self._block.insert_op_before(op, last)
        return op

    def given(self, value: SSAValue, space: Space, index: int = 0) -> View:
        """The view of a tensor that is in memory already: an argument or a constant."""
        view = dense(value, space, index)
        self._given[view.buffer] = value, view
        return view

    def allocate(self, view: View, type_: MemRefType[Attribute]) -> None:
        """Allocate the buffer of a view. For a caller's array, the allocation is the view itself.

        Raises LimitExceeded for a buffer that exceeds the memory limit.
        """
        afford(type_.get_shape(), view.itemsize, "memory")
        # `create` is used because xDSL's general constructor takes ten times as long.
        made = self.insert(AllocOp.create(result_types=[type_], properties=_NO_SIZES)).results[0]
        self._bases[view.buffer] = made
        if view.buffer.space is Space.OUTPUT:
            self._memrefs[_key(view)] = made

    def returned(self, view: View, type_: Attribute) -> SSAValue:
        """A caller's array as a tensor of the returned type."""
        base = self._bases[view.buffer]
        cast = self.insert(MemorySpaceCastOp(base, MemRefType(memory_of(base).element_type, view.shape)))
        return self._converted(self.insert(ToTensorOp(cast.results[0])).results[0], type_)

    def kept(self, view: View, type_: Attribute) -> SSAValue:
        """A value where it is, as a tensor of the type that is returned."""
        return self._converted(self.insert(ToTensorOp(self.of(view))).results[0], type_)

    def _converted(self, value: SSAValue, type_: Attribute) -> SSAValue:
        """A quantized value as its storage integers, or the reverse."""
        if value.type == type_:
            return value
        return self.insert(UnrealizedConversionCastOp(operands=[[value]], result_types=[[type_]])).results[0]

    def of(self, view: View) -> SSAValue:
        """The memref of a view."""
        key = _key(view)
        if key not in self._memrefs:
            if view.buffer in self._given:
                self._take(*self._given.pop(view.buffer))
                return self.of(view)
            if view.buffer not in self._bases:
                size = view.buffer.size // view.itemsize
                space = StringAttr(view.buffer.space.value)
                self.allocate(view, MemRefType(dtype_element(view.dtype), [size], memory_space=space))
            offset, sizes, strides, type_ = _attributes(
                view.buffer.space, view.offset, view.shape, view.strides, view.dtype
            )
            static = {"static_offsets": offset, "static_sizes": sizes, "static_strides": strides, **_STATIC}
            made = ReinterpretCastOp.create(
                operands=[self._bases[view.buffer]], result_types=[type_], properties=static
            )
            self._memrefs[key] = self.insert(made).results[0]
        return self._memrefs[key]

    def _take(self, value: SSAValue, view: View) -> None:
        """Create the memref of a tensor that is in memory already."""
        element = stored_element(value)
        value = self._converted(value, with_element(value, element))
        type_ = MemRefType(element, view.shape, memory_space=StringAttr(view.buffer.space.value))
        plain = self.insert(ToBufferOp.create(operands=[value], result_types=[MemRefType(element, view.shape)]))
        made = self.insert(MemorySpaceCastOp(plain.results[0], type_)).results[0]
        self._bases[view.buffer] = self._memrefs[_key(view)] = made


def stored_element(value: SSAValue) -> Attribute:
    """The element type of a value in memory: integers for a quantized value, as memrefs have no quantized types."""
    element = element_of(value)
    return dtype_element(element_dtype(element)) if isinstance(element, UniformQuantizedType) else element


def strides_of(value: SSAValue) -> tuple[int, tuple[int, ...]] | None:
    """The offset and the strides of a memref in elements; None if they are not known."""
    type_ = memory_of(value)
    if isinstance(type_.layout, NoneAttr):
        return 0, row_major(type_.get_shape(), 1)
    if not isinstance(type_.layout, StridedLayoutAttr):
        return None
    found, offset = type_.layout.get_strides(), type_.layout.get_offset()
    if offset is None or any(step is None for step in found):
        return None
    return offset, tuple(step for step in found if step is not None)


def size_of(value: SSAValue) -> int:
    """The size in bytes of a memref without gaps."""
    type_ = memory_of(value)
    return math.prod(type_.get_shape()) * element_dtype(type_.element_type).itemsize


def unconverted(value: SSAValue) -> SSAValue:
    """A value before its conversion between a quantized value and its storage integers, if it has one."""
    if isinstance(value, OpResult) and isinstance(value.op, UnrealizedConversionCastOp):
        return value.op.inputs[0]
    return value


_Numbers = DenseArrayBase[IntegerType]
_NO_SIZES = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [0, 0])}
_STATIC = {"operandSegmentSizes": DenseArrayBase.from_list(i32, [1, 0, 0, 0])}
"""The properties that xDSL's constructors would add to allocations and casts of static shapes."""


@lru_cache(1024)
def _attributes(
    space: Space, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype[np.generic]
) -> tuple[_Numbers, _Numbers, _Numbers, MemRefType[Attribute]]:
    """The offset, sizes and strides of a view, in elements, and its memref type."""
    first, steps = offset // dtype.itemsize, [step // dtype.itemsize for step in strides]
    type_ = MemRefType(dtype_element(dtype), shape, StridedLayoutAttr(steps, first), StringAttr(space.value))
    numbers = DenseArrayBase[IntegerType].from_list
    return numbers(i64, [first]), numbers(i64, shape), numbers(i64, steps), type_


def _key(view: View) -> object:
    return view.buffer, view.offset, view.shape, view.strides, view.dtype

"""Check that the memory of a laid out program meets the requirements of its kernels.

Programs from `layout` meet them. But the text of a program may have been edited, and kernels access memory without
checks:

```mlir
%0 = memref.alloc() : memref<576xi8, "arena">
%1 = memref.reinterpret_cast %0 to offset: [112], sizes: [1, 4, 4, 4], strides: [576, 1, 96, 16] : ...
"native.border"(%1) <{sides = array<i64: 1, 1, 1, 1>, value = 1 : i64}>
```
Every view must lie in its buffer, with its border and the rest of its last pixel. Elements of a view must not overlap.
They must be adjacent in the innermost dimension if kernels rely on it. Pixels of bytes must begin at multiples of 16
bytes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from xdsl.dialects.bufferization import ToBufferOp
from xdsl.dialects.builtin import NoneAttr, StringAttr, UnrealizedConversionCastOp
from xdsl.dialects.memref import AllocOp, MemorySpaceCastOp, ReinterpretCastOp
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.controlled import inside
from zeropoint.codegen.graph import Space, row_major
from zeropoint.codegen.layout import is_laid_out
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.memrefs import size_of, strides_of
from zeropoint.codegen.values import Values
from zeropoint.ir.native import BorderOp, ControlOp, KernelOp, NativeCaseOp, NativeWhileOp, memory_of
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of

LINE = 16
"""The number of bytes that a kernel may access at once. Vectors of activations are padded to multiples of it."""
VECTORS = ("contraction", "product", "rows")
"""The kinds of kernels that store 8-bit results in whole vectors."""


def check_laid_out(program: Program) -> None:
    """Raise CodegenError, with the op, for memory that kernels would access beyond its end or misinterpret."""
    values = Values(program, program.entry, lambda _: True)
    for op in program.entry.ops:
        if (rule := _RULES.get(type(op))) is not None:
            rule(values, op)


def _space(value: SSAValue) -> str:
    space = memory_of(value).memory_space
    return space.data if isinstance(space, StringAttr) else ""


def _allocation(_: Values, op: AllocOp) -> None:
    space = _space(op.memref)
    if space not in (Space.ARENA.value, Space.CARRIED.value, Space.OUTPUT.value):
        raise CodegenError(f'found memory space "{space}", expected "arena", "carried" or "output"', op)
    if min(memory_of(op.memref).get_shape(), default=0) < 0:
        raise CodegenError(f"found {op.memref.type}, expected a static shape", op)
    if not isinstance(memory_of(op.memref).layout, NoneAttr):
        raise CodegenError(f"found {op.memref.type}, expected an allocation without strides", op)


def _given(_: Values, op: ToBufferOp) -> None:
    if not isinstance(memory_of(op.memref).layout, NoneAttr):
        raise CodegenError(f"found {op.memref.type}, expected the array of the caller, without strides", op)


def _cast(_: Values, op: MemorySpaceCastOp) -> None:
    source, dest = memory_of(op.source), memory_of(op.dest)
    if (source.shape, source.element_type, source.layout) != (dest.shape, dest.element_type, dest.layout):
        raise CodegenError(f"found a cast of {source} to {dest}, expected the same memref in another space", op)


def _conversion(_: Values, op: UnrealizedConversionCastOp) -> None:
    alike = {(shape_of(value), element_dtype(element_of(value))) for value in (*op.inputs, *op.outputs)}
    if len(op.inputs) != 1 or len(op.outputs) != 1 or len(alike) != 1:
        raise CodegenError("found another conversion, expected one of a quantized tensor to its integers, or back", op)


def _view(values: Values, op: ReinterpretCastOp) -> None:
    type_, known, source = memory_of(op.result), strides_of(op.result), memory_of(op.source)
    if known is None or op.offsets or op.sizes or op.strides:
        raise CodegenError(f"found {type_}, expected an offset and strides that are numbers", op)
    offset, strides = known
    stated = tuple(tuple(array_values(a)) for a in (op.static_offsets, op.static_sizes, op.static_strides))
    if stated != ((offset,), tuple(type_.get_shape()), strides):
        raise CodegenError(f"found offset, sizes and strides {stated}, expected those of the result, {type_}", op)
    if (type_.element_type, _space(op.result)) != (source.element_type, _space(op.source)):
        raise CodegenError(f"found a view of {source} as {type_}, expected the same elements and space", op)
    if reason := _misfit(values, op.result, offset, strides, size_of(op.source)):
        raise CodegenError(f"found {type_} of {source}: {reason}", op)


def _misfit(values: Values, value: SSAValue, offset: int, strides: tuple[int, ...], size: int) -> str | None:
    """The reason why kernels cannot access a view of a buffer of `size` bytes; None if they can."""
    type_ = memory_of(value)
    shape, item = tuple(type_.get_shape()), element_dtype(type_.element_type).itemsize
    if not math.prod(shape):
        return None
    if offset < 0 or min(strides, default=0) < 0:
        return "expected an offset and strides that are not negative"
    steps = sorted((step, count) for step, count in zip(strides, shape, strict=True) if count > 1)
    reach = 1
    for step, count in steps:
        if step < reach:
            return "expected elements that do not overlap"
        reach = step * (count - 1) + reach
    end = (offset + reach) * item
    if _space(value) == Space.ARENA.value and shape:
        inner = values.innermost(value)
        if values.is_image(value) and shape[inner] > 1 and strides[inner] != 1 and not _by_element(value):
            return f"expected adjacent elements along dimension {inner}, the channels"
        if strides[inner] == 1 and offset * item % LINE == 0:
            # Kernels access whole vectors in the last pixel or row, up to where the next one would begin.
            pitch = min((step * item for d, step in enumerate(strides) if d != inner and shape[d] > 1), default=LINE)
            row = shape[inner] * item
            end = max(end, end - row + min(pitch, -(-row // LINE) * LINE))
    return None if end <= size else f"it ends at byte {end}, expected at most {size}"


def _by_element(value: SSAValue) -> bool:
    """Whether only kernels that support any strides access a view.

    These are copies, such as interior padding of channels, and loop nests. A nest or rows may write an image in the
    layout of its reshape. Rows need adjacent elements along their own dimension, which `_kernel` checks.
    """
    users = [use.operation for use in value.uses]
    return all(isinstance(op, KernelOp) and op.kind.data in ("copy", "nest", "rows") for op in users)


def _kernel(values: Values, op: KernelOp) -> None:
    """Check the results of a kernel. Kernels that store whole vectors need results at multiples of a vector."""
    if op.kind.data not in VECTORS:
        return
    for number, value in enumerate(op.outputs):
        known, type_ = strides_of(value), memory_of(value)
        if known is None:
            raise CodegenError(f"found {type_}, expected an offset and strides that are numbers", op)
        (offset, strides), shape = known, tuple(type_.get_shape())
        # Further results of rows are numbers, which are stored one by one.
        if _space(value) != Space.ARENA.value or not shape or (number and op.row is not None):
            continue
        inner = values.innermost(value) if op.row is None else op.row.value.data
        if not 0 <= inner < len(shape):
            raise CodegenError(f"found rows along dimension {inner} of {type_}, expected one of its dimensions", op)
        is_byte = element_dtype(type_.element_type).itemsize == 1
        apart = shape[inner] > 1 and strides[inner] != 1 and (is_byte or op.row is not None)
        others = [step for d, step in enumerate(strides) if d != inner and shape[d] > 1]
        if apart or (is_byte and any(n % LINE for n in (*others, offset))):
            raise CodegenError(
                f"found a result in {type_}, expected adjacent elements along dimension {inner}, and the others at "
                f"multiples of {LINE} bytes",
                op,
            )


def _border(values: Values, op: BorderOp) -> None:
    known, type_ = strides_of(op.image), memory_of(op.image)
    if known is None or values.channel is None:
        raise CodegenError(f"found {type_}, expected an image with strides", op)
    shape = tuple(type_.get_shape())
    (y, x), (offset, strides) = values.spatial, known
    top, left, bottom, right = op.widths
    item = element_dtype(type_.element_type).itemsize
    before = top * strides[y] + left * strides[x]
    last = offset + sum(step * (count - 1) for step, count in zip(strides, shape, strict=True))
    end = last - strides[values.channel] * (shape[values.channel] - 1) + bottom * strides[y] + (right + 1) * strides[x]
    buffer = op.image.owner.source if isinstance(op.image.owner, ReinterpretCastOp) else op.image
    if offset < before or end * item > size_of(buffer):
        raise CodegenError(f"found sides {op.widths} of {type_}, expected a border that is inside of {buffer.type}", op)
    rows = (left + right + shape[x]) * strides[x] > strides[y] and shape[y] > 1
    images = (top + bottom + shape[y]) * strides[y] > strides[0] and shape[0] > 1
    if rows or images:
        raise CodegenError(f"found sides {op.widths} of {type_}, expected a border that is between its rows", op)


def _control(values: Values, op: ControlOp) -> None:
    """Check a loop or branch. Its regions read and write dense memory, and are laid out programs."""
    for value in op.operands:
        known, shape = strides_of(value), tuple(memory_of(value).get_shape())
        is_activation = _space(value) == Space.ARENA.value and element_dtype(memory_of(value).element_type) == np.int8
        if known is None or known[1] != row_major(shape, 1) or is_activation:
            raise CodegenError(f"found {value.type}, expected dense memory, for 8-bit integers not in the arena", op)
    if len({*op.outputs}) != len(op.outputs):
        raise CodegenError("found one memref as two results, expected different ones", op)
    for number in range(len(op.programs)):
        with inside(values.program, op, number) as program:
            if not is_laid_out(program):
                raise CodegenError("found a region on tensors, expected memrefs like those of the op", op)
            check_laid_out(program)


_RULES: Mapping[type[Operation], Callable[[Values, Any], None]] = {
    AllocOp: _allocation,
    ToBufferOp: _given,
    MemorySpaceCastOp: _cast,
    UnrealizedConversionCastOp: _conversion,
    ReinterpretCastOp: _view,
    BorderOp: _border,
    KernelOp: _kernel,
    NativeCaseOp: _control,
    NativeWhileOp: _control,
}

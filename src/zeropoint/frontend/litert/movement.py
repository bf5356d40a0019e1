"""Operators that move data: reshapes, slices, padding, concatenation.

Source: the LiteRT schema; the parameters of TensorFlow's operators of these names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.errors import NodeError, listed
from zeropoint.frontend.litert import computed_parts
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.onnx.node import axis_of
from zeropoint.ir.stablehlo import ConcatenateOp, PadOp, ReverseOp, SliceOp
from zeropoint.ir.tensors import shape_of


def _int64(values: Sequence[int]) -> np.ndarray:
    return np.asarray(values, np.int64)


def reshape(call: Call) -> SSAValue:
    """RESHAPE to the shape in an operand, or in the options."""
    value = call.operand(0)
    wanted = list(call.integers(1, "shape") if call.has(1) else call.listed("newShape"))
    if wanted.count(-1) == 1:
        rest = prod(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = prod(shape_of(value)) // rest if rest else 0
    if prod(wanted) != prod(shape_of(value)) or min(wanted, default=0) < 0:
        raise NodeError(f"found shape {wanted} for {prod(shape_of(value))} elements, expected as many")
    return call.build.reshape(value, wanted)


def expand_dims(call: Call) -> SSAValue:
    """EXPAND_DIMS."""
    value = call.operand(0)
    axis = call.axis(1, len(shape_of(value)) + 1)
    shape = shape_of(value)
    return call.build.reshape(value, [*shape[:axis], 1, *shape[axis:]])


def squeeze(call: Call) -> SSAValue:
    """SQUEEZE of the listed dimensions, or of all dimensions of size 1."""
    value = call.operand(0)
    shape = shape_of(value)
    axes = {axis_of(axis, len(shape)) for axis in call.listed("squeezeDims")}
    axes = axes or {axis for axis, size in enumerate(shape) if size == 1}
    if any(shape[axis] != 1 for axis in axes):
        raise NodeError(f"found dimensions {sorted(axes)} of {list(shape)}, expected sizes of 1")
    return call.build.reshape(value, [size for axis, size in enumerate(shape) if axis not in axes])


def transpose(call: Call) -> SSAValue:
    """TRANSPOSE."""
    value, order = call.operand(0), call.integers(1, "permutation")
    if sorted(order) != list(range(len(shape_of(value)))):
        raise NodeError(f"found permutation {list(order)}, expected each of {len(shape_of(value))} dimensions once")
    return call.transposed(value, order)


def concatenation(call: Call) -> SSAValue:
    """CONCATENATION."""
    values = call.operands()
    shapes = [list(shape_of(value)) for value in values]
    if len({len(shape) for shape in shapes}) > 1:
        raise NodeError(
            f"found operands of shapes {listed([str(shape) for shape in shapes])}, expected as many dimensions of each"
        )
    axis = axis_of(int(call.option("axis")), len(shape_of(values[0])))
    return call.bounded_elements(call.build.insert(ConcatenateOp(values, axis)))


def pack(call: Call) -> SSAValue:
    """PACK: values stacked along a new dimension."""
    values = call.operands()
    shape = shape_of(values[0])
    axis = axis_of(int(call.option("axis")), len(shape) + 1)
    apart = [call.build.reshape(value, [*shape[:axis], 1, *shape[axis:]]) for value in values]
    return call.build.insert(ConcatenateOp(apart, axis))


def _part(call: Call, value: SSAValue, axis: int, start: int, limit: int) -> SSAValue:
    shape = shape_of(value)
    if not 0 <= start <= limit <= shape[axis]:
        raise NodeError(f"found the part {start} to {limit}, expected one of {shape[axis]} elements")
    begin = [start if i == axis else 0 for i in range(len(shape))]
    end = [limit if i == axis else size for i, size in enumerate(shape)]
    return call.build.insert(SliceOp(value, begin, end, [1] * len(shape)))


def unpack(call: Call) -> tuple[SSAValue, ...]:
    """UNPACK: one value for every index along a dimension."""
    value = call.operand(0)
    shape = shape_of(value)
    axis = axis_of(int(call.option("axis")), len(shape))
    left = [*shape[:axis], *shape[axis + 1 :]]
    parts = (_part(call, value, axis, index, index + 1) for index in range(shape[axis]))
    return tuple(call.build.reshape(part, left) for part in parts)


def split(call: Call) -> tuple[SSAValue, ...]:
    """SPLIT into equal parts. The axis is the first operand."""
    value = call.operand(1)
    axis, count = call.axis(0, len(shape_of(value))), len(call.operator.outputs)
    size, rest = divmod(shape_of(value)[axis], count)
    if rest:
        raise NodeError(f"found {shape_of(value)[axis]} elements, expected a multiple of {count}")
    return _split(call, value, axis, [size] * count)


def split_v(call: Call) -> tuple[SSAValue, ...]:
    """SPLIT_V into parts of given sizes. A size of -1 takes the remainder."""
    value, sizes = call.operand(0), list(call.integers(1, "sizes"))
    axis = call.axis(2, len(shape_of(value)))
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = shape_of(value)[axis] - sum(size for size in sizes if size != -1)
    return _split(call, value, axis, sizes)


def _split(call: Call, value: SSAValue, axis: int, sizes: Sequence[int]) -> tuple[SSAValue, ...]:
    starts = np.cumsum([0, *sizes])
    return tuple(
        _part(call, value, axis, int(start), int(start) + size) for start, size in zip(starts, sizes, strict=False)
    )


def slice_(call: Call) -> SSAValue:
    """SLICE by start and size. A size of -1 extends to the end."""
    value = call.operand(0)
    shape, sizes = shape_of(value), call.integers(2, "size")
    if call.known(1) is None:
        return computed_parts.part(call, sizes)
    begin = call.integers(1, "begin")
    if not len(begin) == len(sizes) == len(shape):
        raise NodeError(f"found {len(begin)} starts and {len(sizes)} sizes, expected {len(shape)} of each")
    end = [total if size == -1 else low + size for low, size, total in zip(begin, sizes, shape, strict=True)]
    return _sliced(call, value, begin, end, [1] * len(shape))


def _sliced(call: Call, value: SSAValue, begin: Sequence[int], end: Sequence[int], steps: Sequence[int]) -> SSAValue:
    shape = shape_of(value)
    if any(not 0 <= low <= high <= size for low, high, size in zip(begin, end, shape, strict=True)):
        raise NodeError(f"found the part {list(begin)} to {list(end)}, expected one of shape {list(shape)}")
    return call.build.insert(SliceOp(value, begin, end, steps))


@dataclass(frozen=True)
class _Part:
    """What a slice takes of a dimension: bounds, None for an omitted one, and a step. `dropped` is of one element."""

    low: int | None = None
    high: int | None = None
    step: int = 1
    dropped: bool = False


def _parts(call: Call, shape: Sequence[int]) -> tuple[list[int], list[_Part]]:
    """The sizes of the operand with its new dimensions of one element, and what is taken of each dimension.

    An ellipsis stands for as many whole dimensions as the others leave. Those at the end may be left out.
    """
    begins, ends, steps = (list(call.integers(1 + i, name)) for i, name in enumerate(("begin", "end", "strides")))
    masks = ("ellipsisMask", "newAxisMask", "beginMask", "endMask", "shrinkAxisMask")
    ellipsis, new, no_low, no_high, dropped = (
        {axis for axis in range(len(begins)) if int(call.option(name)) >> axis & 1} for name in masks
    )
    new -= ellipsis
    named = len(begins) - len(ellipsis) - len(new)
    if call.option("offset", False) or len(ellipsis) > 1:
        raise NodeError("found an offset or several ellipses, expected a start and an end for each dimension")
    if not len(begins) == len(ends) == len(steps) or named > len(shape) or 0 in steps:
        raise NodeError(
            f"found starts {begins}, ends {ends} and steps {steps}, expected as many of each, at most one for each "
            f"dimension of {list(shape)}, and no step of 0"
        )
    left, sizes, parts = list(shape), list[int](), list[_Part]()

    def take(count: int, part: _Part) -> None:
        sizes.extend(left[:count])
        parts.extend([part] * count)
        del left[:count]

    for axis, (low, high, step) in enumerate(zip(begins, ends, steps, strict=True)):
        if axis in ellipsis:
            take(len(shape) - named, _Part())
        elif axis in new:
            sizes.append(1)
            parts.append(_Part())
        elif axis in dropped:
            start = low % left[0] if left[0] else 0
            take(1, _Part(start, start + 1, 1, True))
        else:
            take(1, _Part(None if axis in no_low else low, None if axis in no_high else high, step))
    take(len(left), _Part())
    return sizes, parts


def strided_slice(call: Call) -> SSAValue:
    """STRIDED_SLICE. Negative bounds count from the end, masks omit bounds, and a negative step reverses."""
    if call.known(1) is None:
        return computed_parts.element(call)
    value = call.operand(0)
    sizes, parts = _parts(call, shape_of(value))
    value = call.build.reshape(value, sizes)
    taken = [range(size)[slice(part.low, part.high, part.step)] for size, part in zip(sizes, parts, strict=True)]
    backwards = [axis for axis, part in enumerate(parts) if part.step < 0]
    taken = [each[::-1] if each.step < 0 else each for each in taken]
    ranges = [each if len(each) else range(0) for each in taken]
    limits = [min(each.stop, size) for each, size in zip(ranges, sizes, strict=True)]
    found = _sliced(call, value, [each.start for each in ranges], limits, [each.step for each in ranges])
    if backwards:
        found = call.build.insert(ReverseOp(found, backwards))
    kept = [size for size, part in zip(shape_of(found), parts, strict=True) if not part.dropped]
    return call.build.reshape(found, kept)


def pad(call: Call) -> SSAValue:
    """PAD with zeros, or PADV2 with a given value."""
    value, pairs = call.operand(0), _pairs(call)
    filler = call.build.scalar(0, value)
    if call.has(2):
        filler = call.build.reshape(call.operand(2), ())
    if min(map(min, pairs), default=0) < 0:
        raise NodeError(f"found padding {pairs}, expected 0 or more")
    return call.build.insert(PadOp(value, filler, [low for low, _ in pairs], [high for _, high in pairs]))


def _pairs(call: Call) -> list[tuple[int, int]]:
    numbers, rank = call.integers(1, "paddings"), len(shape_of(call.operand(0)))
    if len(numbers) != 2 * rank:
        raise NodeError(f"found {len(numbers)} paddings, expected {2 * rank}")
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def mirror_pad(call: Call) -> SSAValue:
    """MIRROR_PAD. The mirrored part excludes the edge element (REFLECT, 0) or includes it (SYMMETRIC, 1)."""
    value, pairs = call.operand(0), _pairs(call)
    edge = 0 if call.option("mode") else 1
    for axis, (low, high) in enumerate(pairs):
        size = shape_of(value)[axis]
        if not 0 <= min(low, high) <= max(low, high) <= size - edge:
            raise NodeError(f"found padding {pairs[axis]} of {size} elements, expected 0 to {size - edge}")
        parts = [_mirrored(call, value, axis, edge, edge + low)] if low else []
        parts += [value, *([_mirrored(call, value, axis, size - edge - high, size - edge)] if high else [])]
        value = parts[0] if len(parts) == 1 else call.like_result(call.build.insert(ConcatenateOp(parts, axis)))
    return value


def _mirrored(call: Call, value: SSAValue, axis: int, start: int, limit: int) -> SSAValue:
    part = call.like_result(_part(call, value, axis, start, limit))
    return call.like_result(call.build.insert(ReverseOp(part, [axis])))


def _blocks(call: Call) -> int:
    size = int(call.option("blockSize", 1))
    if size < 1 or len(shape_of(call.operand(0))) != 4:
        rank = len(shape_of(call.operand(0)))
        raise NodeError(f"found block size {size} and {rank} dimensions, expected 1 or more and 4 dimensions")
    return size


def depth_to_space(call: Call) -> SSAValue:
    """DEPTH_TO_SPACE: channels become blocks of the image."""
    value, size = call.operand(0), _blocks(call)
    batch, height, width, channels = shape_of(value)
    if channels % (size * size):
        raise NodeError(f"found {channels} channels, expected a multiple of {size * size}")
    apart = call.build.reshape(value, [batch, height, width, size, size, channels // (size * size)])
    moved = call.transposed(apart, [0, 1, 3, 2, 4, 5])
    return call.build.reshape(moved, [batch, height * size, width * size, channels // (size * size)])


def space_to_depth(call: Call) -> SSAValue:
    """SPACE_TO_DEPTH: blocks of the image become channels."""
    value, size = call.operand(0), _blocks(call)
    batch, height, width, channels = shape_of(value)
    if height % size or width % size:
        raise NodeError(f"found an image of {height} x {width}, expected multiples of {size}")
    apart = call.build.reshape(value, [batch, height // size, size, width // size, size, channels])
    moved = call.transposed(apart, [0, 1, 3, 2, 4, 5])
    return call.build.reshape(moved, [batch, height // size, width // size, size * size * channels])


def reverse(call: Call) -> SSAValue:
    """REVERSE_V2."""
    value = call.operand(0)
    axes = sorted({axis_of(axis, len(shape_of(value))) for axis in call.integers(1, "axes")})
    return call.build.insert(ReverseOp(value, axes))


def broadcast_to(call: Call) -> SSAValue:
    """BROADCAST_TO."""
    return call.onnx("Expand", call.operand(0), _int64(call.integers(1, "shape")))


def tile(call: Call) -> SSAValue:
    """TILE."""
    return call.onnx("Tile", call.operand(0), _int64(call.integers(1, "multiples")))


def fill(call: Call) -> SSAValue:
    """FILL: a shape filled with one value."""
    return call.onnx("Expand", call.build.reshape(call.operand(1), ()), _int64(call.integers(0, "shape")))


def shape(call: Call) -> SSAValue:
    """SHAPE. A constant, because shapes are static."""
    return call.build.constant(np.asarray(shape_of(call.operand(0)), call.result().dtype))


def rank(call: Call) -> SSAValue:
    """RANK. A constant, because shapes are static."""
    return call.build.constant(np.asarray(len(shape_of(call.operand(0))), call.result().dtype))


def zeros_like(call: Call) -> SSAValue:
    """ZEROS_LIKE."""
    return call.build.splat(0, call.operand(0))


def counted(call: Call) -> SSAValue:
    """RANGE from a start up to a limit. A constant, because its numbers determine its shape."""
    names = ("start", "limit", "delta")
    return call.onnx("Range", *(call.array(index, name) for index, name in enumerate(names)))


def resize(mode: str) -> Callable[[Call], SSAValue]:
    """RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

    def convert(call: Call) -> SSAValue:
        value, size = call.operand(0), call.integers(1, "size")
        if len(shape_of(value)) != 4 or len(size) != 2:
            raise NodeError(f"found shape {list(shape_of(value))} and size {list(size)}, expected an image")
        batch, _, _, channels = shape_of(value)
        aligned, half = call.option("alignCorners", False), call.option("halfPixelCenters", False)
        way = "align_corners" if aligned else "half_pixel" if half else "asymmetric"
        attributes: dict[str, str] = {"mode": mode, "coordinate_transformation_mode": way}
        if mode == "nearest":
            attributes["nearest_mode"] = "round_prefer_ceil" if aligned or half else "floor"
        return call.onnx("Resize", value, None, None, _int64([batch, *size, channels]), **attributes)

    return convert

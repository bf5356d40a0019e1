"""Parts of a value at positions that the program computes, such as the row of a loop's trip.

Source: the LiteRT schema; TensorFlow's operators of these names. StableHLO moves a part that would lead out of the
value back into it, as LiteRT does for DYNAMIC_UPDATE_SLICE. LiteRT reports an error if a SLICE leads out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.ir.stablehlo import DynamicSliceOp, DynamicUpdateSliceOp, SliceOp
from zeropoint.ir.tensors import shape_of


def _positions(call: Call, index: int, count: int) -> list[SSAValue]:
    """The elements of an operand, which is a list of positions."""
    given = call.operand(index)
    if shape_of(given) != (count,):
        raise NodeError(f"found positions of shape {list(shape_of(given))}, expected {count} in a list")
    parts = [call.build.insert(SliceOp(given, [at], [at + 1], [1])) for at in range(count)]
    return [call.build.reshape(part, ()) for part in parts]


def part(call: Call, sizes: Sequence[int]) -> SSAValue:
    """SLICE of these sizes, from a computed start."""
    value = call.operand(0)
    shape = shape_of(value)
    if len(sizes) != len(shape) or not all(1 <= size <= whole for size, whole in zip(sizes, shape, strict=True)):
        raise NodeError(
            f"found sizes {list(sizes)} of a part of {list(shape)} from a computed start, expected 1 or more of each "
            "dimension, because shapes are static"
        )
    return call.build.insert(DynamicSliceOp(value, _positions(call, 1, len(shape)), sizes))


def element(call: Call) -> SSAValue:
    """STRIDED_SLICE at computed positions: each named dimension is taken whole, or at one position, and dropped."""
    value, build = call.operand(0), call.build
    shape, named, steps = shape_of(value), shape_of(call.operand(1)), call.integers(3, "strides")
    masks = ("ellipsisMask", "newAxisMask", "beginMask", "endMask", "shrinkAxisMask")
    ellipsis, new, no_low, no_high, drops = (int(call.option(name)) for name in masks)
    count, whole = len(steps), no_low & no_high
    dropped = {axis for axis in range(count) if drops >> axis & 1}
    if (
        ellipsis
        or new
        or call.option("offset", False)
        or named != (count,)
        or count > len(shape)
        or any(axis not in dropped and (not whole >> axis & 1 or steps[axis] != 1) for axis in range(count))
    ):
        raise NodeError("found a computed 'begin', expected a constant, or one position in each dimension of the slice")
    given = _positions(call, 1, count)
    zero = build.scalar(0, given[0])
    starts = [_from_start(call, given[axis], shape[axis]) if axis in dropped else zero for axis in range(len(shape))]
    sizes = [1 if axis in dropped else size for axis, size in enumerate(shape)]
    found = build.insert(DynamicSliceOp(value, starts, sizes))
    return build.reshape(found, [size for axis, size in enumerate(shape) if axis not in dropped])


def _from_start(call: Call, position: SSAValue, size: int) -> SSAValue:
    """A position that counts from the end if it is negative."""
    zero, whole = (call.build.scalar(number, position) for number in (0, size))
    return call.onnx("Where", call.onnx("Less", position, zero), call.onnx("Add", position, whole), position)


def updated(call: Call) -> SSAValue:
    """DYNAMIC_UPDATE_SLICE: a value with a part of it replaced."""
    value, new = call.operand(0), call.operand(1)
    sizes, shape = shape_of(new), shape_of(value)
    if len(sizes) != len(shape) or not bool(np.all(np.less_equal(sizes, shape))):
        raise NodeError(f"found a part of shape {list(sizes)} for {list(shape)}, expected at most that")
    return call.build.insert(DynamicUpdateSliceOp(value, new, _positions(call, 2, len(shape))))

"""Windows over the two spatial dimensions of an image, and pooling operators.

Source: TensorFlow's definition of SAME: the output has ceil(size / stride) positions, and the smaller half of the
required padding comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.errors import NodeError
from zeropoint.frontend.litert.call import Call
from zeropoint.frontend.onnx.convolution import unless
from zeropoint.ir.annotations import CHANNELS_LAST
from zeropoint.ir.stablehlo import AddOp, DivideOp, MaximumOp, ReduceWindowOp
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape

SAME = 0
Pair = tuple[int, int]


@dataclass(frozen=True)
class LiteRtWindow:
    """A window: its sizes, strides, dilations and padding, and the size of the image."""

    size: Pair
    kernel: Pair
    strides: Pair
    dilations: Pair
    padding: tuple[Pair, Pair]

    @property
    def outputs(self) -> list[int]:
        """The number of positions in each dimension."""
        rows = zip(self.size, self.kernel, self.strides, self.dilations, self.padding, strict=True)
        return [
            (size + low + high - (kernel - 1) * dilation - 1) // stride + 1
            for size, kernel, stride, dilation, (low, high) in rows
        ]

    @property
    def counts(self) -> Array:
        """The number of elements in each window, without padding."""
        found: list[Array] = []
        for axis, count in enumerate(self.outputs):
            starts = np.arange(count) * self.strides[axis] - self.padding[axis][0]
            ends = np.minimum(starts + self.kernel[axis], self.size[axis])
            found.append(ends - np.maximum(starts, 0))
        return np.multiply.outer(found[0], found[1])


def _same(size: int, extent: int, stride: int) -> Pair:
    total = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return total // 2, total - total // 2


def _pair(call: Call, first: str, second: str) -> Pair:
    found = int(call.option(first, 1)), int(call.option(second, 1))
    if min(found) < 1:
        raise NodeError(f"found {first} {found[0]} and {second} {found[1]}, expected 1 or more")
    return found


def window_of(call: Call, size: Sequence[int], kernel: Sequence[int]) -> LiteRtWindow:
    """The window of a convolution or pool. Raises NodeError if it does not fit into the image."""
    strides = _pair(call, "strideH", "strideW")
    dilations = _pair(call, "dilationHFactor", "dilationWFactor")
    sizes, kernels = (size[0], size[1]), (kernel[0], kernel[1])
    if min(kernels) < 1:
        raise NodeError(f"found a window {list(kernels)}, expected sizes of 1 or more")
    padding = ((0, 0), (0, 0))
    if call.option("padding") == SAME:
        extents = [(n - 1) * step + 1 for n, step in zip(kernels, dilations, strict=True)]
        first, second = map(_same, sizes, extents, strides)
        padding = (first, second)
    window = LiteRtWindow(sizes, kernels, strides, dilations, padding)
    if min(window.outputs) < 1:
        raise NodeError(f"found a window {list(kernels)} on {list(sizes)} elements, expected one that fits")
    return window


def _pool(call: Call) -> tuple[SSAValue, LiteRtWindow]:
    value = call.operand(0)
    if len(shape_of(value)) != 4:
        raise NodeError(f"found shape {list(shape_of(value))}, expected 4 dimensions")
    kernel = _pair(call, "filterHeight", "filterWidth")
    return value, window_of(call, shape_of(value)[1:3], kernel)


def _reduced(
    call: Call, value: SSAValue, window: LiteRtWindow, initial: float, op: Callable[[SSAValue, SSAValue], Operation]
) -> SSAValue:
    batch, _, _, channels = shape_of(value)
    made = ReduceWindowOp(
        [value],
        [call.build.scalar(initial, value)],
        [with_shape(value, [batch, *window.outputs, channels])],
        [1, *window.kernel, 1],
        binary_body(op, element_of(value)),
        window_strides=unless(1, [1, *window.strides, 1]),
        padding=[(0, 0), *window.padding, (0, 0)] if any(map(any, window.padding)) else None,
    )
    made.attributes[CHANNELS_LAST] = UnitAttr()
    return call.build.insert(made)


def max_pool(call: Call) -> SSAValue:
    """MAX_POOL_2D."""
    value, window = _pool(call)
    return call.bounded_elements(_reduced(call, value, window, -np.inf, MaximumOp))


def average_pool(call: Call) -> SSAValue:
    """AVERAGE_POOL_2D: sums, divided by the number of elements in the window, without padding."""
    value, window = _pool(call)
    total, counts = _reduced(call, value, window, 0.0, AddOp), window.counts
    if bool((counts == counts.flat[0]).all()):
        divisor = call.build.splat(float(counts.flat[0]), total)
    else:
        divisor = call.build.constant(np.broadcast_to(counts[None, :, :, None].astype(np.float32), shape_of(total)))
    return call.bounded_elements(call.build.insert(DivideOp(total, divisor)))

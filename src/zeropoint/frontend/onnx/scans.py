"""Running sums and products: `CumSum`, `CumProd`.

Source: the ONNX operator specification.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Operation, SSAValue

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.movement import part_of
from zeropoint.frontend.onnx.node import NodeError, OnnxNode, ValueConverter, axis_of
from zeropoint.ir.stablehlo import AddOp, MultiplyOp, PadOp, ReverseOp
from zeropoint.ir.tensors import shape_of


def scan(op: Callable[[SSAValue, SSAValue], Operation], neutral: float) -> ValueConverter:
    """A converter to log2(n) steps. Step k combines every element with the one 2^k positions before it.

        %0 = stablehlo.slice %x [0:7]           // all but the last 2^k
        %1 = stablehlo.pad %0, %zero, low = [1]
        %2 = stablehlo.add %x, %1               // k = 0; then 2, 4, ...

    `exclusive` shifts the elements by one first. `reverse` reverses the dimension before and after.
    """

    def convert(node: OnnxNode, build: Builder) -> SSAValue:
        value = node.operand(0)
        axes = node.integers_at(1, "axis") or ()
        if len(axes) != 1:
            raise NodeError(f"found axis {list(axes)}, expected one number")
        axis = axis_of(axes[0], len(shape_of(value)))
        reverse = bool(node.integer("reverse", 0))
        if reverse:
            value = build.insert(ReverseOp(value, [axis]))
        if node.integer("exclusive", 0):
            value = _shifted(value, axis, 1, neutral, build)
        distance = 1
        while distance < shape_of(value)[axis]:
            value = build.insert(op(value, _shifted(value, axis, distance, neutral, build)))
            distance *= 2
        return build.insert(ReverseOp(value, [axis])) if reverse else value

    return convert


def _shifted(value: SSAValue, axis: int, distance: int, neutral: float, build: Builder) -> SSAValue:
    size, rank = shape_of(value)[axis], len(shape_of(value))
    kept = part_of(value, axis, range(max(size - distance, 0)), build)
    low = [min(distance, size) if dimension == axis else 0 for dimension in range(rank)]
    return build.insert(PadOp(kept, build.scalar(neutral, value), low, [0] * rank))


cum_sum = scan(AddOp, 0)
cum_prod = scan(MultiplyOp, 1)

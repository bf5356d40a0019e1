"""Contractions: exact products summed in i32 at scale s_in * s_w, bias added there, then one requantization."""

from __future__ import annotations

from xdsl.ir import SSAValue

from zeropoint.ir.bounds import Bounds
from zeropoint.ir.quant import Storage, UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, BroadcastInDimOp, ConvolutionOp, DotGeneralOp, UniformQuantizeOp
from zeropoint.ir.tensors import with_element
from zeropoint.solve.fuse.contraction import output_channel_axis
from zeropoint.solve.materialize.elementwise import encased
from zeropoint.solve.materialize.kernel import Kernel

ACCUMULATOR = Storage.of("i32")


def accumulator_type(kernel: Kernel, op: ConvolutionOp | DotGeneralOp) -> UniformQuantizedType:
    """i32 with zero point 0 and the scale of a product: per output channel where the weight has one scale each."""
    lhs, rhs = kernel.type_of(op.lhs), kernel.type_of(op.rhs)
    if rhs.is_per_channel:
        scales = (lhs.scale * rhs.scales).tolist()
        return UniformQuantizedType.per_channel(ACCUMULATOR, output_channel_axis(op), scales)
    return UniformQuantizedType.per_layer(ACCUMULATOR, lhs.scale * rhs.scale)


def contraction(kernel: Kernel) -> SSAValue:
    """`convolution | dot_general`, `add` of the bias, `uniform_quantize`, `clamp`."""
    types = [kernel.type_of(argument) for argument in kernel.arguments]
    if any(found.storage.type.width == 16 for found in types) or types[1].zero_points.any():
        return encased(kernel)  # sums past i32; a zero point on the right, which quantized StableHLO does not have
    bounds = Bounds()
    accumulator: UniformQuantizedType | None = None
    value: SSAValue | None = None
    for op in kernel.body:
        if isinstance(op, ConvolutionOp | DotGeneralOp):
            accumulator = accumulator_type(kernel, op)
            value = kernel.retyped(op, accumulator)
        elif isinstance(op, BroadcastInDimOp) and op.operand in kernel.values:
            assert accumulator is not None
            kernel.retyped(op, accumulator)
        elif isinstance(op, AddOp):
            assert accumulator is not None
            value = kernel.retyped(op, accumulator)
        else:
            bounds.then(op, kernel.weights)
    assert value is not None
    narrowed = UniformQuantizeOp(value, with_element(value, kernel.output_type))
    result = kernel.insert(narrowed, kernel.region).result
    return kernel.bounded(result, bounds, kernel.region)


KERNELS = {
    "batch_matmul": contraction,
    "convolution": contraction,
    "depthwise_convolution": contraction,
    "fully_connected": contraction,
    "transpose_convolution": contraction,
}

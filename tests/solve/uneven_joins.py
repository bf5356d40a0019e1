"""Networks with a concatenation of values of different size, and how close they are to float."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Region, SSAValue

from networks import Network
from zeropoint.codegen.runtime.native import NativeEngine
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import (
    AddOp,
    ConcatenateOp,
    ConvolutionLayout,
    ConvolutionOp,
    MaximumOp,
    MultiplyOp,
    ReduceWindowOp,
    ReturnOp,
    ScatterDimensions,
    ScatterOp,
    TransposeOp,
)
from zeropoint.ir.stablehlo.bodies import binary_body
from zeropoint.ir.tensors import Array, shape_of, with_shape
from zeropoint.pipeline import Options, Quantization, quantize

SHAPE = (1, 8, 6, 6)


def convolved(net: Network, value: SSAValue, features: int, size: float = 1.0) -> SSAValue:
    net.name = f"conv{len(list(net.function.body.block.ops))}"
    channels = shape_of(value)[1]
    weight = net.random.normal(0, size / np.sqrt(channels), (features, channels, 1, 1))
    result = with_shape(value, [1, features, *shape_of(value)[2:]])
    return net.insert(ConvolutionOp(value, net.constant(weight), result, ConvolutionLayout.channels_first(2)))


def joined(net: Network, values: Sequence[SSAValue]) -> SSAValue:
    net.name = f"join{len(list(net.function.body.block.ops))}"
    return net.insert(ConcatenateOp(values, 1))


def normalized(net: Network, value: SSAValue, sizes: Sequence[float]) -> SSAValue:
    """A batch norm: every four channels are divided by their size; then a relu."""
    net.name = f"norm{len(list(net.function.body.block.ops))}"
    value = net.insert(MultiplyOp(value, net.along(1 / np.repeat(sizes, 4), value, 1)))
    value = net.insert(AddOp(value, net.along(np.full(4 * len(sizes), 0.1), value, 1)))
    return net.insert(MaximumOp(value, net.splat(0.0, value)))


def a_maximum_pool(net: Network, value: SSAValue) -> SSAValue:
    start, result = net.constant(np.array(-np.inf)), with_shape(value, [*shape_of(value)[:2], 3, 3])
    body = binary_body(MaximumOp, f32)
    return net.insert(ReduceWindowOp([value], [start], [result], [1, 1, 2, 2], body, window_strides=[1, 1, 2, 2]))


def a_transpose(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(TransposeOp(value, [0, 1, 3, 2]))


def a_relu(net: Network, value: SSAValue) -> SSAValue:
    return net.insert(MaximumOp(value, net.splat(0.0, value)))


def undone(net: Network, value: SSAValue, ratio: float = 100.0) -> SSAValue:
    """A convolution whose weights are greater for the small channels."""
    net.name = f"undone{len(list(net.function.body.block.ops))}"
    weight = net.random.normal(0, 0.3, (8, 8, 1, 1)) / np.repeat([ratio, 1.0], 4).reshape(1, -1, 1, 1)
    result = with_shape(value, [1, 8, *shape_of(value)[2:]])
    return net.insert(ConvolutionOp(value, net.constant(weight), result, ConvolutionLayout.channels_first(2)))


def parts(net: Network, value: SSAValue, ratio: float = 100.0) -> list[SSAValue]:
    return [convolved(net, value, 4, ratio), convolved(net, value, 4)]


def uneven_channels(net: Network) -> SSAValue:
    """A convolution whose first four channels are 100 times as large as the others."""
    net.name = "residual"
    weight = net.random.normal(0, 1, (8, 8, 1, 1)) * np.repeat([100.0, 1.0], 4).reshape(-1, 1, 1, 1)
    layout = ConvolutionLayout.channels_first(2)
    source = net.values[0]
    return net.insert(ConvolutionOp(source, net.constant(weight), with_shape(source, SHAPE), layout))


def a_sum_with_another_value(net: Network, value: SSAValue) -> SSAValue:
    other = uneven_channels(net)
    return net.insert(AddOp(value, other))


def a_scatter(net: Network, value: SSAValue) -> SSAValue:
    """The first element of every channel becomes 0."""
    places = np.stack([np.zeros(8), np.arange(8), np.zeros(8), np.zeros(8)], 1).astype(np.int32)
    indices = net.insert(constant_op(places, net.weights))
    dimensions = ScatterDimensions((), (0, 1, 2, 3), (), (), (0, 1, 2, 3), 1)
    block = Block(arg_types=[TensorType(f32, [])] * 2)
    block.add_op(ReturnOp([block.args[1]]))
    return net.insert(ScatterOp([value], indices, [net.constant(np.zeros(8))], dimensions, Region(block)))


def network(make: Callable[[Network, SSAValue], list[SSAValue]]) -> Program:
    net = Network([SHAPE])
    return net.finish(make(net, net.values[0]))


def samples(seed: int) -> list[dict[str, Array]]:
    return [{"x0": x} for x in np.random.default_rng(seed).normal(0, 1, (8, *SHAPE)).astype(np.float32)]


def quantized(program: Program, target: str) -> Quantization:
    return quantize(program, samples(0), Options(target=target, effort="none"))


def sqnr(result: Quantization, program: Program, *, is_native: bool = True, seed: int = 1) -> float:
    """Of the first output; native code computes the same integers as the interpreter."""
    exact, integers = Interpreter(program), Interpreter(result.integer)
    native = NativeEngine().prepare(result.integer) if is_native else integers
    signal = noise = 0.0
    for sample in samples(seed):
        wanted, given = exact(sample)["y0"], integers(sample)["y0"]
        np.testing.assert_array_equal(given, native(sample)["y0"])
        signal += float((wanted**2).sum())
        noise += float(((wanted - given) ** 2).sum())
    return 10 * float(np.log10(signal / noise))

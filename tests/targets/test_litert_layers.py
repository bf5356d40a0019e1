"""Layers quantized for `litert` and `litert-16x8`: the integer program computes what LiteRT's reference kernel does.

The model for LiteRT is made of what the quantized program says: its types, stored weights and biases. 16x8 biases have
64 bits there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from xdsl.ir import SSAValue

from networks import Network, Shape, channels_last
from oracle.litert import Port, evaluate, model
from zeropoint.calibrate import DEFAULT_OBSERVER
from zeropoint.interp import Interpreter
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    ClampOp,
    ConstantOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    SubtractOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of, with_shape
from zeropoint.lower import integer_io
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import float_ops

TARGETS = ("litert", "litert-16x8")
VERSIONS = {"FULLY_CONNECTED": 4, "SUB": 4, "RELU_0_TO_1": 1, "RELU_N1_TO_1": 1}
VALID = {"padding": 1, "strideW": 1, "strideH": 1, "dilationWFactor": 1, "dilationHFactor": 1}


@dataclass(frozen=True)
class Layer:
    """A float layer, and the op of LiteRT that it is; `axis` is the quantized dimension of LiteRT's weight."""

    program: Program
    op: str
    options: tuple[str, dict[str, object]] | None
    axis: int = 0


def biased(net: Network, value: SSAValue, bias: float = 0.4) -> SSAValue:
    axis = len(shape_of(value)) - 1
    return net.insert(AddOp(value, net.along(net.random.normal(0, bias, shape_of(value)[axis]), value, axis)))


def convolution(features: int, terms: int, bias: float = 0.4) -> Layer:
    """Weights laid out as LiteRT's: output feature, spatial, input feature."""
    net = Network([(2, 6, 5, terms)], seed=features)
    last = channels_last(2)
    layout = ConvolutionLayout(0, 3, (1, 2), 3, 0, (1, 2), last.output_batch_dimension, 3, (1, 2))
    weight = net.constant(net.random.normal(0, 1, (features, 3, 2, terms)) * 10.0 ** net.random.uniform(-2, 1))
    made = net.insert(ConvolutionOp(net.values[0], weight, with_shape(net.values[0], [2, 4, 4, features]), layout))
    return Layer(net.finish([biased(net, made, bias)]), "CONV_2D", ("Conv2DOptions", VALID))


def depthwise() -> Layer:
    net = Network([(2, 6, 5, 7)])
    last = channels_last(2)
    layout = ConvolutionLayout(0, 3, (1, 2), 0, 3, (1, 2), last.output_batch_dimension, 3, (1, 2))
    weight = net.constant(net.random.normal(0, 1, (1, 3, 2, 7)))
    result = with_shape(net.values[0], [2, 4, 4, 7])
    made = net.insert(ConvolutionOp(net.values[0], weight, result, layout, feature_group_count=7))
    options = {**VALID, "depthMultiplier": 1}
    return Layer(net.finish([biased(net, made)]), "DEPTHWISE_CONV_2D", ("DepthwiseConv2DOptions", options), 3)


def fully_connected(terms: int, bias: float = 0.4) -> Layer:
    net = Network([(4, terms)])
    weight = net.constant(net.random.normal(0, 1, (6, terms)))
    dims = DotDimensions((), (), (1,), (1,))
    made = net.insert(DotGeneralOp(net.values[0], weight, with_shape(net.values[0], [4, 6]), dims))
    return Layer(net.finish([biased(net, made, bias)]), "FULLY_CONNECTED", ("FullyConnectedOptions", {}))


def sum_of_two(kind: type, shape: Shape = (40, 50)) -> Layer:
    net = Network([shape, shape])
    name = {AddOp: "Add", SubtractOp: "Sub"}[kind]
    made = net.insert(kind(*net.values))
    return Layer(net.finish([made]), name.upper(), (f"{name}Options", {"potScaleInt16": False}))


def bounds(low: float | None, high: float | None, op: str) -> Layer:
    net = Network([(40, 50)])
    value = net.values[0]
    if low is not None and high is not None:
        made = net.insert(ClampOp(net.constant(np.array(low)), value, net.constant(np.array(high))))
    else:
        number = net.splat(low if low is not None else high or 0.0, value)
        made = net.insert((MaximumOp if low is not None else MinimumOp)(value, number))
    return Layer(net.finish([made]), op, None)


def past_32_bits(terms: int, *, connected: bool) -> Layer:
    """Weights and activations of one sign: sums, and outputs, that 32 bits at the scale of the products do not hold."""
    net = Network([(2, terms) if connected else (1, 3, 2, terms // 6)])
    random = np.random.default_rng(3)
    value = net.values[0]
    if connected:
        weight = net.constant(random.uniform(0.5, 1, (3, terms)))
        made = net.insert(DotGeneralOp(value, weight, with_shape(value, [2, 3]), DotDimensions((), (), (1,), (1,))))
        return Layer(net.finish([biased(net, made)]), "FULLY_CONNECTED", ("FullyConnectedOptions", {}))
    last = channels_last(2)
    layout = ConvolutionLayout(0, 3, (1, 2), 3, 0, (1, 2), last.output_batch_dimension, 3, (1, 2))
    weight = net.constant(random.uniform(0.5, 1, (4, 3, 2, terms // 6)))
    made = net.insert(ConvolutionOp(value, weight, with_shape(value, [1, 1, 1, 4]), layout))
    return Layer(net.finish([biased(net, made)]), "CONV_2D", ("Conv2DOptions", VALID))


LAYERS = {
    "convolution": convolution(5, 3),
    "long convolution": convolution(6, 300),
    "large bias": convolution(7, 3, 1e5),
    "depthwise": depthwise(),
    "fully connected": fully_connected(9),
    "long fully connected": fully_connected(5000),
    "fully connected with a large bias": fully_connected(9, 1e6),
    "convolution past 32 bits": past_32_bits(6000, connected=False),
    "convolution far past 32 bits": past_32_bits(70_002, connected=False),
    "fully connected past 32 bits": past_32_bits(6000, connected=True),
    "fully connected far past 32 bits": past_32_bits(70_000, connected=True),
    "add": sum_of_two(AddOp),
    "subtract": sum_of_two(SubtractOp),
}
BOUNDS = {
    "relu": bounds(0.0, None, "RELU"),
    "relu6": bounds(0.0, 6.0, "RELU6"),
    "relu_0_to_1": bounds(0.0, 1.0, "RELU_0_TO_1"),
    "relu_n1_to_1": bounds(-1.0, 1.0, "RELU_N1_TO_1"),
}


def calibration(layer: Layer) -> list[dict[str, Array]]:
    random = np.random.default_rng(7)
    factors = (3.0, 1.1)
    return [
        {
            port.name: (random.normal(0.2, 1, shape_of(port.type)) * factor).astype(np.float32)
            for port, factor in zip(layer.program.inputs, factors, strict=False)
        }
        for _ in range(3)
    ]


def port_of(
    kind: UniformQuantizedType, shape: Shape, value: Array | None = None, axis: int = 0, dtype: str = ""
) -> Port:
    found = dtype or f"int{kind.storage.type.width}"
    return Port(shape, found, tuple(kind.scales), tuple(kind.zero_points.tolist()), value, axis)


def litert(layer: Layer, result: Quantization, arrays: list[Array], given: list[UniformQuantizedType]) -> Array:
    """What the reference kernel computes of the layer as it was quantized."""
    block, weights = result.quantized.entry, result.quantized.weights
    inputs = [port_of(kind, array.shape) for kind, array in zip(given, arrays, strict=True)]
    constants: list[Port] = []
    for op in block.ops:
        kind = element_of(op.results[0]) if op.results else None
        if isinstance(op, ConstantOp) and isinstance(kind, UniformQuantizedType) and shape_of(op.output):
            array = constant_array(op.output, weights)
            assert array is not None
            is_bias = kind.storage.type.width == 32
            dtype = ("int64" if arrays[0].dtype == np.int16 else "int32") if is_bias else "int8"
            axis = 0 if is_bias else layer.axis
            made = port_of(kind, array.shape, array.astype(dtype), axis, dtype)
            constants.insert(len(constants) if is_bias else 0, made)
    dequantize = block.last_op.operands[0].owner
    output = element_of(dequantize.operands[0])
    result_port = port_of(output, shape_of(dequantize.operands[0]))
    content = model(layer.op, layer.options, [*inputs, *constants], [result_port], VERSIONS.get(layer.op, 2))
    return evaluate(content, *arrays)[0]


def assert_same_as_litert(layer: Layer, target: str) -> None:
    # 16 bits hold every observed value, whatever an observer chooses.
    observer = DEFAULT_OBSERVER if target == "litert-16x8" else "minmax"
    result = quantize(layer.program, calibration(layer), Options(target=target, observer=observer))
    assert not float_ops(result.integer)
    program = integer_io(result.integer)
    given = [attributes.data["zeropoint.expressed"] for attributes in program.main.arg_attrs.data]
    random = np.random.default_rng(11)
    ends = [np.iinfo(f"int{kind.storage.type.width}") for kind in given]
    arrays = [
        random.integers(end.min, end.max + 1, shape_of(port.type)).astype(end.dtype)
        for end, port in zip(ends, program.inputs, strict=True)
    ]
    small = [(array // 8).astype(array.dtype) for array in arrays]
    extreme = [
        np.where(array > 0, end.max, end.min).astype(array.dtype) for array, end in zip(arrays, ends, strict=True)
    ]
    constant = [np.full_like(array, end.max) for array, end in zip(arrays, ends, strict=True)]
    for stored in (arrays, small, extreme, constant):
        found = Interpreter(program).run_values(stored)[0]
        np.testing.assert_array_equal(found, litert(layer, result, stored, given))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_the_kernel_does(name: str, target: str) -> None:
    assert_same_as_litert(LAYERS[name], target)


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_compute_what_the_kernel_does(name: str) -> None:
    assert_same_as_litert(BOUNDS[name], "litert")

"""Integer programs of one contraction each: what the kernels of convolutions and products meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st
from xdsl.dialects.builtin import IntegerType, ModuleOp, TensorType, i8, i16, i32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.constants import constant_op
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.program import Program, name_attributes
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ConvertOp,
    ConvolutionLayout,
    ConvolutionOp,
    DotDimensions,
    DotGeneralOp,
    PadOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.text import print_program
from zeropoint.ir.verification import verify
from zeropoint.ir.weights import Weights
from zeropoint.lower.context import multiplier_arrays
from zeropoint.numerics import CommonScaleSum, Multiplier, RequantizeBehaviour

Draw = Callable[[st.SearchStrategy], object]
ENDS = st.sampled_from([-128, 127, 0, -1, 5])
CHANNELS = st.one_of(
    st.integers(1, 70),
    st.integers(1, 256),
    st.builds(lambda count, rest: 16 * count + rest, st.integers(1, 15), st.integers(-1, 1)),
)
"""Few more often than many; whole vectors and their neighbours more often than others."""
WIDEST = 200
WEIGHTS = 1 << 18
"""Of a dense convolution at most: what of channels and kernel is more gives way."""
PRODUCTS = 1 << 23
"""Of a program at most: so much the interpreter does in some hundredths of a second."""
BEHAVIOURS = (
    "fixed16",
    "fixed16",
    "fixed16",
    "fixed32",
    "fixed32-double",
    "tosa-double",
    "float32-rne",
    "float64-away",
    "pot",
)


class Builder:
    """An integer program under construction, with i8 inputs and outputs."""

    def __init__(self, shapes: list[tuple[int, ...]], seed: int, element: Attribute = i8):
        self.weights = Weights()
        self.random = np.random.default_rng(seed)
        self.function = FuncOp("main", ([TensorType(element, shape) for shape in shapes], []))
        self.values: list[SSAValue] = list(self.function.body.block.args)

    def insert(self, op: Operation) -> SSAValue:
        self.function.body.block.add_op(op)
        return op.results[0]

    def constant(self, array: Array) -> SSAValue:
        return self.insert(constant_op(np.asarray(array), self.weights))

    def finish(self, *outputs: SSAValue) -> Program:
        self.function.body.block.add_op(ReturnOp(*outputs))
        self.function.update_function_type()
        self.function.properties["arg_attrs"] = name_attributes([f"x{i}" for i in range(len(self.function.args))])
        self.function.properties["res_attrs"] = name_attributes([f"y{i}" for i in range(len(outputs))])
        program = Program(ModuleOp([self.function]), self.weights)
        verify(program.module)
        return program

    def centred(self, value: SSAValue, zero: int) -> SSAValue:
        """`value - zero` in i32."""
        wide = self.insert(ConvertOp(value, with_element(value, i32)))
        if zero == 0:
            return wide
        number = self.constant(np.array(zero, np.int32))
        return self.insert(SubtractOp(wide, self.insert(BroadcastInDimOp(number, wide.type, []))))

    def requantized(self, accumulator: SSAValue, output: Output, axis: int) -> SSAValue:
        """A bias along `axis`, and the requantization."""
        channels = shape_of(accumulator)[axis]
        if output.bias:
            bias = self.random.integers(-output.bias, output.bias + 1, channels).astype(np.int32)
            along = BroadcastInDimOp(self.constant(bias), accumulator.type, [axis])
            accumulator = self.insert(AddOp(accumulator, self.insert(along)))
        reals = 2.0 ** self.random.uniform(*output.exponents, channels if output.per_channel else 1)
        if output.behaviour == "pot":
            reals = 2.0 ** np.round(np.log2(reals))
        multiplier = Multiplier.of(reals, RequantizeBehaviour(output.behaviour), output.bits)
        arrays = [self.constant(array) for array in multiplier_arrays(multiplier)]
        op = RequantizeOp(
            accumulator,
            arrays[0],
            arrays[1] if len(arrays) > 1 else None,
            with_element(accumulator, IntegerType(output.bits)),
            behaviour=multiplier.behaviour.value,
            zero_point=output.zero_point,
            storage_min=output.bounds[0],
            storage_max=output.bounds[1],
            axis=axis if output.per_channel else None,
        )
        return self.insert(op)


@dataclass(frozen=True)
class Output:
    """How a contraction ends; `exponents` are those of the real multipliers."""

    behaviour: str
    per_channel: bool
    exponents: tuple[float, float]
    zero_point: int
    bounds: tuple[int, int]
    bias: int
    bits: int = 8

    def wide(self) -> Output:
        """The same with 16-bit results."""
        low, high = (256 * bound + (255 if bound == 127 else 0) for bound in self.bounds)
        return replace(self, bits=16, bounds=(low, high), zero_point=200 * self.zero_point)


@st.composite
def outputs(draw: Draw) -> Output:
    behaviour = draw(st.sampled_from(BEHAVIOURS))
    # What a network has; all saturates or vanishes; shifts to the left. Of the last two behaviours those are undefined.
    ranges = [(-12.0, -8.0), (-9.0, -4.0), (-40.0, 0.0)]
    if behaviour not in ("fixed32-double", "tosa-double"):
        ranges += [(-8.0, -0.001), (-3.0, 3.0), (0.0, 12.0)]
    bounds = draw(st.sampled_from([(-128, 127), (-128, 127), (-127, 127), (-10, 100), (3, 3)]))
    return Output(
        behaviour,
        draw(st.booleans()),
        draw(st.sampled_from(ranges)),
        draw(ENDS),
        bounds,
        draw(st.sampled_from([0, 1000, 1 << 20, 1 << 29])),
    )


def _weights(draw: Draw, random: np.random.Generator, shape: tuple[int, ...]) -> Array:
    kind = draw(st.sampled_from(["any", "any", "small", "largest", "least"]))
    if kind == "any":
        return random.integers(-128, 128, shape).astype(np.int8)
    if kind == "small":
        return random.integers(-64, 65, shape).astype(np.int8)
    return np.full(shape, 127 if kind == "largest" else -128, np.int8)


@dataclass(frozen=True, repr=False)
class Case:
    """A program and inputs for it."""

    program: Program
    samples: list[dict[str, Array]]

    def __repr__(self) -> str:
        return print_program(self.program)


def samples_of(builder: Builder, shapes: list[tuple[int, ...]]) -> list[dict[str, Array]]:
    """Any integers of the inputs' type, and the least and the greatest."""
    info = np.iinfo(element_dtype(element_of(builder.function.body.block.args[0])))
    random = [
        {
            f"x{i}": builder.random.integers(info.min, info.max, shape, info.dtype, endpoint=True)
            for i, shape in enumerate(shapes)
        }
        for _ in range(2)
    ]
    ends = [
        {f"x{i}": np.full(shape, end, info.dtype) for i, shape in enumerate(shapes)} for end in (info.min, info.max)
    ]
    return random + ends


@dataclass(frozen=True)
class _Layers:
    """Channels of a convolution: groups of them, in all before and after."""

    groups: int
    inputs: int
    features: int

    @property
    def weights(self) -> int:
        """For a kernel of one position."""
        return self.inputs // self.groups * self.features


def _layers(draw: Draw, kind: str) -> _Layers:
    inputs, features = draw(CHANNELS), draw(CHANNELS)
    if kind == "depthwise":
        return _Layers(inputs, inputs, inputs)
    if kind == "dense":
        return _Layers(1, inputs, features)
    groups = draw(st.integers(2, 8))
    return _Layers(groups, groups * -(-inputs // groups), groups * -(-min(features, 70) // groups))


def _sizes(draw: Draw, least: list[int], factors: list[int], strides: list[int], weights: int) -> list[int]:
    """Height and width of an image, at least `least`; so many that the products stay below `PRODUCTS`."""

    def most(size: int, other: int) -> int:
        """How many more, where the other side is `other`."""
        pixels = PRODUCTS // weights * strides[0] * strides[1] // (factors[0] * factors[1])
        return max(0, pixels // other - size)

    height, width = least
    narrow = draw(st.sampled_from([9, WIDEST]))
    width += draw(st.integers(0, min(narrow, max(0, WIDEST - width), most(width, height))))
    return [height + draw(st.integers(0, min(9, most(height, width)))), width]


def _layout(rank: int, *, channels_first: bool) -> ConvolutionLayout:
    layout = ConvolutionLayout.channels_first(rank - 2)
    if channels_first:
        return layout
    between, axis = tuple(range(1, rank - 1)), rank - 1
    return ConvolutionLayout(0, axis, between, 1, 0, layout.kernel_spatial_dimensions, 0, axis, between)


@st.composite
def convolutions(draw: Draw, kind: str) -> Case:
    """`kind` is "dense", "depthwise" or "grouped", and may end in " transposed" or " on a line" (one dimension).

    After that it may end in " of 16 bits".
    """
    kind, wide, _ = kind.partition(" of 16 bits")
    kind, transposed, _ = kind.partition(" transposed")
    kind, line, _ = kind.partition(" on a line")
    channels_first = draw(st.booleans())
    layers = _layers(draw, kind)
    groups, inputs, features = layers.groups, layers.inputs, layers.features
    kernel = [draw(st.integers(1, 7)) for _ in range(2)]
    while layers.weights * kernel[0] * kernel[1] > WEIGHTS and kernel != [1, 1]:
        kernel = [-(-size // 2) for size in kernel]
    strides, dilation = ([draw(st.sampled_from(some)) for _ in range(2)] for some in ([1, 1, 1, 2, 2, 3], [1, 1, 1, 2]))
    low, high = ([draw(st.integers(0, 3)) for _ in range(2)] for _ in range(2))
    if line:
        kernel[0], strides[0], dilation[0], low[0], high[0] = 1, 1, 1, 0, 0
    images = int(draw(st.sampled_from([1, 1, 2])))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    factors = [draw(st.integers(1, 3)) if transposed else 1 for _ in range(2)]
    least = [
        -(-max(1, r - a - b) // factor) + (factor > 1)
        for r, a, b, factor in zip(reach, low, high, factors, strict=True)
    ]
    sizes = _sizes(draw, least, factors, strides, layers.weights * math.prod(kernel))
    spread = [(n - 1) * factor + 1 for n, factor in zip(sizes, factors, strict=True)]
    out = [(n + a + b - r) // s + 1 for n, a, b, r, s in zip(spread, low, high, reach, strides, strict=True)]
    if line:
        sizes, out, kernel, strides, dilation, low, high, factors = (
            along[1:] for along in (sizes, out, kernel, strides, dilation, low, high, factors)
        )
    rank = len(sizes) + 2

    def shaped(channels: int, spatial: list[int]) -> tuple[int, ...]:
        return (images, channels, *spatial) if channels_first else (images, *spatial, channels)

    shape, result = shaped(inputs, sizes), shaped(features, out)
    added = not wide and draw(st.sampled_from([False, False, False, True]))
    shapes = [shape, result] if added else [shape]
    element, dtype = (i16, np.int16) if wide else (i8, np.int8)
    net = Builder(shapes, draw(st.integers(0, 1 << 16)), element)
    layout = _layout(rank, channels_first=channels_first)
    axis, spatial = layout.input_feature_dimension, layout.input_spatial_dimensions
    value = net.values[0]
    itself = draw(st.booleans()) if transposed else False
    if any(low + high) and not itself:
        before, after, between = [0] * rank, [0] * rank, [0] * rank
        for d, one, other, factor in zip(spatial, low, high, factors, strict=True):
            before[d], after[d], between[d] = one, other, factor - 1
        value = net.insert(PadOp(value, net.constant(np.array(draw(ENDS), dtype)), before, after, between))
    else:
        itself = any(low + high) or max(factors) > 1
    weights = net.constant(_weights(draw, net.random, (features, inputs // groups, *kernel)))
    convolution = ConvolutionOp(
        value,
        net.insert(ConvertOp(weights, with_element(weights, i16))) if wide else weights,
        TensorType(i32, result),
        layout,
        window_strides=strides,
        padding=list(zip(low, high, strict=True)) if itself else None,
        lhs_dilation=factors if itself else None,
        rhs_dilation=dilation,
        feature_group_count=groups,
    )
    y = net.requantized(
        net.insert(convolution), draw(outputs() if added else outputs() | outputs().map(Output.wide)), axis
    )
    if added:
        y = _sum(net, draw, [y, net.values[1]])
    return Case(net.finish(y), samples_of(net, shapes))


def depthwise(channels: int, size: tuple[int, int], kernel: int) -> Case:
    """A square kernel over an image of (height, width), padded so that it stays as large."""
    shape = (1, channels, *size)
    net = Builder([shape], seed=1)
    sides = [0, 0, kernel // 2, kernel // 2]
    padded = net.insert(PadOp(net.values[0], net.constant(np.array(3, np.int8)), sides, sides, [0] * 4))
    weights = net.random.integers(-127, 128, (channels, 1, kernel, kernel)).astype(np.int8)
    convolution = ConvolutionOp(
        padded,
        net.constant(weights),
        TensorType(i32, shape),
        ConvolutionLayout.channels_first(2),
        feature_group_count=channels,
    )
    y = net.requantized(net.insert(convolution), Output("fixed16", True, (-12.0, -9.0), 3, (-128, 127), 1000), 1)
    return Case(net.finish(y), samples_of(net, [shape]))


def dense(
    inputs: int,
    features: int,
    size: tuple[int, int],
    kernel: int,
    *,
    stride: int = 1,
    added: bool = False,
    channels_first: bool = True,
) -> Case:
    """A square kernel over an image of (height, width), padded with half of the kernel. `added` is a residual sum."""
    out = [(extent - 1) // stride + 1 for extent in size]

    def shaped(channels: int, spatial: Sequence[int]) -> tuple[int, ...]:
        return (1, channels, *spatial) if channels_first else (1, *spatial, channels)

    shape, result = shaped(inputs, size), shaped(features, out)
    net = Builder([shape, result] if added else [shape], seed=inputs)
    layout = _layout(4, channels_first=channels_first)
    sides = [0] * 4
    for d in layout.input_spatial_dimensions:
        sides[d] = kernel // 2
    value = net.values[0]
    if kernel > 1:
        value = net.insert(PadOp(value, net.constant(np.array(-7, np.int8)), sides, sides, [0] * 4))
    weights = net.random.integers(-128, 128, (features, inputs, kernel, kernel)).astype(np.int8)
    type_ = TensorType(i32, result)
    convolution = ConvolutionOp(value, net.constant(weights), type_, layout, window_strides=[stride, stride])
    output = Output("fixed16", True, (-14.0, -10.0), 3, (-128, 127), 1000)
    y = net.requantized(net.insert(convolution), output, layout.input_feature_dimension)
    if added:
        total = CommonScaleSum((9000, -7000), (3, -5), shift=14, zero_point=2, storage_min=-128, storage_max=127)
        y = net.insert(WeightedSumOp([y, net.values[1]], y.type, total))
    return Case(net.finish(y), samples_of(net, shapes_of(net)))


def shapes_of(net: Builder) -> list[tuple[int, ...]]:
    """Of the inputs."""
    return [shape_of(argument) for argument in net.function.body.block.args]


def _sum(net: Builder, draw: Draw, operands: list[SSAValue]) -> SSAValue:
    most = draw(st.sampled_from([200, 20000]))
    inputs = operands if draw(st.booleans()) else operands[::-1]
    total = CommonScaleSum(
        tuple(int(net.random.integers(-most, most)) for _ in operands),
        tuple(draw(ENDS) for _ in operands),
        shift=draw(st.integers(1, 14)),
        zero_point=draw(ENDS),
        storage_min=-128,
        storage_max=127,
    )
    return net.insert(WeightedSumOp(inputs, operands[0].type, total))


@st.composite
def products(draw: Draw) -> Case:
    """Rows of activations by a constant matrix, of either order."""
    outer = tuple(draw(st.lists(st.integers(1, 9), min_size=1, max_size=2)))
    if len(outer) == 1:
        outer = (draw(st.sampled_from([1, 1, 20])) * outer[0],)
    terms, channels = draw(CHANNELS), draw(CHANNELS)
    net = Builder([(*outer, terms)], draw(st.integers(0, 1 << 16)))
    turned = draw(st.booleans())
    weights = _weights(draw, net.random, (channels, terms) if turned else (terms, channels))
    dims = DotDimensions((), (), (len(outer),), (1 if turned else 0,))
    result = TensorType(i32, (*outer, channels))
    product = net.insert(DotGeneralOp(net.values[0], net.constant(weights), result, dims))
    y = net.requantized(product, draw(outputs() | outputs().map(Output.wide)), len(outer))
    return Case(net.finish(y), samples_of(net, [(*outer, terms)]))


@st.composite
def batches(draw: Draw) -> Case:
    """Products of two activations, batch by batch, either operand transposed before, the result after."""
    batch = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    rows, channels = draw(st.one_of(st.integers(1, 33), st.integers(1, WIDEST))), draw(CHANNELS)
    terms = draw(st.sampled_from([3, 4, 8, 32, 36, 64, 196]))
    rank = len(batch) + 2
    shapes = [(*batch, rows, terms), (*batch, channels, terms) if draw(st.booleans()) else (*batch, terms, channels)]
    # The dimensions of the second operand as they are, or another order of them that a transpose undoes.
    order = draw(st.permutations(range(rank)))
    turned = tuple(shapes[1][d] for d in order)
    net = Builder([shapes[0], turned], draw(st.integers(0, 1 << 16)))
    operands = [net.values[0], net.insert(TransposeOp(net.values[1], [order.index(d) for d in range(rank)]))]
    zeros = [draw(ENDS), draw(st.sampled_from([0, 0, 0, 3]))]
    wide = [net.centred(value, zero) for value, zero in zip(operands, zeros, strict=True)]
    batching = tuple(range(len(batch)))
    contracting = rank - 1 if shapes[1][-2:] == (channels, terms) else rank - 2
    dims = DotDimensions(batching, batching, (rank - 1,), (contracting,))
    product = net.insert(DotGeneralOp(*wide, TensorType(i32, (*batch, rows, channels)), dims))
    output = draw(outputs() | outputs().map(Output.wide))
    y = net.requantized(product, replace(output, bias=0), rank - 1)
    if draw(st.booleans()):
        moved = draw(st.permutations(range(rank - 1)))
        y = net.insert(TransposeOp(y, [*moved, rank - 1]))
    return Case(net.finish(y), samples_of(net, [shapes[0], turned]))

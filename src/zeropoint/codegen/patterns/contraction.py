"""Sums of products as one kernel: `ContractionMatch`, whatever the arithmetic.

%acc = convolution | dot_general %source, constant      (or a sum of a window of values)
%sum = add %acc, bias                                   i32 or f32, one number a channel
%y   = fxpmath.requantize %sum                          bytes: from here backwards
     | uniform_dequantize %sum                          floats of i32 accumulators: from here backwards
     | what is there already, of floats
%z   = weighted_sum %y, %other | bounds, add %other     what follows, if nothing else uses %y
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Operation, SSAValue

from zeropoint.codegen.kernels.requantize import Epilogue, Output
from zeropoint.codegen.patterns.match import Declined, Match
from zeropoint.codegen.patterns.windows import Windows
from zeropoint.codegen.values import Values, owner_of
from zeropoint.ir.fxpmath import RequantizeOp, WeightedSumOp
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BroadcastInDimOp,
    ClampOp,
    ConvertOp,
    ConvolutionOp,
    DotGeneralOp,
    MaximumOp,
    MinimumOp,
    ReduceOp,
    ReduceWindowOp,
    ReshapeOp,
    SubtractOp,
    UniformDequantizeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import Multiplier, RequantizeBehaviour
from zeropoint.numerics.arrays import FloatArray, IntArray

LARGEST_WINDOW = 64
"""Taps of a pooling window that the depthwise kernel lays out."""


@dataclass(frozen=True)
class Expressed:
    """Accumulators of i32 become f32 by one scale a channel."""

    scales: FloatArray


@dataclass(frozen=True)
class Pool:
    """Windows of an image that are summed: (value - zero) over kernel positions."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    zero: int


@dataclass(frozen=True)
class Tail:
    """What follows a contraction: `result` is the last value of it, `other` what is added.

    `sum` is the op that adds stored integers; `first` says that `other` is its first operand.
    """

    result: SSAValue
    bias: Array | None = None
    bounds: tuple[float, float] | None = None
    bounds_last: bool = False
    other: SSAValue | None = None
    sum: WeightedSumOp | None = None
    first: bool = False


@dataclass(frozen=True)
class ContractionMatch:
    """`weights` are windows, a matrix (terms, channels) or a pool; `bias` has one number a channel.

    `arithmetic` says what accumulators become; None: they are floats already.
    """

    root: Operation
    source: SSAValue
    weights: Windows | Array | Pool
    bias: Array
    tail: Tail
    arithmetic: Output | Expressed | None

    @property
    def windows(self) -> Windows | None:
        """The windows of a convolution."""
        return self.weights if isinstance(self.weights, Windows) else None

    @property
    def matrix(self) -> Array | None:
        """The weights of a product of rows."""
        return self.weights if isinstance(self.weights, np.ndarray) else None

    @property
    def depthwise(self) -> bool:
        """Whether the kernel of depthwise convolutions computes it."""
        return isinstance(self.weights, Pool) or (self.windows is not None and self.windows.depthwise)

    @property
    def match(self) -> Match:
        """As a kernel."""
        other = self.tail.other
        inputs = (self.source,) if other is None or other is self.source else (self.source, other)
        return Match("contraction", (self.tail.result,), inputs)


def match_requantize(values: Values, op: RequantizeOp) -> Match | Declined:
    """A contraction of bytes whose accumulators are requantized."""
    found = _requantized(values, op)
    if isinstance(found, Declined):
        return found
    assert isinstance(found.arithmetic, Output)
    for reach in _reaches(found.weights, found.bias):
        if not has_room(found.arithmetic, reach):
            return Declined("found accumulators that 32 bits do not hold with the rounding term of fixed16")
    return found.match


def match_dequantize(values: Values, op: UniformDequantizeOp) -> Match | Declined:
    """A contraction of bytes whose accumulators only floats read."""
    element = element_of(op.operand)
    if not isinstance(element, UniformQuantizedType) or element.storage.type.width != 32:
        return Declined()
    found = _expressed(values, op)
    return found.match if isinstance(found, ContractionMatch) else found


def match_floats(values: Values, op: ConvolutionOp | DotGeneralOp) -> Match | Declined:
    """A contraction of f32."""
    found = _floats(values, op)
    return found.match if isinstance(found, ContractionMatch) else found


def contraction_in(values: Values, ops: list[Operation]) -> ContractionMatch:
    """The contraction that the body of a kernel is made of."""
    found: ContractionMatch | Declined = Declined()
    requantizes = [op for op in ops if isinstance(op, RequantizeOp)]
    expressed = [op for op in ops if isinstance(op, UniformDequantizeOp)]
    if requantizes:
        found = _requantized(values, requantizes[0])
    elif expressed:
        found = _expressed(values, expressed[0])
    else:
        found = _floats(values, next(op for op in ops if isinstance(op, ConvolutionOp | DotGeneralOp)))
    assert isinstance(found, ContractionMatch), found
    return found


# Backwards: from what accumulators become to the contraction.


def _requantized(values: Values, op: RequantizeOp) -> ContractionMatch | Declined:
    if element_dtype(element_of(op.result)) != np.int8:
        return Declined(f"found a result of {element_of(op.result)}, expected i8")
    if element_dtype(element_of(op.accumulator)) != np.int32:
        return Declined(f"found accumulators of {element_of(op.accumulator)}, expected i32")
    value, bias = without_bias(values, op.accumulator)
    weights = _weights_of(values, value, bias)
    if isinstance(weights, Declined):
        return weights
    source, weights = weights
    if element_dtype(element_of(source)) != np.int8:
        return Declined(f"found activations of {element_of(source)}, expected i8")
    channels = _channels(weights, source, values)
    output = output_of(values, op, channels)
    if isinstance(output, Declined):
        return output
    biases = _biases(bias, channels)
    if isinstance(weights, Pool):
        biases = np.full(channels, -weights.kernel[0] * weights.kernel[1] * weights.zero, np.int64)
    alone = isinstance(weights, Pool) or (isinstance(weights, Windows) and not weights.takes_residual)
    tail = Tail(op.result) if alone else _summed(values, op)
    return ContractionMatch(op, source, weights, biases, tail, output)


def _expressed(values: Values, op: UniformDequantizeOp) -> ContractionMatch | Declined:
    cast, type_ = owner_of(op.operand), element_of(op.operand)
    if not isinstance(cast, StorageCastOp) or not isinstance(type_, UniformQuantizedType) or type_.zero_points.any():
        return Declined("found stored integers, expected accumulators of zero point 0")
    if element_dtype(element_of(op.result)) != np.float32:
        return Declined(f"found a result of {element_of(op.result)}, expected f32")
    shape, axis = shape_of(op.result), values.innermost(op.result)
    if axis < 0 or (type_.is_per_channel and type_.axis != axis):
        return Declined("found scales along another dimension than that of the output channels")
    value, bias = without_bias(values, cast.input)
    weights = _weights_of(values, value, bias)
    if isinstance(weights, Declined):
        return weights
    source, weights = weights
    if isinstance(weights, Pool) or (isinstance(weights, Windows) and weights.depthwise):
        return Declined("found a depthwise convolution, whose accumulators have no kernel of their own")
    if element_dtype(element_of(source)) != np.int8:
        return Declined(f"found activations of {element_of(source)}, expected i8")
    scales = Expressed(np.broadcast_to(type_.scales, (shape[axis],)))
    tail = _followed(values, op.result, residual=not isinstance(weights, Windows) or weights.takes_residual)
    if tail.bias is not None:
        return Declined("found a bias of floats behind the accumulators")
    return ContractionMatch(op, source, weights, _biases(bias, shape[axis]), tail, scales)


def _floats(values: Values, op: ConvolutionOp | DotGeneralOp) -> ContractionMatch | Declined:
    if not all(element_dtype(element_of(value)) == np.float32 for value in (op.lhs, op.rhs, op.result)):
        return Declined()
    if isinstance(op, DotGeneralOp):
        weights = _matrix(values, op)
        source = op.lhs
    else:
        weights = Windows.of(values, op) if values.is_image(op.result) else Declined("found no images")
        source = weights.input.source if isinstance(weights, Windows) else op.lhs
    if isinstance(weights, Declined):
        return weights
    if isinstance(weights, Windows) and weights.leaves_out and not np.isfinite(weights.weights).all():
        return Declined("found infinite weights, which give NaN where they meet the zeros between elements")
    tail = _followed(values, op.result, residual=not isinstance(weights, Windows) or weights.takes_residual)
    channels = _channels(weights, source, values)
    bias = np.zeros(channels, np.float32) if tail.bias is None else np.broadcast_to(tail.bias, (channels,))
    return ContractionMatch(op, source, weights, bias, tail, None)


def _weights_of(
    values: Values, value: SSAValue, bias: IntArray | None
) -> tuple[SSAValue, Windows | Array | Pool] | Declined:
    """What a value that is accumulated reads, and the weights that it meets."""
    op = owner_of(value)
    if isinstance(op, ConvolutionOp):
        windows = Windows.of(values, op)
        return windows if isinstance(windows, Declined) else (windows.input.source, windows)
    if isinstance(op, DotGeneralOp):
        matrix = _matrix(values, op)
        if isinstance(matrix, Declined):
            return matrix
        if matrix.dtype != np.int8 or values.is_image(op.lhs):
            return Declined(f"found weights of {matrix.dtype} for {op.lhs.type}, expected i8")
        return op.lhs, matrix
    pooled = _pooled(values, value)
    if pooled is None or bias is not None:
        return Declined("found no sum of products with constant weights before it")
    image, pool = pooled
    if pool.kernel[0] * pool.kernel[1] > LARGEST_WINDOW:
        return Declined(
            f"found a window of {pool.kernel[0]} x {pool.kernel[1]}, expected at most {LARGEST_WINDOW} taps"
        )
    return image, pool


def _matrix(values: Values, op: DotGeneralOp) -> Array | Declined:
    """The weights (terms, channels) of rows times a constant matrix."""
    dimensions, rank = op.dot_dimension_numbers.data, len(shape_of(op.lhs))
    weights = values.constant(op.rhs)
    if weights is None:
        return Declined("found weights that are computed, expected a constant")
    plain = (
        weights.ndim == 2
        and not dimensions.lhs_batching_dimensions
        and dimensions.lhs_contracting_dimensions == (rank - 1,)
        and len(dimensions.rhs_contracting_dimensions) == 1
        and rank > 1
        and not values.is_image(op.lhs)
        and not values.is_image(op.result)
    )
    if not plain:
        return Declined(f"found dimensions {dimensions}, expected rows times a matrix")
    return weights if dimensions.rhs_contracting_dimensions == (0,) else weights.T


def _channels(weights: Windows | Array | Pool, source: SSAValue, values: Values) -> int:
    if isinstance(weights, Pool):
        return shape_of(source)[values.innermost(source)]
    return weights.weights.shape[3] if isinstance(weights, Windows) else weights.shape[1]


def _biases(bias: IntArray | None, channels: int) -> IntArray:
    """One bias a channel, 0 where there is none."""
    return np.zeros(channels, np.int64) if bias is None else np.broadcast_to(bias.astype(np.int64), (channels,))


def without_bias(values: Values, value: SSAValue) -> tuple[SSAValue, IntArray | None]:
    """Take the biases off: constants of one value a channel, broadcast and added one after the other."""
    total: Array | None = None
    while (found := _bias_and_rest(values, value)) is not None:
        bias, value = found
        total = bias.astype(np.int64) if total is None else total + bias
    return value, total


def _bias_and_rest(values: Values, value: SSAValue) -> tuple[Array, SSAValue] | None:
    """A constant of one value a channel, and what it is added to."""
    op = owner_of(value)
    if not isinstance(op, AddOp):
        return None
    axis = values.innermost(value)
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        broadcast = owner_of(other)
        if isinstance(broadcast, BroadcastInDimOp):
            bias = values.constant(broadcast.operand)
            if bias is not None and (bias.size == 1 or array_values(broadcast.broadcast_dimensions) == (axis,)):
                return bias.reshape(-1), operand
    return None


def output_of(values: Values, op: RequantizeOp, channels: int) -> Output | Declined:
    """The multipliers, one a channel, the zero point and the bounds of a requantize."""
    parts = [values.constant(operand) for operand in op.operands[1:]]
    axis = values.innermost(op.result)
    one = all(part is not None and part.size == 1 for part in parts)
    if any(part is None for part in parts):
        return Declined("found a multiplier that is computed, expected a constant")
    if not one and (op.axis is None or int(op.axis.value.data) != axis):
        return Declined("found multipliers along another dimension than that of the output channels")
    if op.behaviour.data == RequantizeBehaviour.EXACT.value:
        return Declined("found a multiplier of f64")
    every = [np.broadcast_to(np.asarray(part).reshape(-1), (channels,)) for part in parts]
    multiplier = Multiplier(RequantizeBehaviour(op.behaviour.data), *every)
    zero, low, high = (int(a.value.data) for a in (op.zero_point, op.storage_min, op.storage_max))
    return Output(multiplier, zero, low, high)


def has_room(output: Output, reach: IntArray) -> bool:
    """Whether 32 bits hold accumulators of at most |acc| = `reach` with what a kernel adds to the biases before."""
    return Epilogue(output.multiplier.behaviour).has_room(output.multiplier, reach)


def _reaches(weights: Windows | Array | Pool, bias: IntArray) -> Iterator[IntArray]:
    """The greatest accumulators of every channel, of each convolution that this one is made of."""
    if isinstance(weights, Pool):
        yield 128 * weights.kernel[0] * weights.kernel[1] + np.abs(bias)
    elif isinstance(weights, Windows):
        for piece in weights.pieces():
            own = piece.windows.weights
            yield 128 * np.abs(own.astype(np.int64)).sum((0, 1, 2)) + np.abs(bias + piece.beside(own))
    else:
        yield 128 * np.abs(weights.astype(np.int64)).sum(0) + np.abs(bias)


def _pooled(values: Values, value: SSAValue) -> tuple[SSAValue, Pool] | None:
    """reduce or reduce_window (sum) of convert(x) - zero over the image dimensions, perhaps reshaped."""
    op = owner_of(value)
    if isinstance(op, ReshapeOp):
        op = owner_of(op.operand)
    if not isinstance(op, ReduceOp | ReduceWindowOp) or len(op.operands) != 2:
        return None
    adds = isinstance(op.body.block.first_op, AddOp)
    centred = owner_of(op.operands[0])
    if not adds or values.splat(op.operands[1]) != 0 or not isinstance(centred, SubtractOp):
        return None
    converted, zero = owner_of(centred.lhs), values.splat(centred.rhs)
    if not isinstance(converted, ConvertOp) or zero is None or not values.is_image(converted.operand):
        return None
    image = converted.operand
    shape, (y, x) = shape_of(image), values.spatial
    if isinstance(op, ReduceOp):
        plain = array_values(op.dimensions) == (y, x)
        return (image, Pool((shape[y], shape[x]), (1, 1), int(zero))) if plain else None
    sizes, ones = array_values(op.window_dimensions), (1,) * 4
    strides = array_values(op.window_strides, ones)
    plain = (
        all(sizes[d] == strides[d] == 1 for d in range(4) if d not in (y, x))
        and array_values(op.window_dilations, ones) == array_values(op.base_dilations, ones) == ones
        and not any(side for pair in padding_values(op.padding, 4) for side in pair)
    )
    return (image, Pool((sizes[y], sizes[x]), (strides[y], strides[x]), int(zero))) if plain else None


# Forwards: what follows joins as long as nothing else uses the value before it.


def _summed(values: Values, op: RequantizeOp) -> Tail:
    """The sum of two that alone uses the result, if the other operand of the same shape is computed already."""
    uses = list(op.result.uses)
    user = uses[0].operation if len(uses) == 1 else None
    if not isinstance(user, WeightedSumOp) or len(user.inputs) != 2:
        return Tail(op.result)
    other: SSAValue = user.inputs[1 - uses[0].index]
    bytes_ = all(element_dtype(element_of(value)) == np.int8 for value in (other, user.result))
    if not bytes_ or not values.has(other) or shape_of(other) != shape_of(op.result):
        return Tail(op.result)
    return Tail(user.result, other=other, sum=user, first=uses[0].index == 1)


def _followed(values: Values, value: SSAValue, *, residual: bool) -> Tail:
    """The longest tail of a value of floats; without `residual` the longest that adds no other value."""
    tail = Tail(value)
    while (longer := _longer(values, tail)) is not None and (residual or longer.other is None):
        tail = longer
    return tail


def _longer(values: Values, tail: Tail) -> Tail | None:
    """The tail with the op that follows; None where that stays by itself."""
    uses = list(tail.result.uses)
    op = uses[0].operation if len(uses) == 1 else None
    if isinstance(op, AddOp):
        return _added(values, tail, op, op.operands[1 - uses[0].index])
    if op is None or tail.bounds is not None:
        return None
    bounds = _bounds(values, op, uses[0].index)
    if bounds is None:
        return None
    return replace(tail, result=op.results[0], bounds=bounds, bounds_last=tail.other is not None)


def _added(values: Values, tail: Tail, op: AddOp, other: SSAValue) -> Tail | None:
    broadcast = owner_of(other)
    along = isinstance(broadcast, BroadcastInDimOp) and array_values(broadcast.broadcast_dimensions) == (
        values.innermost(other),
    )
    bias = values.constant(broadcast.operand) if isinstance(broadcast, BroadcastInDimOp) and along else None
    if bias is not None and tail.bias is None and tail.bounds is None and tail.other is None:
        return replace(tail, result=op.result, bias=bias)
    if tail.other is None and values.has(other) and values.constant(other) is None:
        return replace(tail, result=op.result, other=other)
    return None


def _bounds(values: Values, op: Operation, index: int) -> tuple[float, float] | None:
    """The numbers between which an op puts its operand `index`."""
    if isinstance(op, ClampOp) and index == 1:
        low, high = values.splat(op.min), values.splat(op.max)
        return None if low is None or high is None else (low, high)
    if isinstance(op, MaximumOp | MinimumOp):
        bound = values.splat(op.operands[1 - index])
        if bound is not None:
            return (bound, math.inf) if isinstance(op, MaximumOp) else (-math.inf, bound)
    return None

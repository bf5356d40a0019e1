"""Contractions as one kernel: `ContractionMatch`, for all kinds of arithmetic.

%acc = convolution | dot_general %source, constant      (or a sum over windows)
%sum = add %acc, bias                                   i32 or f32, one number per channel
%y   = fxpmath.requantize %sum                          i8; the match starts here, backwards
     | uniform_dequantize %sum                          f32 from i32; the match starts here, backwards
     | %sum itself, for floats
%z   = weighted_sum %y, %other | multiply, bounds, add  the tail, if nothing else uses %y; or a chain (`computed.py`)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.kernels.computed import ComputedOutput
from zeropoint.codegen.patterns.blockwise import Blockwise
from zeropoint.codegen.patterns.computed import chain_of, end_of
from zeropoint.codegen.patterns.dequantized import Dequantized
from zeropoint.codegen.patterns.match import BodyPatterns, Declined, Found, Match, found_in
from zeropoint.codegen.patterns.pools import Pool
from zeropoint.codegen.patterns.reaches import has_room, in_i32, reach_of, reaches
from zeropoint.codegen.patterns.scaled_rows import RowFactor, row_factor
from zeropoint.codegen.patterns.tail import Tail, followed, summed
from zeropoint.codegen.patterns.weights import (
    KernelWeights,
    channels_of,
    is_depthwise,
    matrix_of,
    takes_residual,
    weights_of,
)
from zeropoint.codegen.patterns.windows import Windows
from zeropoint.codegen.values import Values
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.fxpmath import RequantizeOp
from zeropoint.ir.locations import describe
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.bodies import body_op
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.numerics import Requantization, RequantizeBehaviour
from zeropoint.numerics.arrays import FloatArray, IntArray
from zeropoint.numerics.rounding import INT32_MAX


@dataclass(frozen=True)
class ExpressedMatch:
    """Dequantization of i32 accumulators to f32, with one scale per channel."""

    scales: FloatArray


@dataclass(frozen=True)
class ContractionMatch:
    """A contraction and its tail. `name` is that of the op where the match starts. `bias` has one number per channel.

    `weights` may be a matrix (terms, channels). `arithmetic` is the conversion of accumulators; None for floats. The
    kernel's operands are the source and, if it is another value, the added value.
    """

    name: str
    source: SSAValue
    weights: KernelWeights
    bias: Array
    tail: Tail
    arithmetic: Requantization | ComputedOutput | ExpressedMatch | None
    factor: RowFactor | None = None
    """The factor of each row of accumulators, which start at `bias`. Its numbers are `tail.other`."""
    result_bits: int = 8
    """The number of bits of an element of a requantized result, before a sum."""

    @property
    def windows(self) -> Windows | None:
        """The windows of a convolution."""
        return self.weights if isinstance(self.weights, Windows) else None

    @property
    def matrix(self) -> Array | None:
        """The weights of a product of rows, as stored integers or floats; None for windows and pools."""
        return matrix_of(self.weights)

    @property
    def blocks(self) -> Blockwise | None:
        """The product of rows with weights in blocks."""
        return self.weights if isinstance(self.weights, Blockwise) else None

    @property
    def source_bytes(self) -> int:
        """The number of bytes of an activation."""
        return element_dtype(element_of(self.source)).itemsize

    @property
    def source_reach(self) -> int:
        """The greatest |activation|."""
        return reach_of(self.source)

    @property
    def depthwise(self) -> bool:
        """Whether the depthwise kernel computes this contraction."""
        return is_depthwise(self.weights)

    @property
    def fits(self) -> bool:
        """Whether 32 bits hold accumulators that are requantized, with the rounding terms in the biases."""
        output = self.arithmetic
        found = reaches(self.weights, self.bias, self.source_reach)
        if self.factor is not None:
            (sums,) = found
            rows = self.factor.reach(sums)
            room = isinstance(output, Requantization) and has_room(output, rows)
            return room and bool((np.maximum(sums, rows) <= INT32_MAX).all())
        if isinstance(output, ComputedOutput):
            return all(bool((reach <= INT32_MAX).all()) for reach in found)
        return not isinstance(output, Requantization) or all(has_room(output, in_i32(reach)) for reach in found)

    @property
    def is_rescaled(self) -> bool:
        """Whether accumulators become the result of one kernel of the model, whose bias may be corrected.

        A chain of elementwise ops may convert them in another way than that kernel.
        """
        output = self.arithmetic
        if isinstance(output, ComputedOutput):
            return output.requantizes
        return isinstance(output, Requantization | ExpressedMatch)

    @property
    def match(self) -> Match:
        """The match of the whole kernel."""
        other = self.tail.other
        inputs = (self.source,) if other is None or other is self.source else (self.source, other)
        inputs += () if self.factor is None else (self.factor.middles,)
        return Match("contraction", (self.tail.result,), inputs, found=self)


def contraction_of(program: Program, kernel: KernelOp, known: Found) -> ContractionMatch:
    """The contraction that a kernel computes, from `known` or by matching the body again."""
    found = found_in(program, kernel, known, _RULES)
    assert isinstance(found, ContractionMatch)
    return found


# Matches go backwards, from the conversion of accumulators to the contraction.


def match_requantize(values: Values, op: RequantizeOp) -> Match | Declined:
    """A contraction of i8 or i16 whose accumulators are requantized."""
    dtype = element_dtype(element_of(op.result))
    if dtype.kind != "i" or dtype.itemsize > 2:
        return Declined(f"found a result of {element_of(op.result)}, expected i8 or i16")
    if element_dtype(element_of(op.accumulator)) != np.int32:
        return Declined(f"found accumulators of {element_of(op.accumulator)}, expected i32")
    found = _of_integers(values, op.accumulator)
    if isinstance(found, Declined):
        return _computed(values, op) or _of_scaled_rows(values, op) or found
    source, weights, bias = found
    if dtype == np.int16 and is_depthwise(weights):
        return Declined("found windows of single channels with a result of i16, expected i8")
    output = output_of(values, op, len(bias))
    if isinstance(output, Declined):
        return output
    root = end_of(op)
    if root is not None and (longer := _computed(values, root)) is not None:
        return longer
    tail = summed(values, op) if takes_residual(weights) else Tail(op.result)
    match = ContractionMatch(describe(op), source, weights, bias, tail, output, result_bits=8 * dtype.itemsize)
    if not match.fits:
        return Declined("found accumulators that exceed 32 bits with the rounding term of fixed16")
    return match.match


def _computed(values: Values, op: RequantizeOp) -> Match | None:
    """A contraction whose accumulators a chain of elementwise ops converts to i8."""
    chain = chain_of(values, op, lambda value: _of_integers(values, value))
    if chain is None:
        return None
    (source, weights, bias), computed, other = chain
    if other is not None and not takes_residual(weights):
        return None
    numbers = tuple(np.broadcast_to(array, (len(bias),)) for array in computed.numbers)
    tail = Tail(op.result, other=other)
    match = ContractionMatch(describe(op), source, weights, bias, tail, replace(computed, numbers=numbers))
    return match.match if match.fits else None


def _of_scaled_rows(values: Values, op: RequantizeOp) -> Match | None:
    """A product of rows whose accumulators are multiplied by a number of their row."""
    value, bias = without_bias(values, op.accumulator)
    scaled = row_factor(values, value)
    found = None if scaled is None else _of_integers(values, scaled[0])
    if scaled is None or found is None or isinstance(found, Declined):
        return None
    source, weights, starts = found
    output = output_of(values, op, len(starts))
    if matrix_of(weights) is None or isinstance(weights, Blockwise) or isinstance(output, Declined):
        return None
    after = np.broadcast_to(np.zeros(1, np.int64) if bias is None else bias.astype(np.int64), starts.shape)
    factor = replace(scaled[1], bias=after)
    tail = Tail(op.result, other=factor.numbers)
    bits = 8 * element_dtype(element_of(op.result)).itemsize
    match = ContractionMatch(describe(op), source, weights, starts, tail, output, factor, bits)
    return match.match if match.fits and match.source_bytes == 1 else None


def match_dequantize(values: Values, op: hlo.UniformDequantizeOp) -> Match | Declined:
    """A contraction of i8 or i16 whose accumulators are dequantized."""
    cast, type_ = defining_op(op.operand), element_of(op.operand)
    if not isinstance(type_, UniformQuantizedType) or type_.storage.type.width != 32:
        return Declined()
    if not isinstance(cast, StorageCastOp) or type_.zero_points.any():
        return Declined("found stored integers, expected accumulators of zero point 0")
    if element_dtype(element_of(op.result)) != np.float32:
        return Declined(f"found a result of {element_of(op.result)}, expected f32")
    shape, axis = shape_of(op.result), values.innermost(op.result)
    if axis < 0 or (type_.is_per_channel and type_.axis != axis):
        return Declined("found scales along a dimension other than that of the output channels")
    found = _of_integers(values, cast.input)
    if isinstance(found, Declined):
        return found
    source, weights, bias = found
    if is_depthwise(weights):
        return Declined("found a depthwise convolution, whose kernel does not dequantize accumulators")
    tail = followed(values, op.result, residual=takes_residual(weights))
    if tail.factor is not None or tail.bias is not None:
        return Declined("found a float factor or bias after the accumulators")
    scales = ExpressedMatch(np.broadcast_to(type_.scales, (shape[axis],)))
    return ContractionMatch(describe(op), source, weights, bias, tail, scales).match


def match_floats(values: Values, op: hlo.ConvolutionOp | hlo.DotGeneralOp) -> Match | Declined:
    """A contraction of f32."""
    lhs, rhs, result = (element_of(value) for value in (op.lhs, op.rhs, op.result))
    if any(element_dtype(element) != np.float32 for element in (lhs, rhs, result)):
        return Declined(f"found {lhs} times {rhs} to {result}, expected f32, or sums that are requantized", True)
    if isinstance(op, hlo.ConvolutionOp) and not values.is_image(op.result):
        return Declined("found a result that is not an image")
    if 0 in shape_of(op.lhs):
        return Declined("found sums of no terms, expected one term or more")
    weights = weights_of(values, op.result, None)
    if isinstance(weights, Declined):
        return weights
    source, weights = weights
    if isinstance(weights, Windows) and weights.leaves_out and not np.isfinite(weights.weights).all():
        return Declined("found infinite weights, whose products with the zeros between elements are NaN")
    tail = followed(values, op.result, residual=takes_residual(weights))
    channels = channels_of(weights, source, values)
    # x + -0 is x also for a product of -0. Sums without a factor are never -0.
    none = np.float32(0 if tail.factor is None else -0.0)
    bias = np.broadcast_to(none if tail.bias is None else tail.bias, (channels,))
    return ContractionMatch(describe(op), source, weights, bias, tail, None).match


def match_pool(_: Values, op: hlo.ReduceWindowOp) -> Declined:
    """No match: a sum over windows is a contraction only before a requantize, where the match starts."""
    body = body_op(op.body)
    by = "several ops" if body is None else body.name
    return Declined(f"found {element_of(op.inputs[0])} reduced by {by}, expected sums that are requantized", True)


_RULES: BodyPatterns = {
    RequantizeOp: match_requantize,
    hlo.UniformDequantizeOp: match_dequantize,
    hlo.ConvolutionOp: match_floats,
    hlo.DotGeneralOp: match_floats,
}
"""The patterns of contractions, by the op where the match starts."""


def _of_integers(values: Values, accumulator: SSAValue) -> tuple[SSAValue, KernelWeights, IntArray] | Declined:
    """The source, the weights and the bias per channel of an i8 or i16 contraction, from its accumulators."""
    value, bias = without_bias(values, accumulator)
    found = weights_of(values, value, bias)
    if isinstance(found, Declined):
        return found
    source, weights = found
    kind = element_dtype(element_of(source))
    if kind != np.int8 and kind != np.int16:
        return Declined(f"found activations of {element_of(source)}, expected i8 or i16")
    if kind == np.int16 and is_depthwise(weights):
        return Declined("found windows of single channels of i16, expected i8")
    if kind == np.int16 and isinstance(weights, Windows) and weights.padding is not None and weights.padding.value:
        # Padding is filled byte by byte.
        return Declined(f"found i16 between zero points of {weights.padding.value}, expected 0")
    channels = channels_of(weights, source, values)
    if isinstance(weights, Pool):
        return source, weights, np.full(channels, -weights.kernel[0] * weights.kernel[1] * weights.zero, np.int64)
    if isinstance(weights, Dequantized):
        return Declined("found float weights, expected i8")
    dtype = weights.weights.dtype if isinstance(weights, Windows | Blockwise) else weights.dtype
    if dtype != np.int8 and not kind == dtype == np.int16:
        return Declined(f"found weights of {dtype}, expected i8")
    biases = np.zeros(channels, np.int64) if bias is None else np.broadcast_to(bias.astype(np.int64), (channels,))
    return source, weights, biases


def without_bias(values: Values, value: SSAValue) -> tuple[SSAValue, IntArray | None]:
    """Split off biases, that is, broadcast per-channel constants. Returns the accumulator and the sum of biases."""
    total: Array | None = None
    while (found := _bias_and_rest(values, value)) is not None:
        bias, value = found
        total = bias.astype(np.int64) if total is None else total + bias
    return value, total


def _bias_and_rest(values: Values, value: SSAValue) -> tuple[Array, SSAValue] | None:
    """A per-channel constant and the value to which it is added; None for other values."""
    op = defining_op(value)
    if not isinstance(op, hlo.AddOp):
        return None
    axis = values.innermost(value)
    for operand, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        broadcast = defining_op(other)
        if isinstance(broadcast, hlo.BroadcastInDimOp):
            bias = values.constant(broadcast.operand)
            if bias is not None and (bias.size == 1 or array_values(broadcast.broadcast_dimensions) == (axis,)):
                return bias.reshape(-1), operand
    return None


def output_of(values: Values, op: RequantizeOp, channels: int) -> Requantization | Declined:
    """The per-channel multipliers, the zero point and the bounds of a requantize."""
    parts = [values.constant(operand) for operand in op.operands[1:]]
    axis = values.innermost(op.result)
    one = all(part is not None and part.size == 1 for part in parts)
    if any(part is None for part in parts):
        return Declined("found a multiplier that is computed, expected a constant")
    if not one and (op.axis is None or int(op.axis.value.data) != axis):
        return Declined("found multipliers along a dimension other than that of the output channels")
    if op.behaviour.data == RequantizeBehaviour.EXACT.value:
        return Declined("found a multiplier of f64")
    every = [np.broadcast_to(np.asarray(part).reshape(-1), (channels,)) for part in parts]
    return op.requantization(*every)

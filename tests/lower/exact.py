"""What a quantized StableHLO program computes, in Python integers and fractions.

Written from the specification alone, and from the formulas of the profiles, without `zeropoint.numerics` and without
NumPy's integers: whatever wraps or rounds there cannot do so here. Tensors are dictionaries from index tuples to
integers. It takes the ops that sum and multiply, on storage integers; per element, so for small programs.

Source: the StableHLO specification ("uniform_quantize", "dot_general", "convolution", "reduce", dequantize_op_quantize
where scales are equal); the lowering of quantized contractions (fixed32); gemmlowp and LiteRT (fixed32-double).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import frexp
from typing import Any

import numpy as np
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values, padding_values
from zeropoint.ir.tensors import Array, element_of, shape_of

Index = tuple[int, ...]
INT32 = (-(2**31), 2**31 - 1)


def clamp(number: int, bounds: tuple[int, int]) -> int:
    return max(bounds[0], min(bounds[1], number))


@dataclass
class Tensor:
    """Stored integers by index, with the scale, zero point and storage bounds of each element."""

    shape: Index
    stored: dict[Index, int]
    type: UniformQuantizedType
    saturates: bool = True

    @functools.cached_property
    def _channels(self) -> tuple[int | None, list[tuple[Fraction, int, tuple[int, int]]]]:
        """The axis, and the parameters of each channel; of all elements without an axis. To ask the type for those of
        every element takes most of the time."""
        axis = self.type.axis
        return axis, [_of_channel(self.type, n) for n in range(1 if axis is None else self.shape[axis])]

    def real(self, at: Index) -> tuple[int, Fraction]:
        """(stored - zero point, scale)."""
        axis, channels = self._channels
        scale, zero, _ = channels[0 if axis is None else at[axis]]
        return self.stored[at] - zero, scale

    def array(self, dtype: Any) -> Array:
        found = np.empty(self.shape, dtype)
        for at, number in self.stored.items():
            found[at] = number
        return found


def parameters(kind: UniformQuantizedType, at: Index) -> tuple[Fraction, int, tuple[int, int]]:
    """The scale, zero point and bounds of an element."""
    return _of_channel(kind, 0 if kind.axis is None else at[kind.axis])


@functools.cache
def _of_channel(kind: UniformQuantizedType, channel: int) -> tuple[Fraction, int, tuple[int, int]]:
    scales, points = [float(s) for s in kind.scales], [int(z) for z in kind.zero_points]
    bounds = (kind.storage.minimum, kind.storage.maximum)
    return Fraction(scales[channel if len(scales) > 1 else 0]), points[channel if len(points) > 1 else 0], bounds


def indices(shape: Sequence[int]) -> Iterator[Index]:
    return itertools.product(*map(range, shape))


def mantissa(m: Fraction) -> tuple[int, int]:
    """(M, e): m ~ M / 2^31 * 2^e with 2^30 <= M < 2^31; m is taken as f64, as scales are."""
    q, e = frexp(float(m))
    scaled = Fraction(q) * 2**31
    whole = int(scaled + Fraction(1, 2))  # q > 0: half away from zero is half up
    if whole == 2**31:
        whole, e = 2**30, e + 1
    return whole, e


def fixed32(acc: int, m: Fraction) -> int:
    whole, e = mantissa(m)
    if e < -31:
        return 0
    n = 31 - e
    if n < 0:
        return acc * (2**31 - 1)
    return (acc * whole + ((1 << n) >> 1)) >> n


def fixed32_double(acc: int, m: Fraction) -> int:
    """gemmlowp; the shift left saturates to 32 bits, where the runtime's is undefined."""
    whole, e = mantissa(m)
    if e < -31:
        return 0
    if e > 30:
        whole, e = 2**31 - 1, 30
    shifted = clamp(acc << max(e, 0), INT32)
    product = 2 * shifted * whole
    high = min((product + 2**31) >> 32, INT32[1])
    k = max(-e, 0)
    if k == 0:
        return high
    floor, rest = high >> k, high & ((1 << k) - 1)
    return floor + (rest > (((1 << k) - 1) >> 1) + (high < 0))


def wide(acc: int, m: Fraction) -> int:
    """LiteRT's 16x8 form: a multiplier of 15 bits, one rounding."""
    whole, e = mantissa(m)
    if e < -31:
        return 0
    reduced = (whole + 2**15) >> 16 if whole < 0x7FFF0000 else 0x7FFF
    shift = 15 - e
    if shift <= 0:  # past every bound of 16 bits, but for 0
        return acc * reduced << -shift
    return (acc * reduced + (1 << (shift - 1))) >> shift


ROUNDINGS: dict[str, Callable[[int, Fraction], int]] = {"fixed32": fixed32, "fixed32-double": fixed32_double}


class Evaluator:
    """Runs a program of one block; `profile` is `fixed32` or `fixed32-double`."""

    def __init__(self, program: Program, profile: str):
        self.program, self.round = program, ROUNDINGS[profile]
        self.profile = profile

    def run(self, arrays: Sequence[Array]) -> list[Tensor]:
        values: dict[SSAValue, Tensor] = {}
        for argument, array in zip(self.program.entry.args, arrays, strict=True):
            values[argument] = self._given(argument, array)
        for op in self.program.entry.ops:
            if isinstance(op, ReturnOp):
                return [values[operand] for operand in op.operands]
            values[op.results[0]] = self._computed(op, values)
        raise AssertionError("found no return")

    def _given(self, value: SSAValue, array: Array) -> Tensor:
        kind = element_of(value)
        assert isinstance(kind, UniformQuantizedType)
        return Tensor(tuple(array.shape), {at: int(array[at]) for at in indices(array.shape)}, kind)

    def _computed(self, op: Operation, values: dict[SSAValue, Tensor]) -> Tensor:
        if isinstance(op, hlo.ConstantOp):
            array = constant_array(op.output, self.program.weights)
            assert array is not None
            return self._given(op.output, array)
        kind, shape = element_of(op.results[0]), tuple(shape_of(op.results[0]))
        assert isinstance(kind, UniformQuantizedType)
        made = Tensor(shape, {}, kind)
        operands = [values[operand] for operand in op.operands]
        rule = getattr(self, op.name.split(".")[1])
        made.saturates = "zeropoint.accumulator" not in op.attributes
        for at in indices(shape):
            made.stored[at] = rule(op, operands, made, at)
        return made

    def _result(self, number: int, scale: Fraction, made: Tensor, at: Index, *, wide_sums: bool = False) -> int:
        """number * scale as the result stores it: exact where the scales are equal, else requantized."""
        wanted, zero, bounds = parameters(made.type, at)
        # Scales are f64, and so is their quotient.
        ratio = Fraction(float(scale) / float(wanted))
        if ratio == 1:
            return clamp(number + zero, bounds) if made.saturates else number
        return clamp((wide if wide_sums else self.round)(number, ratio) + zero, bounds)

    # Ops.

    def uniform_quantize(self, op: hlo.UniformQuantizeOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (source,) = operands
        if source.type == made.type:
            return source.stored[at]
        number, scale = source.real(at)  # not clamped where `zeropoint.accumulator` says that it has 64 bits
        accumulator = source.type.storage.type.width == 32 and 8 < made.type.storage.type.width <= 16
        wide_sums = self.profile == "fixed32-double" and accumulator
        wanted, zero, bounds = parameters(made.type, at)
        m = Fraction(float(scale) / float(wanted))
        return clamp((wide if wide_sums else self.round)(number, m) + zero, bounds)

    def add(self, op: hlo.AddOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (a, scale), (b, other) = (operand.real(at) for operand in operands)
        assert scale == other == parameters(made.type, at)[0]
        return self._result(a + b, scale, made, at)

    def subtract(self, op: hlo.SubtractOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (a, scale), (b, other) = (operand.real(at) for operand in operands)
        assert scale == other == parameters(made.type, at)[0]
        return self._result(a - b, scale, made, at)

    def multiply(self, op: hlo.MultiplyOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (a, scale), (b, other) = (operand.real(at) for operand in operands)
        return self._result(a * b, Fraction(float(scale) * float(other)), made, at)

    def broadcast_in_dim(self, op: hlo.BroadcastInDimOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (source,) = operands
        dims = array_values(op.broadcast_dimensions, ())
        return source.stored[tuple(0 if n == 1 else at[d] for n, d in zip(source.shape, dims, strict=True))]

    def reshape(self, op: hlo.ReshapeOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (source,) = operands
        flat = int(np.ravel_multi_index(at, made.shape)) if at else 0
        return source.stored[tuple(map(int, np.unravel_index(flat, source.shape)))]

    def transpose(self, op: hlo.TransposeOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        (source,) = operands
        back = [0] * len(at)
        for to, dim in enumerate(array_values(op.permutation)):
            back[dim] = at[to]
        return source.stored[tuple(back)]

    def maximum(self, op: hlo.MaximumOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        return max(operand.stored[at] for operand in operands)

    def minimum(self, op: hlo.MinimumOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        return min(operand.stored[at] for operand in operands)

    def clamp(self, op: hlo.ClampOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        low, value, high = (operand.stored[at if operand.shape else ()] for operand in operands)
        return min(max(value, low), high)

    def dot_general(self, op: hlo.DotGeneralOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        lhs, rhs = operands
        dims = op.dot_dimension_numbers.data
        left, right = [0] * len(lhs.shape), [0] * len(rhs.shape)
        batch = len(dims.lhs_batching_dimensions)
        rest = iter(at[batch:])
        for place, tensor, batching, contracting in (
            (left, lhs, dims.lhs_batching_dimensions, dims.lhs_contracting_dimensions),
            (right, rhs, dims.rhs_batching_dimensions, dims.rhs_contracting_dimensions),
        ):
            for d, index in zip(batching, at[:batch], strict=True):
                place[d] = index
            for d in range(len(tensor.shape)):
                if d not in batching and d not in contracting:
                    place[d] = next(rest)
        total, s, t = 0, Fraction(0), Fraction(0)  # the scales are those of every term
        for taken in indices([lhs.shape[d] for d in dims.lhs_contracting_dimensions]):
            for d, e, index in zip(
                dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions, taken, strict=True
            ):
                left[d] = right[e] = index
            (a, s), (b, t) = lhs.real(tuple(left)), rhs.real(tuple(right))
            total += a * b
        return self._result(total, Fraction(float(s) * float(t)), made, at, wide_sums=_is_wide(lhs, rhs))

    def convolution(self, op: hlo.ConvolutionOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        """No groups, no dilation, nothing reversed."""
        lhs, rhs = operands
        layout = op.dimension_numbers.data
        spatial = layout.input_spatial_dimensions
        strides = array_values(op.window_strides, (1,) * len(spatial))
        pads = padding_values(op.padding, len(spatial))
        kernel = [rhs.shape[d] for d in layout.kernel_spatial_dimensions]
        total, s, t = 0, Fraction(0), Fraction(0)
        for feature, *taps in indices([rhs.shape[layout.kernel_input_feature_dimension], *kernel]):
            image, weight = [0] * len(lhs.shape), [0] * len(rhs.shape)
            image[layout.input_batch_dimension] = at[layout.output_batch_dimension]
            image[layout.input_feature_dimension] = feature
            weight[layout.kernel_input_feature_dimension] = feature
            weight[layout.kernel_output_feature_dimension] = at[layout.output_feature_dimension]
            for n, tap in enumerate(taps):
                weight[layout.kernel_spatial_dimensions[n]] = tap
                image[spatial[n]] = at[layout.output_spatial_dimensions[n]] * strides[n] + tap - pads[n][0]
            b, t = rhs.real(tuple(weight))
            inside = all(0 <= image[d] < lhs.shape[d] for d in spatial)
            a, s = lhs.real(tuple(image)) if inside else (0, parameters(lhs.type, tuple(image))[0])
            total += a * b
        return self._result(total, Fraction(float(s) * float(t)), made, at, wide_sums=_is_wide(lhs, rhs))

    def reduce(self, op: hlo.ReduceOp, operands: list[Tensor], made: Tensor, at: Index) -> int:
        """Sums are exact and saturate once, at the end."""
        source, start = operands
        body = op.body.block.first_op
        assert body is not None
        dims = sorted(array_values(op.dimensions))
        values: list[int] = []
        for taken in indices([source.shape[d] for d in dims]):
            rest, chosen = iter(at), dict(zip(dims, taken, strict=True))
            full = tuple(chosen[d] if d in chosen else next(rest) for d in range(len(source.shape)))
            values.append(source.stored[full])
        _, zero, bounds = parameters(made.type, at)
        values.append(start.stored[()])
        if body.name == "stablehlo.add":
            return clamp(sum(value - zero for value in values) + zero, bounds)
        return {"stablehlo.maximum": max, "stablehlo.minimum": min}[body.name](values)


def _is_wide(lhs: Tensor, rhs: Tensor) -> bool:
    return max(lhs.type.storage.type.width, rhs.type.storage.type.width) > 8


def evaluate(program: Program, arrays: Sequence[Array], profile: str = "fixed32") -> list[list[int]]:
    """The stored integers of every result, flat, as Python integers."""
    return [[tensor.stored[at] for at in indices(tensor.shape)] for tensor in Evaluator(program, profile).run(arrays)]

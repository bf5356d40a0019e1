"""Rules for elementwise ops and data movement as scalars of a loop nest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import Operation

from zeropoint.codegen.graph import View
from zeropoint.codegen.kernels.elements import (
    BINARY,
    BINARY_IN_DOUBLE,
    FLOAT_ONLY,
    IN_DOUBLE,
    UNARY,
    Compare,
    Gather,
    Index,
    Narrow,
    Number,
    Requantize,
)
from zeropoint.codegen.kernels.quantize import QUANTIZES, Dequantize, Quantize
from zeropoint.codegen.llvm.machine import CodegenError
from zeropoint.codegen.llvm.types import FLOATS, WIDTHS
from zeropoint.codegen.schedule.expression import (
    Axis,
    Expression,
    Indices,
    ScalarRule,
    half_of,
    on_numbers,
    scalar_type,
)
from zeropoint.codegen.schedule.tables import interpolate, look_up
from zeropoint.ir import chlo
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.annotations import profile_of
from zeropoint.ir.functions import function_name
from zeropoint.ir.fxpmath import (
    InterpolateOp,
    QuotientOp,
    RequantizeOp,
    RoundingDivideByPotOp,
    SaturatingAddOp,
    SaturatingRoundingDoublingHighMulOp,
    TableOp,
    WeightedSumOp,
)
from zeropoint.ir.fxpmath.checks import number
from zeropoint.ir.fxpmath.fixed_ops import width_of
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.tensors import element_dtype, element_of, shape_of
from zeropoint.numerics import RequantizeBehaviour
from zeropoint.numerics.affine import QuantizeBehaviour, range_factors
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.rounding import INT32_MAX
from zeropoint.numerics.storage import dtype_range


def _computed(e: Expression, op: Any, indices: Indices) -> int:
    """An elementwise op. Functions of f16 and bf16 are computed in f64 and rounded as by `convert`."""
    name, form = function_name(op), half_of(op.result)
    if name not in UNARY | BINARY or (name in FLOAT_ONLY and scalar_type(op.result)[0] not in FLOATS):
        raise CodegenError(f"{describe(op)}: found no native form of {name} of {op.result.type}; run it with the "
                           "interpreter")  # fmt: skip
    operands = [e.value(operand, indices) for operand in op.operands]
    if form is None or (name not in IN_DOUBLE and name not in BINARY_IN_DOUBLE):
        return e.step(name, op.result, operands)
    wide = ("double", True)
    result = e.step(name, wide, [e.step("convert", wide, [operand]) for operand in operands])
    return result if form == "half" else e.step("convert", op.result, [result])


def _convert(e: Expression, op: hlo.ConvertOp, indices: Indices) -> int:
    if half_of(op.result) == "half" and scalar_type(op.operand)[0] == "double":
        # `Narrow` rounds f64 to f16 once. Through f32, it would be rounded twice.
        return e.step(Narrow("half"), op.result, [e.value(op.operand, indices)])
    return e.step("convert", op.result, [e.value(op.operand, indices)])


def _bitcast(e: Expression, op: hlo.BitcastConvertOp, indices: Indices) -> int:
    source, target = (scalar_type(value)[0] for value in (op.operand, op.result))
    if WIDTHS[source] != WIDTHS[target] or half_of(op.operand) or half_of(op.result):
        raise CodegenError(
            f"{describe(op)}: found {op.operand.type} to {op.result.type}; native code reinterprets integers, f32 and "
            "f64 only as elements of the same width (run it with the interpreter)"
        )
    return e.step("bitcast_convert", op.result, [e.value(op.operand, indices)])


def _compare(e: Expression, op: hlo.CompareOp, indices: Indices) -> int:
    total = op.compare_type is not None and op.compare_type.data is hlo.ComparisonType.TOTALORDER
    what = Compare(op.comparison_direction.data.value.lower(), total)
    return e.step(what, op.result, [e.value(op.lhs, indices), e.value(op.rhs, indices)])


def _selected(e: Expression, op: Any, indices: Indices) -> int:
    """Ops with operands that may be scalars, which apply to all elements."""
    values = [e.value(value, indices if shape_of(value) else ()) for value in op.operands]
    return e.step(function_name(op), op.results[0], values)


def _cast(e: Expression, op: StorageCastOp, indices: Indices) -> int:
    return e.value(op.input, indices)


def _requantize(e: Expression, op: RequantizeOp, indices: Indices) -> int:
    if scalar_type(op.accumulator)[0] not in ("i32", "i64"):
        raise CodegenError(f"{describe(op)}: found accumulators {element_of(op.accumulator)}, expected i32 or i64")
    values = [e.value(op.accumulator, indices)]
    for operand in op.operands[1:]:
        # Only constants are known to be in the ranges of the behaviour.
        if e.scope.values.constant(operand) is None:
            raise CodegenError(f"{describe(op)}: found multipliers that are computed, expected constants")
        (count,) = shape_of(operand)
        if count == 1:
            at = Axis()
        else:
            assert op.axis is not None
            at = indices[int(op.axis.value.data)]
        values.append(e.value(operand, (at,)))
    numbers = [int(a.value.data) for a in (op.zero_point, op.storage_min, op.storage_max)]
    return e.step(Requantize(RequantizeBehaviour(op.behaviour.data), *numbers), op.result, values)


def _weighted_sum(e: Expression, op: WeightedSumOp, indices: Indices) -> int:
    return e.step(op.sum, op.result, [e.value(value, indices) for value in op.inputs])


def _quotient(e: Expression, op: QuotientOp, indices: Indices) -> int:
    return e.step(op.division, op.result, [e.value(value, indices) for value in op.operands])


def _rounding_divide(e: Expression, op: RoundingDivideByPotOp, indices: Indices) -> int:
    """(x >> k) + ((x & mask) > (mask >> 1) - sign), in the type of x."""
    x, exponent, like = e.value(op.operand, indices), number(op.exponent), op.result
    if exponent == 0:
        return x
    mask = (1 << exponent) - 1
    numbers = (0, 1, exponent, mask, mask >> 1, width_of(like) - 1)
    zero, one, shift, low, half, last = (e.step(Number(n), like) for n in numbers)
    # x >> last is -1 for negative x, which raises their threshold by 1, so that their ties round away from zero.
    threshold = e.step("subtract", like, [half, e.step("shift_right_arithmetic", like, [x, last])])
    above = e.step(Compare("gt"), ("i1", False), [e.step("and", like, [x, low]), threshold])
    up = e.step("select", like, [above, one, zero])
    return e.step("add", like, [e.step("shift_right_arithmetic", like, [x, shift]), up])


def _saturating_add(e: Expression, op: SaturatingAddOp, indices: Indices) -> int:
    """clamp(x + y), computed in twice the width, in which the sum is exact."""
    wide = (f"i{2 * width_of(op.result)}", True)
    total = e.step("add", wide, [e.step("convert", wide, [e.value(value, indices)]) for value in op.operands])
    low, high = (e.step(Number(number(bound)), wide) for bound in (op.storage_min, op.storage_max))
    return e.step("convert", op.result, [e.step("clamp", wide, [low, total, high])])


def _high_product(e: Expression, op: SaturatingRoundingDoublingHighMulOp, indices: Indices) -> int:
    """min((x * multiplier + 2^30) >> 31, 2^31 - 1), computed in 64 bits."""
    wide = ("i64", True)
    factor, half, shift, most = (e.step(Number(n), wide) for n in (number(op.multiplier), 1 << 30, 31, INT32_MAX))
    product = e.step("multiply", wide, [e.step("convert", wide, [e.value(op.operand, indices)]), factor])
    high = e.step("shift_right_arithmetic", wide, [e.step("add", wide, [product, half]), shift])
    # Only the result for x = multiplier = -2^31 exceeds 32 bits.
    return e.step("convert", op.result, [e.step("minimum", wide, [high, most])])


def _per_layer(op: Operation, quantized: object) -> UniformQuantizedType:
    if not isinstance(quantized, UniformQuantizedType) or quantized.is_per_channel:
        raise CodegenError(f"{describe(op)}: found {quantized}, expected one scale; run it with the interpreter")
    return quantized


def _quantize(e: Expression, op: hlo.UniformQuantizeOp, indices: Indices) -> int:
    type_ = element_of(op.result)
    if not isinstance(type_, UniformQuantizedType) or not type_.is_per_channel:
        type_ = _per_layer(op, type_)
    behaviour = profile_of(op, e.scope.values.program.profile).quantize
    source, storage = scalar_type(op.operand), type_.storage
    most = 16 if type_.is_per_channel else 32
    if source[0] not in FLOATS or half_of(op.operand) or behaviour not in QUANTIZES or storage.type.width > most:
        raise CodegenError(
            f"{describe(op)}: found {op.operand.type} to {type_} by '{behaviour.value}'; native code quantizes only "
            f"f32 and f64, to at most {most} bits, and rounds to nearest"
        )
    what, scales = quantize_by(type_, behaviour, element_dtype(element_of(op.operand)))
    values = [e.value(op.operand, indices)]
    if type_.axis is not None:
        numbers = [scales, type_.zero_points.astype(scales.dtype)]
        if behaviour is QuantizeBehaviour.RNE_BY_RANGE:
            numbers.append(range_factors(type_.scales.astype(scales.dtype), type_.zero_points, storage.dtype)[1])
        values += [e.read(e.scope.constant_view(array), (indices[type_.axis],), source) for array in numbers]
    return e.step(what, op.result, values)


def quantize_by(
    type_: UniformQuantizedType, behaviour: QuantizeBehaviour, real: np.dtype[Any]
) -> tuple[Quantize, AnyArray]:
    """How floats of the dtype `real` are quantized to a type, and the scales of all channels."""
    scales, storage = type_.scales.astype(real), type_.storage
    shift, first = 0.0, 0
    with np.errstate(all="ignore"):
        if behaviour is QuantizeBehaviour.RNE_RECIPROCAL:
            scales = np.ones((), scales.dtype) / scales
        elif behaviour is QuantizeBehaviour.RNE_BY_RANGE:
            scales, shifts = range_factors(scales, type_.zero_points, storage.dtype)
            shift, (first, _) = float(shifts[0]), dtype_range(storage.dtype)
    zero, bounds = int(type_.zero_points[0]), (storage.minimum, storage.maximum)
    return Quantize(behaviour, float(scales[0]), zero, *bounds, shift, first), scales


def _dequantize(e: Expression, op: hlo.UniformDequantizeOp, indices: Indices) -> int:
    """(float(q) - float(zp)) * s."""
    type_ = element_of(op.operand)
    real = scalar_type(op.result)
    if half_of(op.result):
        raise CodegenError(f"{describe(op)}: found {op.result.type}; native code dequantizes only to f32 and f64")
    if isinstance(type_, UniformQuantizedType) and type_.is_per_channel and type_.axis is not None:
        value = e.step("convert", real, [e.value(op.operand, indices)])
        dtype = element_dtype(element_of(op.result))
        at = (indices[type_.axis],)
        for name, numbers in (("subtract", type_.zero_points), ("multiply", type_.scales)):
            other = e.read(e.scope.constant_view(np.asarray(numbers).astype(dtype)), at, real)
            value = e.step(name, real, [value, other])
        return value
    type_ = _per_layer(op, type_)
    return e.step(Dequantize(type_.scale, type_.zero_point), real, [e.value(op.operand, indices)])


# Data movement.


def _broadcast(e: Expression, op: hlo.BroadcastInDimOp, indices: Indices) -> int:
    chosen = array_values(op.broadcast_dimensions)
    sizes = shape_of(op.operand)
    return e.value(op.operand, tuple(Axis() if n == 1 else indices[d] for n, d in zip(sizes, chosen, strict=True)))


def _transpose(e: Expression, op: hlo.TransposeOp, indices: Indices) -> int:
    moved = [Axis()] * len(indices)
    for to, source in enumerate(array_values(op.permutation)):
        # Dimension `to` of the result is dimension `source` of the operand.
        moved[source] = indices[to]
    return e.value(op.operand, tuple(moved))


def _slice(e: Expression, op: hlo.SliceOp, indices: Indices) -> int:
    starts, strides = array_values(op.start_indices), array_values(op.strides)
    return e.value(op.operand, tuple(a.scaled(by, at) for a, by, at in zip(indices, strides, starts, strict=True)))


def _reverse(e: Expression, op: hlo.ReverseOp, indices: Indices) -> int:
    turned = list(indices)
    for d in array_values(op.dimensions):
        turned[d] = indices[d].scaled(-1, shape_of(op.operand)[d] - 1)
    return e.value(op.operand, tuple(turned))


def split_dimensions(operand: Sequence[int], result: Sequence[int]) -> list[list[int]] | None:
    """The result dimensions into which a reshape splits each operand dimension; None if it also merges dimensions."""
    groups: list[list[int]] = []
    d = 0
    for size in operand:
        group: list[int] = []
        total = 1
        while d < len(result) and (total < size or (result[d] == 1 and total == size)):
            total *= result[d]
            group.append(d)
            d += 1
        if total != size:
            return None
        groups.append(group)
    return groups if all(size == 1 for size in result[d:]) else None


def _reshape(e: Expression, op: hlo.ReshapeOp, indices: Indices) -> int:
    sizes = shape_of(op.result)
    groups = split_dimensions(shape_of(op.operand), sizes)
    assert groups is not None
    axes: list[Axis] = []
    for group in groups:
        axis = Axis()
        for d in group:
            axis = axis.scaled(sizes[d]).plus(indices[d] if sizes[d] > 1 else Axis())
        axes.append(axis)
    return e.value(op.operand, tuple(axes))


def _gathered(
    e: Expression, op: Operation, source: View, where: Indices, parts: Sequence[tuple[View, Indices, int, int]]
) -> int:
    """An element of `source` at `where`, offset by run-time indices.

    `parts` has (view, indices, dimension, greatest index) of each run-time index.
    """
    operand, starts = e.operand(source, where), list[Index]()
    for view, indices, dimension, most in parts:
        if view.dtype.kind not in "iu" or view.dtype == np.uint64:
            raise CodegenError(f"{describe(op)}: found indices of {view.dtype}, expected i8 to i64 or ui8 to ui32")
        # `most` is the last start for which the slice is in bounds. The kernel clamps to it.
        starts.append(Index(e.operand(view, indices), most, source.strides[dimension], view.dtype.kind == "i"))
    return e.step(Gather(operand, tuple(starts)), op.results[0])


def _gather(e: Expression, op: hlo.GatherOp, indices: Indices) -> int:
    dims, sizes = op.dimension_numbers.data, array_values(op.slice_sizes)
    source, starts = e.scope.view(op.operand), e.scope.view(op.start_indices)
    batch = iter([axis for d, axis in enumerate(indices) if d not in dims.offset_dims])
    at = [Axis() if d == dims.index_vector_dim else next(batch) for d in range(len(starts.shape))]
    offsets = iter([indices[d] for d in dims.offset_dims])
    batches = dict(zip(dims.operand_batching_dims, dims.start_indices_batching_dims, strict=True))
    where: list[Axis] = []
    for d in range(len(source.shape)):
        if d in batches:
            where.append(at[batches[d]])
        else:
            where.append(Axis() if d in dims.collapsed_slice_dims else next(offsets))
    parts: list[tuple[View, Indices, int, int]] = []
    for n, d in enumerate(dims.start_index_map):
        chosen = [Axis(n) if k == dims.index_vector_dim else axis for k, axis in enumerate(at)]
        parts.append((starts, tuple(chosen), d, source.shape[d] - sizes[d]))
    return _gathered(e, op, source, tuple(where), parts)


def _dynamic_slice(e: Expression, op: hlo.DynamicSliceOp, indices: Indices) -> int:
    source, sizes = e.scope.view(op.operand), array_values(op.slice_sizes)
    parts: list[tuple[View, Indices, int, int]] = [
        (e.scope.view(start), (), d, source.shape[d] - sizes[d]) for d, start in enumerate(op.start_indices)
    ]
    return _gathered(e, op, source, indices, parts)


MOVEMENT: dict[type[Operation], ScalarRule] = {
    hlo.BroadcastInDimOp: _broadcast,
    hlo.ReshapeOp: _reshape,
    hlo.ReverseOp: _reverse,
    hlo.SliceOp: _slice,
    hlo.TransposeOp: _transpose,
    StorageCastOp: _cast,
}
"""The rules of ops that only move data."""

ELEMENTWISE: dict[type[Operation], ScalarRule] = {
    **dict.fromkeys(
        (
            hlo.AbsOp, hlo.CbrtOp, hlo.CeilOp, hlo.CosineOp, hlo.CountLeadingZerosOp, hlo.ExponentialMinusOneOp,
            hlo.ExponentialOp, hlo.FloorOp, hlo.LogOp, hlo.LogPlusOneOp, hlo.LogisticOp, hlo.NegateOp, hlo.NotOp,
            hlo.PopcntOp, hlo.RoundNearestAfzOp, hlo.RoundNearestEvenOp, hlo.RsqrtOp, hlo.SignOp, hlo.SineOp,
            hlo.SqrtOp, hlo.TanOp, hlo.TanhOp, chlo.AcosOp, chlo.AcoshOp, chlo.AsinOp, chlo.AsinhOp, chlo.AtanOp,
            chlo.AtanhOp, chlo.CoshOp, chlo.ErfOp, chlo.SinhOp,
            hlo.AddOp, hlo.AndOp, hlo.Atan2Op, hlo.DivideOp, hlo.MaximumOp, hlo.MinimumOp, hlo.MultiplyOp, hlo.OrOp,
            hlo.PowerOp, hlo.RemainderOp, hlo.ShiftLeftOp, hlo.ShiftRightArithmeticOp, hlo.ShiftRightLogicalOp,
            hlo.SubtractOp, hlo.XorOp,
        ),
        on_numbers(_computed),
    ),
    hlo.BitcastConvertOp: on_numbers(_bitcast),
    hlo.ClampOp: on_numbers(_selected),
    hlo.CompareOp: on_numbers(_compare),
    hlo.ConvertOp: on_numbers(_convert),
    hlo.IsFiniteOp: _selected,
    hlo.SelectOp: _selected,
    hlo.DynamicSliceOp: _dynamic_slice,
    hlo.GatherOp: _gather,
    hlo.UniformDequantizeOp: _dequantize,
    hlo.UniformQuantizeOp: _quantize,
    InterpolateOp: interpolate,
    QuotientOp: _quotient,
    RequantizeOp: _requantize,
    RoundingDivideByPotOp: _rounding_divide,
    SaturatingAddOp: _saturating_add,
    SaturatingRoundingDoublingHighMulOp: _high_product,
    TableOp: look_up,
    WeightedSumOp: _weighted_sum,
}  # fmt: skip

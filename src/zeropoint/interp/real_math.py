"""Real math ops on floats and on quantized values.

Source: the docstring of `zeropoint.ir.fxpmath.real_ops`. Quantized values are computed in integers if the corresponding
StableHLO op is (`quantized.py`), and by shifts if every ratio of scales is a power of two.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import Operation

from zeropoint.interp import quantized
from zeropoint.interp.affine import Affine, affine, is_quantized
from zeropoint.interp.binding import ArrayFunction, Binary, Scope, Unary
from zeropoint.ir.fxpmath import (
    ClampedRealOp,
    RealAddEwOp,
    RealDivEwOp,
    RealMatMulBiasOp,
    RealMatMulOp,
    RealMulEwOp,
    RealSubEwOp,
    RealUnaryEwOp,
)
from zeropoint.ir.fxpmath.real_ops import COMPARISONS, FUNCTIONS
from zeropoint.ir.quant import UniformQuantizedType, stored_bound
from zeropoint.ir.quant.evaluate import element_parameters
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.numerics import Multiplier, Profile, RequantizeBehaviour, functions
from zeropoint.numerics.arrays import FloatArray
from zeropoint.numerics.blockwise import Columns
from zeropoint.numerics.products import sums_of_products
from zeropoint.numerics.real_math import ShiftedSum, power_of_two
from zeropoint.numerics.requantize import requantize
from zeropoint.numerics.rounding import INT32_MAX, INT32_MIN


def _clamped(op: ClampedRealOp, scope: Scope, function: ArrayFunction) -> ArrayFunction:
    """`function`, followed by the clamp: floats in their type, storage integers by quantized bounds."""
    kind = element_of(op.results[0])
    low, high = (None if bound is None else np.asarray(bound) for bound in op.bounds)
    if isinstance(kind, UniformQuantizedType):
        low, high = (
            None if bound is None else stored_bound(float(bound), kind, scope.profile.name) for bound in (low, high)
        )

    def run(*operands: Array) -> Array:
        result = function(*operands)
        if low is not None:
            result = functions.BINARY["maximum"](result, low.astype(result.dtype))
        return result if high is None else functions.BINARY["minimum"](result, high.astype(result.dtype))

    return run


def _kinds(op: Operation) -> list[Affine] | None:
    """The quantized types of operands and result; None for floats."""
    elements = [element_of(value) for value in (*op.operands, *op.results)]
    return [affine(element) for element in elements] if is_quantized(elements[0]) else None


def add(op: RealAddEwOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs + rhs)."""
    return _sum(op, scope, 1)


def subtract(op: RealSubEwOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs - rhs)."""
    return _sum(op, scope, -1)


def _sum(op: ClampedRealOp, scope: Scope, sign: int) -> ArrayFunction:
    kinds = _kinds(op)
    if kinds is None:
        return _clamped(op, scope, functions.BINARY["add" if sign > 0 else "subtract"])
    *operands, result = kinds
    shifted = ShiftedSum.of(operands, result, (1, sign))
    if shifted is None:
        return _clamped(op, scope, quantized.signed_sum(op, scope, sign))
    return _clamped(op, scope, lambda *stored: shifted.apply(*stored).astype(result.dtype))


def multiply(op: RealMulEwOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs * rhs)."""
    kinds = _kinds(op)
    return _clamped(op, scope, functions.BINARY["multiply"] if kinds is None else _product(kinds, scope.profile))


def _product(kinds: list[Affine], profile: Profile) -> Binary:
    """The product, requantized by a shift if the ratio of scales is a power of two."""
    lhs, rhs, result = kinds
    shifts = power_of_two(float(lhs.scale.item() * rhs.scale.item() / result.scale.item())) is not None
    return quantized.product(kinds, profile, RequantizeBehaviour.POT if shifts else None)


def divide(op: RealDivEwOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs / rhs)."""
    kinds = _kinds(op)
    return _clamped(op, scope, functions.BINARY["divide"] if kinds is None else quantized.integer_quotient(kinds))


def unary(op: RealUnaryEwOp, scope: Scope) -> ArrayFunction:
    """clamp(fn(operand)), or whether the operand is zero, not zero, below zero, or above zero."""
    name = op.fn.data
    if name in COMPARISONS:
        return _comparison(op, COMPARISONS[name])
    return _clamped(op, scope, _function(op, scope, name, _kinds(op)))


def _function(op: RealUnaryEwOp, scope: Scope, name: str, kinds: list[Affine] | None) -> ArrayFunction:
    if name == "SQUARE":
        return _square(functions.BINARY["multiply"] if kinds is None else _product([kinds[0], *kinds], scope.profile))
    if kinds is not None and name in ("IDENTITY", "NEG"):
        given, wanted = kinds
        return _rescaled(given, wanted, scope.profile, -1 if name == "NEG" else 1)
    function = _identity if name == "IDENTITY" else functions.UNARY[str(FUNCTIONS[name])]
    return function if kinds is None else quantized.dequantize_op_quantize(op, scope, function)


def _identity(x: Array) -> Array:
    return x


def _square(product: Binary) -> Unary:
    return lambda x: product(x, x)


def _comparison(op: RealUnaryEwOp, direction: str) -> Unary:
    relation, kind = functions.COMPARISONS[direction], element_of(op.operand)
    zero = affine(kind).zero_point if is_quantized(kind) else np.zeros(())
    return lambda x: np.asarray(relation(x, zero.astype(x.dtype)))


def _multiplier(profile: Profile, given: float, wanted: Affine, width: int) -> Multiplier:
    """The multiplier from scale `given` to a type: a shift if the ratio is a power of two, else the profile's."""
    real = profile.ratio(given, wanted.scale.item())
    if power_of_two(float(real)) is not None:
        return Multiplier.of(real, RequantizeBehaviour.POT, wanted.width, width)
    return profile.multiplier(real, wanted.width, width)


def _finish(multiplier: Multiplier, wanted: Affine) -> Unary:
    """Convert accumulators to storage integers."""
    low, high = wanted.storage_min, wanted.storage_max
    return lambda x: requantize(x, multiplier, wanted.zero_point, low, high, dtype=wanted.dtype)


def _rescaled(given: Affine, wanted: Affine, profile: Profile, sign: int) -> Unary:
    """sign * operand in the result's type."""
    finish = _finish(_multiplier(profile, given.scale.item(), wanted, 32), wanted)
    return lambda x: finish(sign * given.centred(x, np.dtype(np.int32)))


def matmul(op: RealMatMulOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs x rhs)."""
    if not is_quantized(element_of(op.lhs)):
        return _clamped(op, scope, _float_product)
    sums, finish = _sums(op), _requantized(op, scope.profile)

    def run(x: Array, y: Array) -> Array:
        return finish(sums(x, y))

    return _clamped(op, scope, run)


def matmul_bias(op: RealMatMulBiasOp, scope: Scope) -> ArrayFunction:
    """clamp(lhs x rhs + bias)."""
    if not is_quantized(element_of(op.lhs)):
        return _clamped(op, scope, _biased_product)
    rescale, sums, finish = _bias(op, scope.profile), _sums(op), _requantized(op, scope.profile)

    def run(x: Array, y: Array, b: Array) -> Array:
        return finish(sums(x, y) + rescale(b))

    return _clamped(op, scope, run)


def _biased_product(x: Array, y: Array, bias: Array) -> Array:
    return _float_product(x, y) + bias


def _float_product(x: Array, y: Array) -> Array:
    """The sums of float products. f16 and bf16 are summed in f32 and rounded once."""
    word = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
    return sums_of_products(x.astype(word, copy=False), y.astype(word, copy=False)).astype(x.dtype, copy=False)


def _columns(op: RealMatMulOp | RealMatMulBiasOp) -> Columns:
    """The scales of the right operand."""
    kind, shape = element_of(op.rhs), shape_of(op.rhs)
    assert isinstance(kind, UniformQuantizedType)
    scales = element_parameters(shape, kind)[0] if not kind.is_per_layer else np.full((1, 1), kind.scale)
    return Columns.of(np.atleast_2d(scales), dict(kind.blocks or ()).get(0, shape[0]))


def _product_scales(op: RealMatMulOp | RealMatMulBiasOp) -> FloatArray:
    """The scales of the products: one for each column, or one."""
    scales = affine(element_of(op.lhs)).scale * _columns(op).scales
    return scales.reshape(()) if scales.size == 1 else scales


def _is_wide(op: RealMatMulOp | RealMatMulBiasOp) -> bool:
    """Whether an operand has 16 bits, so that accumulators have 64 bits."""
    kinds = [element_of(operand) for operand in op.operands[:2]]
    return any(isinstance(kind, UniformQuantizedType) and kind.storage.type.width > 8 for kind in kinds)


def _sums(op: RealMatMulOp | RealMatMulBiasOp) -> Binary:
    """The exact sums of products in i64. For two 8-bit operands, they are saturated to 32 bits."""
    lhs, columns, wide = affine(element_of(op.lhs)), _columns(op), _is_wide(op)
    kind, word = element_of(op.rhs), np.dtype(np.int64)
    assert isinstance(kind, UniformQuantizedType)
    points = element_parameters(shape_of(op.rhs), kind)[1]

    def run(x: Array, y: Array) -> Array:
        given, weights = lhs.centred(x, word), y.astype(word) - points
        total = columns.sums(given, weights) if columns.factors is not None else np.matmul(given, weights)
        return total if wide else np.clip(total, INT32_MIN, INT32_MAX)

    return run


def _multiplier_by_column(profile: Profile, given: FloatArray, wanted: FloatArray, width: int, word: int) -> Multiplier:
    """The multipliers between scales, one for each column or one. A single power of two becomes a shift."""
    real = profile.ratio(given, wanted)
    if real.ndim == 0 and power_of_two(float(real)) is not None:
        return Multiplier.of(real, RequantizeBehaviour.POT, width, word)
    return profile.multiplier(real, width, word)


def _bias(op: RealMatMulBiasOp, profile: Profile) -> Unary:
    """The bias at the scale of the products, in 32 bits."""
    bias = affine(element_of(op.bias))
    multiplier = _multiplier_by_column(profile, bias.scale, _product_scales(op), 32, 32)
    axis = 0 if multiplier.multiplier.ndim else None
    word = np.dtype(np.int64 if bias.zero_point.any() and bias.width == 32 else np.int32)

    def run(b: Array) -> Array:
        centred = bias.centred(b, word)
        return requantize(centred, multiplier, 0, INT32_MIN, INT32_MAX, axis=axis, dtype=np.int64)

    return run


def _requantized(op: RealMatMulOp | RealMatMulBiasOp, profile: Profile) -> Unary:
    """Convert sums to storage integers. Accumulators have 32 bits and saturate, or 64 bits with a 16-bit operand."""
    wide, wanted = _is_wide(op), affine(element_of(op.result))
    if op.gives_sums:
        return lambda sums: np.clip(sums, INT32_MIN, INT32_MAX).astype(np.int32)
    word = 64 if wide else 32
    multiplier = _multiplier_by_column(profile, _product_scales(op), wanted.scale, wanted.width, word)
    axis = len(shape_of(op.result)) - 1 if multiplier.multiplier.ndim else None
    low, high = wanted.storage_min, wanted.storage_max

    def run(sums: Array) -> Array:
        inside = sums if wide else np.clip(sums, INT32_MIN, INT32_MAX).astype(np.int32)
        return requantize(inside, multiplier, wanted.zero_point, low, high, axis=axis, dtype=wanted.dtype)

    return run

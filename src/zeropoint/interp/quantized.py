"""Elementwise ops on quantized values, and the casts.

Source: the StableHLO specification. An elementwise op on quantized types is dequantize_op_quantize: it is computed on
real values in the expressed type, and the result is quantized. Some ops are computed on storage integers instead, with
the same result or with the behaviour that the program's profile defines:

- The sum of values of one type is exact in integers, because all scales are equal.
- Maximum, minimum, clamp, select and comparison of values of one type act on storage. Scales are positive, so integers
  have the order of the real values.
- A per-layer product is exact in integers if the scale of the result is the product of the operands' scales.
- Under our profiles and those of runtimes, a 32-bit bias of another scale is requantized to the scale of the sums.
- Under profiles with integer kernels, per-layer quotients and comparisons of up to 16 bits follow `numerics.division`.
- Other per-layer sums and products of up to 16 bits follow the `add` and `requantize` of the profile.
- A function of 8-bit storage is a lookup in the table of its 256 values.
"""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Attribute, Operation

from zeropoint.interp import elementwise
from zeropoint.interp.affine import (
    Affine,
    affine,
    dequantization,
    is_quantized,
    quantization,
    requantization,
)
from zeropoint.interp.binding import ArrayFunction, Binary, Scope, Ternary, Unary
from zeropoint.interp.errors import UnsupportedError
from zeropoint.ir.annotations import is_wide
from zeropoint.ir.element_types import OPEN
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self
from zeropoint.ir.stablehlo import (
    AddOp,
    BinaryOp,
    ClampOp,
    CompareOp,
    DivideOp,
    MultiplyOp,
    SelectOp,
    SubtractOp,
    UnaryOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.numerics import Multiplication, Profile, RequantizeBehaviour, addition, apply_table, functions
from zeropoint.numerics.division import Division, compared_terms
from zeropoint.numerics.profile import CAST_PROFILE
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.numerics.table import table

NARROW_WIDTH = 16
"""The maximum storage width in bits that the profile adds and multiplies. Wider storage uses the expressed type."""
SATURATED = 2.0**62
"""A magnitude of products that exceeds every 32-bit storage, with any zero point."""


def uniform_quantize(op: UniformQuantizeOp, scope: Scope) -> Unary:
    """Quantizes a float operand, or requantizes a quantized one to the type of the result.

    Shapes (C1) and expressed types (C2) are equal.
    """
    source, target = element_of(op.operand), element_of(op.result)
    if is_quantized(source):
        return requantization(source, target, scope.profile, wide=is_wide(op.operand))
    return quantization(target, scope.profile)


def uniform_dequantize(op: UniformDequantizeOp, scope: Scope) -> Unary:
    """(operand - zero_point) * scale, in the expressed type (C1, C2)."""
    return dequantization(element_of(op.operand))


def quantize_cast(op: QuantizeCastOp, scope: Scope) -> Unary:
    """quant.qcast: quantizes a float value, rounded by the profile.

    In a program without a profile, NaN becomes the zero point, because the semantics of StableHLO do not apply to the
    quant dialect. A cast to a model constraint, `!quant.calibrated`, is the identity.
    """
    if isinstance(element_or_self(op.result.type), OPEN):
        return _identity
    profile = scope.profile if scope.states_profile else named_profile(CAST_PROFILE)
    return quantization(element_or_self(op.result.type), profile)


def dequantize_cast(op: DequantizeCastOp, scope: Scope) -> Unary:
    """quant.dcast: dequantizes a value."""
    if isinstance(element_or_self(op.input.type), OPEN):
        return _identity
    return dequantization(element_or_self(op.input.type))


def storage_cast(op: StorageCastOp, scope: Scope) -> ArrayFunction:
    """quant.scast: the same bits, as a quantized value or a signless integer."""
    target = element_or_self(op.result.type)
    dtype = element_dtype(target)
    if isinstance(target, UniformQuantizedType):
        storage = target.storage.type
        target = IntegerType(storage.width, Signedness.SIGNLESS if storage.signed else Signedness.UNSIGNED)

    def reinterpret(stored: Array) -> Array:
        return stored.view(dtype)

    return elementwise.wrapped(reinterpret, target)


def _types(op: Operation) -> list[Attribute]:
    return [element_of(value) for value in (*op.operands, *op.results)]


def _one_type(op: Operation) -> bool:
    first, *others = _types(op)
    return all(other == first for other in others)


def dequantize_op_quantize(op: Operation, scope: Scope, kernel: ArrayFunction) -> ArrayFunction:
    """quantize(kernel(dequantize(operands)...)) in the expressed type. Float operands and results are not converted."""
    edges = [dequantization(t) if is_quantized(t) else _identity for t in map(element_of, op.operands)]
    result = element_of(op.results[0])
    finish = quantization(result, scope.profile) if is_quantized(result) else _identity

    def run(*operands: Array) -> Array:
        return finish(kernel(*(edge(x) for edge, x in zip(edges, operands, strict=True))))

    return run


def _identity(array: Array) -> Array:
    return array


def unary(op: UnaryOp, scope: Scope) -> Unary:
    """A unary function. Per-layer 8-bit storage is looked up in a table."""
    function = functions.UNARY[op.name.removeprefix(elementwise.PREFIX)]
    given, wanted = affine(element_of(op.operand)), affine(element_of(op.result))
    storage = element_of(op.operand)
    assert isinstance(storage, UniformQuantizedType)
    if given.width > 8 or not (given.is_per_layer and wanted.is_per_layer):
        return dequantize_op_quantize(op, scope, function)
    entries = table(
        function,
        given,
        wanted,
        scope.profile.quantize,
        storage=storage.storage.type,
        expressed=given.expressed,
        dtype=wanted.dtype,
    )
    return lambda operand: apply_table(entries, operand, storage.storage.type)


def binary(op: BinaryOp, scope: Scope) -> Binary:
    """A binary function, such as power, in the expressed type."""
    return dequantize_op_quantize(op, scope, functions.BINARY[op.name.removeprefix(elementwise.PREFIX)])


def _order_preserving(op: Operation, scope: Scope, function: ArrayFunction) -> ArrayFunction:
    """A function that commutes with increasing maps, so that it acts on storage if all types are equal."""
    return function if _one_type(op) else dequantize_op_quantize(op, scope, function)


def select(op: SelectOp, scope: Scope) -> Ternary:
    """pred ? on_true : on_false; both have the result's type (C2)."""
    if not element_of(op.on_true) == element_of(op.on_false) == element_of(op.result):
        raise UnsupportedError("found values and a result of different quantized types; expected one type")
    return functions.select


def compare(op: CompareOp, scope: Scope) -> Binary:
    """Compares real values, or storage if both types are equal.

    Under profiles with integer kernels, storage of different types is compared in wide integers.
    """
    kernel = elementwise.compare(op, scope)
    kinds = [affine(kind) for kind in map(element_of, op.operands) if is_quantized(kind)]
    if element_of(op.lhs) == element_of(op.rhs) and kinds[0].is_per_layer:
        return kernel
    if len(kinds) < len(op.operands) or not scope.profile.integer_kernels or not _is_narrow(kinds):
        return dequantize_op_quantize(op, scope, kernel)
    return lambda lhs, rhs: kernel(*compared_terms(kinds, lhs, rhs))


def divide(op: DivideOp, scope: Scope) -> Binary:
    """lhs / rhs on real values. Under profiles with integer kernels, the rounded rational quotient of the integers."""
    return quotient([affine(element_type) for element_type in _types(op)], scope.profile) or binary(op, scope)


def quotient(parameters: list[Affine], profile: Profile) -> Binary | None:
    """The integer quotient for the types of both operands and the result; None if the profile has none."""
    if not profile.integer_kernels or not _is_narrow(parameters):
        return None
    return integer_quotient(parameters)


def integer_quotient(parameters: list[Affine]) -> Binary:
    """The integer quotient of values of up to 16 bits, for the types of both operands and the result."""
    *operands, result = parameters
    return _stored(Division.of(operands, result).apply, result)


def add(op: AddOp, scope: Scope) -> Binary:
    """lhs + rhs on real values (C2 to C7)."""
    return signed_sum(op, scope, 1)


def subtract(op: SubtractOp, scope: Scope) -> Binary:
    """lhs - rhs on real values."""
    return signed_sum(op, scope, -1)


def signed_sum(op: Operation, scope: Scope, sign: int) -> Binary:
    """lhs + sign * rhs of an op with two operands."""
    if is_wide(op.results[0]):
        return _wide_sum(sign)
    if _one_type(op):
        return sum_of_one_type(affine(element_of(op.results[0])), sign)
    parameters = [affine(element_type) for element_type in _types(op)]
    if not _is_narrow(parameters):
        own = _rescaled_sum(op, scope, parameters, sign)
        return own or dequantize_op_quantize(op, scope, functions.BINARY["add" if sign > 0 else "subtract"])
    *operands, result = parameters
    profile = scope.profile
    apply = addition(profile.add, operands, result, [1, sign], profile.quantize).apply
    return _stored(apply, result)


def _rescaled_sum(op: Operation, scope: Scope, parameters: list[Affine], sign: int) -> Binary | None:
    """32-bit sums plus a 32-bit bias of another scale, which is first requantized to the scale of the sums.

    None if there are zero points, if the result has the type of neither operand, or for profiles that add real values.
    """
    lhs, rhs, result = _types(op)
    plain = all(numbers.width == 32 and not numbers.zero_point.any() for numbers in parameters)
    if not scope.profile.rescales_biases or not plain or result not in (lhs, rhs):
        return None
    edges = [requantization(kind, result, scope.profile) for kind in (lhs, rhs)]
    total = sum_of_one_type(parameters[-1], sign)
    return lambda x, y: total(edges[0](x), edges[1](y))


def _wide_sum(sign: int) -> Binary:
    """The sum of 64-bit accumulators with zero points of 0."""
    word = np.dtype(np.int64)

    def run(lhs: Array, rhs: Array) -> Array:
        return lhs.astype(word) + sign * rhs.astype(word)

    return run


def sum_of_one_type(numbers: Affine, sign: int) -> Binary:
    """The exact sum at one scale: clamp(lhs +- (rhs - zero_point)). Also used to add a bias to accumulators."""
    word = np.dtype(np.int32 if numbers.width <= NARROW_WIDTH else np.int64)
    low, high = numbers.storage_min, numbers.storage_max

    def run(lhs: Array, rhs: Array) -> Array:
        other = numbers.centred(rhs, word)
        total = lhs.astype(word) + other if sign > 0 else lhs.astype(word) - other
        return np.clip(total, low, high).astype(numbers.dtype)

    def accumulate(lhs: Array, rhs: Array) -> Array:
        """The sum for 32 bits and zero points of 0. If no element can be clamped, it is computed in 32 bits."""
        if lhs.size == 0 or rhs.size == 0:
            return run(lhs, rhs)
        least, greatest = int(rhs.min()), int(rhs.max())
        if sign < 0:
            least, greatest = -greatest, -least
        if int(lhs.min()) + least < low or int(lhs.max()) + greatest > high:
            return run(lhs, rhs)
        return lhs + rhs if sign > 0 else lhs - rhs

    return run if numbers.width <= NARROW_WIDTH or numbers.zero_point.any() else accumulate


def multiply(op: MultiplyOp, scope: Scope) -> Binary:
    """(lhs - z1) * (rhs - z2), requantized by s1 * s2 / s_out. Exact at any width if this ratio is 1."""
    parameters = [affine(element_type) for element_type in _types(op)]
    if _has_scale_of_product(*parameters):
        return _exact_product(*parameters)
    if not _is_narrow(parameters):
        return binary(op, scope)
    return product(parameters, scope.profile)


def product(parameters: list[Affine], profile: Profile, behaviour: RequantizeBehaviour | None = None) -> Binary:
    """The product of operands of up to 16 bits, requantized by `behaviour`, or by that of the profile."""
    *operands, result = parameters
    by = behaviour or profile.requantize(result.width)
    apply = Multiplication.of(operands, result, by, result.width, in_f32=profile.multiplies_in_f32).apply
    return _stored(apply, result)


def _has_scale_of_product(lhs: Affine, rhs: Affine, result: Affine) -> bool:
    per_layer = all(numbers.is_per_layer for numbers in (lhs, rhs, result))
    return per_layer and bool((lhs.scale * rhs.scale == result.scale).all())


def _exact_product(lhs: Affine, rhs: Affine, result: Affine) -> Binary:
    """The exact product, saturated to the storage of the result, which has up to 32 bits."""
    word = np.dtype(np.int64)

    def run(first: Array, second: Array) -> Array:
        one, other = lhs.centred(first, word), rhs.centred(second, word)
        # A 32-bit value may be almost 2^32 away from its zero point, so a product may exceed 64 bits. Such products
        # saturate in any case.
        large = one.astype(np.float64) * other.astype(np.float64)
        product = np.where(np.abs(large) < SATURATED, one * other, (np.sign(large) * SATURATED).astype(word))
        stored = np.clip(product + result.zeros(first.ndim), result.storage_min, result.storage_max)
        return stored.astype(result.dtype)

    return run


def _is_narrow(parameters: list[Affine]) -> bool:
    return all(numbers.width <= NARROW_WIDTH and numbers.is_per_layer for numbers in parameters)


def _stored(kernel: ArrayFunction, numbers: Affine) -> ArrayFunction:
    def run(*operands: Array) -> Array:
        return kernel(*operands).astype(numbers.dtype, copy=False)

    return run


def clamp(op: ClampOp, scope: Scope) -> Ternary:
    """minimum(maximum(operand, min), max) (C3, C4)."""
    return _order_preserving(op, scope, functions.clamp)


def maximum_or_minimum(op: BinaryOp, scope: Scope) -> Binary:
    """The larger or the smaller value."""
    return _order_preserving(op, scope, functions.BINARY[op.name.removeprefix(elementwise.PREFIX)])


def implicit_conversion(source: Attribute, target: Attribute, profile: Profile) -> Unary:
    """The RFC's reduce_implicit_convert: (A) quantized to quantized by uniform_quantize, (F) and (G) by convert.

    Raises UnsupportedError for a pair of types that the RFC does not define.
    """
    if source == target:
        return _identity
    if is_quantized(source) and is_quantized(target):
        return requantization(source, target, profile)
    if is_quantized(source) or is_quantized(target):
        raise UnsupportedError(
            f"found {source} to be converted to {target} at the edge of a body; expected both quantized or neither"
        )
    return elementwise.conversion(target)

"""Ops on the representation of numbers: parts of complex numbers, bitcasts, and reduced precision.

Source: the StableHLO specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import ComplexType, IntegerType, Signedness
from xdsl.ir import Attribute

from zeropoint.interp.binding import Binary, Scope, Unary
from zeropoint.interp.elementwise import wrapped
from zeropoint.interp.quantized import dequantize_op_quantize
from zeropoint.ir.floats import float_format
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import BitcastConvertOp, ComplexOp, ImagOp, RealOp, ReducePrecisionOp
from zeropoint.ir.stablehlo.representation import bit_width
from zeropoint.ir.tensors import Array, element_dtype, element_of

BYTE = 8


def real(op: RealOp, scope: Scope) -> Unary:
    """result = is_complex(operand) ? real_part(operand) : operand."""
    return np.real if isinstance(element_of(op.operand), ComplexType) else lambda operand: operand


def imag(op: ImagOp, scope: Scope) -> Unary:
    """result = is_complex(operand) ? imaginary_part(operand) : constant(0, element_type(result))."""
    return np.imag if isinstance(element_of(op.operand), ComplexType) else np.zeros_like


def complex_(op: ComplexOp, scope: Scope) -> Binary:
    """result = a complex number of the real part lhs and the imaginary part rhs."""
    dtype = element_dtype(element_of(op.result))

    def run(lhs: Array, rhs: Array) -> Array:
        result = np.empty(lhs.shape, dtype)
        result.real, result.imag = lhs, rhs  # because lhs + 1j * rhs would turn infinities into NaN
        return result

    return run


def bitcast_convert(op: BitcastConvertOp, scope: Scope) -> Unary:
    """The bits of the operand as elements of the result's type (C1): bits(result) = bits(operand).

    The narrower elements along the last dimension form one wider element. The first of them has its lowest bits.
    """
    source, target = element_of(op.operand), element_of(op.result)
    given, wanted = bit_width(source), bit_width(target)
    dtype = element_dtype(target)
    whole = element_dtype(source).itemsize * BYTE == given and dtype.itemsize * BYTE == wanted
    parts = [given // wanted] if given > wanted else []

    def run(operand: Array) -> Array:
        if whole:
            found = np.ascontiguousarray(operand).view(dtype)
        else:
            found = _from_bits(_to_bits(operand, given), wanted, target)
        return found.reshape([*(operand.shape[:-1] if wanted > given else operand.shape), *parts])

    return run


def _to_bits(values: Array, width: int) -> Array:
    """The lowest `width` bits of each element, lowest first, along a new last dimension."""
    raw = np.ascontiguousarray(values).view(np.dtype(f"V{values.dtype.itemsize}"))
    octets = raw[..., np.newaxis].view(np.uint8)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., :width]


def _from_bits(bits: Array, width: int, target: Attribute) -> Array:
    """The inverse of `_to_bits`: elements of `width` bits, stored sign-extended."""
    dtype = element_dtype(target)
    grouped = bits.reshape(-1, width)
    padded = np.zeros((len(grouped), dtype.itemsize * BYTE), np.uint8)
    padded[:, :width] = grouped
    packed = np.packbits(padded, axis=-1, bitorder="little")
    storage = target
    if isinstance(target, UniformQuantizedType):
        stored = target.storage.type
        storage = IntegerType(stored.width, Signedness.SIGNLESS if stored.signed else Signedness.UNSIGNED)

    def read(octets: Array) -> Array:
        return octets.view(dtype)[..., 0]

    return wrapped(read, storage)(packed)


def reduce_precision(op: ReducePrecisionOp, scope: Scope) -> Unary:
    """output = operand, rounded to a float of exponent_bits and mantissa_bits (ties to even) and converted back.

    Values beyond the largest number of that float become infinite, and values below its smallest normal number become
    0. NaN stays NaN, except that it becomes infinite if mantissa_bits = 0.
    """
    element = element_of(op.operand)
    widths = int(op.exponent_bits.value.data), int(op.mantissa_bits.value.data)
    if isinstance(element, UniformQuantizedType):
        return dequantize_op_quantize(op, scope, _reduction(element.expressed_type, *widths))
    return _reduction(element, *widths)


def _reduction(float_type: Attribute, exponent_bits: int, mantissa_bits: int) -> Unary:
    return lambda operand: reduced(operand, float_type, exponent_bits, mantissa_bits)


def reduced(values: Array, float_type: Attribute, exponent_bits: int, mantissa_bits: int) -> Array:
    """`values` of `float_type` in fewer bits. 8-bit formats are rounded in f32, then converted to their own."""
    dtype = values.dtype
    if dtype.itemsize == 1:
        return _reduced_bits(values.astype(np.float32), 23, exponent_bits, mantissa_bits).astype(dtype)
    return _reduced_bits(values, float_format(float_type).precision - 1, exponent_bits, mantissa_bits)


def _reduced_bits(values: Array, source_mantissa: int, exponent_bits: int, mantissa_bits: int) -> Array:
    width = values.dtype.itemsize * BYTE
    word: Any = np.dtype(f"u{values.dtype.itemsize}").type
    bits: Array = values.view(word)
    sign = bits & word(1 << (width - 1))
    magnitude: Array = bits ^ sign
    exponent_mask = ((1 << (width - 1)) - 1) >> source_mantissa << source_mantissa
    dropped = source_mantissa - mantissa_bits
    if dropped > 0:
        last = (magnitude >> word(dropped)) & word(1)
        rounded = magnitude + last + word((1 << (dropped - 1)) - 1)
        magnitude = rounded >> word(dropped) << word(dropped)
    source_bias = (exponent_mask >> source_mantissa) >> 1
    bias = (1 << (exponent_bits - 1)) - 1
    if bias < source_bias:
        exponent = magnitude & word(exponent_mask)
        magnitude = np.where(exponent > word((source_bias + bias) << source_mantissa), word(exponent_mask), magnitude)
        magnitude = np.where(exponent <= word((source_bias - bias) << source_mantissa), word(0), magnitude)
    found: Array = (magnitude | sign).astype(word).view(values.dtype)
    infinite: Array = (sign | word(exponent_mask)).astype(word).view(values.dtype)
    return np.where(np.isnan(values), values if mantissa_bits > 0 else infinite, found)

"""Reads constants that a program stores as integers and dequantizes: their integers, types and real values.

%w = quant.scast (constant)             : tensor<96x24xi4> to tensor<96x24x!quant.uniform<i4:f32:{0:32, 1:1}, {...}>>
%r = quant.dcast %w                     : the value to read; or stablehlo.uniform_dequantize

The quantized constant may have any form of `quantized_constants.py`. Integers with a scale per block may be dequantized
by the product that `lower/block_scales.py` writes:

%b = reshape (convert (constant))       : tensor<96x24xi4> to tensor<3x32x24xf32>
%m = multiply (subtract %b, (broadcast of zero points)), (broadcast of constant), dims = [0, 2]
%r = reshape %m                         : tensor<96x24xf32>; the subtraction may be left out
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import own_profile
from zeropoint.ir.constants import constant_array
from zeropoint.ir.definitions import defining_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    Storage,
    UniformQuantizedType,
    dequantize,
    quantize,
)
from zeropoint.ir.quant.storage import storage_of
from zeropoint.ir.quantized_constants import quantized_constant
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConvertOp,
    MultiplyOp,
    ReshapeOp,
    SubtractOp,
    TransposeOp,
    UniformDequantizeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.stablehlo.representation import bit_width
from zeropoint.ir.tensors import Array, element_of, shape_of
from zeropoint.numerics.profile import CAST_PROFILE, DEFAULT_PROFILE

GREATEST_WIDTH = 8
"""Maximum width in bits of integers with a scale per block. Their differences are exact in f32."""


def stored_constant(program: Program, value: SSAValue) -> tuple[Array, UniformQuantizedType] | None:
    """The stored integers and the type of a constant that a program dequantizes; None for other values."""
    owner = defining_op(value)
    if isinstance(owner, ReshapeOp):
        return _product(program, owner)
    if not isinstance(owner, UniformDequantizeOp | DequantizeCastOp):
        return None
    held = owner.operands[0]

    def rounded(array: Array, kind: UniformQuantizedType) -> Array:
        return quantize(array, kind, _profile(program, held))

    return quantized_constant(held, program.weights, rounded)


def _product(program: Program, op: ReshapeOp) -> tuple[Array, UniformQuantizedType] | None:
    """The integers with a scale per block in a product that `op` reshapes, and their type; None for other ops."""
    product = defining_op(op.operand)
    if not isinstance(product, MultiplyOp) or element_of(product.result) != f32:
        return None
    parts, differences = _axes(shape_of(op.result), shape_of(product.result)), defining_op(product.lhs)
    points = differences.rhs if isinstance(differences, SubtractOp) else None
    blocks = defining_op(differences.lhs) if isinstance(differences, SubtractOp) else differences
    stored = _integers(program, blocks.operand) if isinstance(blocks, ReshapeOp) else None
    if parts is None or stored is None or stored[0].shape != shape_of(op.result):
        return None
    array, storage = stored
    scales, zeros = _by_block(program, product.rhs, parts), None
    if points is not None:
        zeros = _by_block(program, points, parts)
        if zeros is None or (zeros < storage.minimum).any() or (zeros > storage.maximum).any():
            return None
    if scales is None or not (np.isfinite(scales).all() and (scales > 0).all()):
        return None
    sizes = [(axis, size // count) for axis, (size, count) in enumerate(zip(array.shape, scales.shape, strict=True))]
    return array, UniformQuantizedType.sub_channel(storage, sizes, scales, zeros)


def _integers(program: Program, value: SSAValue) -> tuple[Array, Storage] | None:
    """Constant integers of at most 8 bits that are converted to f32, and their storage."""
    op = defining_op(value)
    if not isinstance(op, ConvertOp) or element_of(op.result) != f32:
        return None
    array, element = constant_array(op.operand, program.weights), element_of(op.operand)
    if array is None or array.dtype.kind not in "iu" or not 1 < bit_width(element) <= GREATEST_WIDTH:
        return None
    return array, storage_of(element)


def _axes(shape: Sequence[int], split: Sequence[int]) -> list[list[int]] | None:
    """For each dimension of `shape`, the one or two dimensions of `split` that it merges; None if sizes differ."""
    found: list[list[int]] = []
    left = list(range(len(split)))
    for size in shape:
        count = next((n for n in (1, 2) if math.prod(split[axis] for axis in left[:n]) == size), None)
        if count is None:
            return None
        found.append(left[:count])
        left = left[count:]
    return found if not left else None


def _by_block(program: Program, value: SSAValue, parts: Sequence[Sequence[int]]) -> Array | None:
    """Numbers that are broadcast over the elements of blocks, in the rank of the weight; None for others.

    For each axis of the weight, `parts` has the dimension that counts blocks and, if there is one, that of the elements
    of a block.
    """
    op = defining_op(value)
    if not isinstance(op, BroadcastInDimOp):
        return None
    read = _integers(program, op.operand)
    array = constant_array(op.operand, program.weights) if read is None else read[0].astype(np.int64)
    kept, shape = array_values(op.broadcast_dimensions), shape_of(op.result)
    full = tuple(shape[axis] for axis in kept)
    if array is None or array.shape != full or list(kept) != sorted(kept):
        return None
    if any(axis in kept for part in parts for axis in part[1:]):
        return None
    return array.reshape([shape[part[0]] if part[0] in kept else 1 for part in parts])


def _profile(program: Program, value: SSAValue) -> str:
    """The profile that rounds floats. By default, casts of the quant dialect round by another profile than StableHLO
    (`interp/quantized.py`).
    """
    op = defining_op(value)
    while isinstance(op, BroadcastInDimOp | ReshapeOp | TransposeOp):
        op = defining_op(op.operand)
    stated = (own_profile(op) if isinstance(op, Operation) else None) or program.profile
    return stated or (CAST_PROFILE if isinstance(op, QuantizeCastOp) else DEFAULT_PROFILE)


def dequantized_constant(program: Program, value: SSAValue) -> Array | None:
    """The real values of a constant that a program dequantizes; None for other values."""
    found = stored_constant(program, value)
    return None if found is None else dequantize(*found)

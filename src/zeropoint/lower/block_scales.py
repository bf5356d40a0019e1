"""Expands the dequantization of constants with a scale per block to a product of integers and a tensor of scales.

```mlir
%s = quant.scast %q : tensor<96x24xi4> to tensor<96x24x!quant.uniform<i4:f32:{0:32, 1:1}, {{0.02, ...}, ...}>>
%r = quant.dcast %s : ... to tensor<96x24xf32>
```
becomes
```mlir
%f = stablehlo.convert %q : (tensor<96x24xi4>) -> tensor<96x24xf32>
%b = stablehlo.reshape %f : (tensor<96x24xf32>) -> tensor<3x32x24xf32>
%s = stablehlo.broadcast_in_dim %scales, dims = [0, 2] : (tensor<3x24xf32>) -> tensor<3x32x24xf32>
%m = stablehlo.multiply %b, %s : tensor<3x32x24xf32>
%r = stablehlo.reshape %m : (tensor<3x32x24xf32>) -> tensor<96x24xf32>
```
Zero points are subtracted before the product. This is the formula of `numerics.affine.dequantize`, with identical
results, because the difference of two 8-bit integers is exact in f32. The expansion saves space: a scale in a type is
text; a scale in a tensor takes four bytes in the weights file. Unsigned storage becomes signed: half of its range is
subtracted from integers and zero points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import IntegerType, f32
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from zeropoint.ir.constants import constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.dequantized import GREATEST_WIDTH, stored_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BroadcastInDimOp,
    ConvertOp,
    MultiplyOp,
    ReshapeOp,
    SubtractOp,
    UniformDequantizeOp,
)
from zeropoint.ir.tensors import Array, element_of, shape_of, with_element, with_shape
from zeropoint.numerics.storage import StorageType


def expand_block_scales(program: Program) -> Program:
    """A copy in which dequantized constants with a scale per block are products of integers and a tensor of scales."""
    program = program.for_change()
    for op in list(_dequantized(program)):
        found = stored_constant(program, op.results[0])
        assert found is not None
        made = _product(program, op, *found)
        op.results[0].replace_all_uses_with(made)
    remove_dead_ops(program.entry)
    return program


def _dequantized(program: Program) -> Iterator[Operation]:
    """The ops that dequantize constants with a scale per block."""
    for op in program.module.walk():
        if not isinstance(op, DequantizeCastOp | UniformDequantizeOp):
            continue
        kind = element_of(op.operands[0])
        if not isinstance(kind, UniformQuantizedType) or not kind.is_sub_channel:
            continue
        fits = kind.storage.is_integer and kind.storage.type.width <= GREATEST_WIDTH
        if fits and kind.expressed_type == f32 and stored_constant(program, op.results[0]) is not None:
            yield op


def _product(program: Program, op: Operation, stored: Array, kind: UniformQuantizedType) -> SSAValue:
    """Insert the product that `op` computes before it, and return its value."""
    result, width = op.results[0], kind.storage.type.width
    half = kind.storage.type.middle
    builder = Builder(InsertPoint.before(op))

    def add(made: Operation) -> SSAValue:
        made.location = op.location
        return builder.insert(made).results[0]

    def constant(array: Array, element: IntegerType | None = None) -> SSAValue:
        return add(constant_op(array, program.weights, element_type=element))

    signed = StorageType(True, width)
    cast = op.operands[0].owner
    if isinstance(cast, StorageCastOp) and not half:
        integers = cast.input  # has the name of the weights
    else:
        integers = constant((stored.astype(np.int64) - half).astype(signed.dtype), IntegerType(width))
    split, kept = _blocks(shape_of(result), kind.scales.shape)
    value = add(ReshapeOp(add(ConvertOp(integers, result.type)), with_shape(result, split)))
    points = kind.zero_points - half
    if points.any():
        narrow = constant(points.reshape([split[axis] for axis in kept]).astype(signed.dtype), IntegerType(width))
        wide = add(ConvertOp(narrow, with_element(narrow, element_of(result))))
        value = add(SubtractOp(value, add(BroadcastInDimOp(wide, value.type, kept))))
    scales = constant(kind.scales.reshape([split[axis] for axis in kept]).astype(np.float32))
    value = add(MultiplyOp(value, add(BroadcastInDimOp(scales, value.type, kept))))
    return add(ReshapeOp(value, result.type))


def _blocks(shape: Sequence[int], counts: Sequence[int]) -> tuple[list[int], list[int]]:
    """The shape with each blocked dimension split into number of blocks and block size, and the dimensions of the
    scales.
    """
    split: list[int] = []
    kept: list[int] = []
    for size, count in zip(shape, counts, strict=True):
        if count == 1:
            split.append(size)
            continue
        kept.append(len(split))
        split += [count] if count == size else [count, size // count]
    return split, kept

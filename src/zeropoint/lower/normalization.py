"""Batch normalization of quantized values.

```mlir
%0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) : tensor<8x3x4x!quant.uniform<i8:f32, 0.5>>
```
becomes, if the last four are constants and the operand is 8-bit,
```mlir
%1 = (convert %x to i32) + (128 + 256 * channel)
%0 = "stablehlo.gather"(%table, %1) : (tensor<768xi8>, tensor<8x3x4xi32>) -> tensor<8x3x4xi8>
```
The table has 256 entries per channel, computed by the op's definition, so that values are rounded only once. Otherwise,
and in training, where mean and variance depend on the operand, it is computed in float, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.ir.quant import dequantize, quantize
from zeropoint.ir.stablehlo import (
    AddOp,
    BatchNormGradOp,
    BatchNormInferenceOp,
    BatchNormTrainingOp,
    GatherDimensions,
    GatherOp,
)
from zeropoint.ir.tensors import Array, shape_of
from zeropoint.lower.context import Lowering, quantized_element, signed_integers, stored_element
from zeropoint.lower.float_islands import lower_in_float, lower_several_in_float
from zeropoint.numerics.normalization import normalized

STATISTICS = "it normalises by the mean and the variance of its operand: statistics of a batch have no integer form"
GRADIENT = "the gradient of a batch normalisation has no integer form"


def lower_inference(lowering: Lowering, op: BatchNormInferenceOp) -> SSAValue:
    """A table lookup per channel; in float for computed parameters or more than 8 bits."""
    given, result = quantized_element(op.operand), stored_element(op.result)
    constants = [_reals(lowering, value) for value in op.operands[1:]]
    parameters = [array for array in constants if array is not None]
    assert given is not None and result is not None
    if len(parameters) < len(constants):
        return lower_in_float(lowering, op, "a batch normalisation by computed parameters has no integer form")
    if given.storage.type.width != 8:
        return lower_in_float(lowering, op, "only batch normalisations of 8-bit values have a table")
    stored = np.arange(given.storage.type.min, given.storage.type.max + 1, dtype=np.int32)
    columns = [array.reshape(-1, 1) for array in parameters]
    with np.errstate(all="ignore"):
        image = normalized(dequantize(stored, given), *columns, epsilon=op.epsilon.value.data)
    table = lowering.constant(signed_integers(quantize(image, result, lowering.profile.name)).reshape(-1))
    return _looked_up(lowering, op, table)


def _reals(lowering: Lowering, value: SSAValue) -> Array | None:
    """The real values of a constant, quantized or not; None for other values."""
    kind, stored = quantized_element(value), lowering.integers(value)
    return dequantize(stored, kind) if stored is not None and kind is not None else stored


def _looked_up(lowering: Lowering, op: BatchNormInferenceOp, table: SSAValue) -> SSAValue:
    """table[256 * channel + stored + 128]."""
    shape, wide = shape_of(op.operand), lowering.widened(lowering.stored(op.operand), 0)
    starts = np.arange(shape[op.feature], dtype=np.int32) * 256 + 128
    index = lowering.insert(AddOp(wide, lowering.channels(wide, starts, op.feature))).result
    dimensions = GatherDimensions(
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=len(shape)
    )
    return lowering.insert(GatherOp(table, index, dimensions, [1])).result


def lower_training(lowering: Lowering, op: BatchNormTrainingOp) -> Sequence[SSAValue]:
    """Computed in float: the statistics of a batch have no integer form."""
    return lower_several_in_float(lowering, op, STATISTICS)


def lower_gradient(lowering: Lowering, op: BatchNormGradOp) -> Sequence[SSAValue]:
    """Computed in float."""
    return lower_several_in_float(lowering, op, GRADIENT)

"""Batch normalization of quantized values.

```mlir
%0 = "stablehlo.batch_norm_inference"(%x, %scale, %offset, %mean, %variance) : tensor<8x3x4x!quant.uniform<i8:f32, 0.5>>
```
becomes, if the last four are constants and the operand is 8-bit,
```mlir
%1 = (convert %x to i32) + (128 + 256 * channel)
%0 = "stablehlo.gather"(%table, %1) : (tensor<768xi8>, tensor<8x3x4xi32>) -> tensor<8x3x4xi8>
```
The table has 256 entries per channel, computed by the op's definition, so that each result is rounded only once. A
batch norm of floats between `uniform_dequantize` and `uniform_quantize` becomes the same table. Other batch norms, and
those in training, whose mean and variance depend on the operand, are computed in float, with a reason.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.quant import UniformQuantizedType, dequantize, quantize
from zeropoint.ir.quantized_constants import quantized_constant
from zeropoint.ir.stablehlo import (
    AddOp,
    BatchNormGradOp,
    BatchNormInferenceOp,
    BatchNormTrainingOp,
    GatherDimensions,
    GatherOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.lower.constants import rounding
from zeropoint.lower.context import Lowering, quantized_element, signed_integers, stored_element
from zeropoint.lower.float_islands import lower_in_float, lower_several_in_float
from zeropoint.numerics.normalization import normalized

STATISTICS = "it normalizes by the mean and the variance of its operand: statistics of a batch have no integer form"
GRADIENT = "the gradient of a batch normalization has no integer form"
COMPUTED = "a batch normalization by computed parameters has no integer form"
NO_TABLE = "only batch normalizations of 8-bit values per layer, which are quantized again, have a table"


def lower_inference(lowering: Lowering, op: BatchNormInferenceOp) -> SSAValue:
    """A table lookup per channel. Computed in float for parameters that are not constant, and for more than 8 bits."""
    given, result = quantized_element(op.operand), stored_element(op.result)
    constants = [_reals(lowering, value) for value in op.operands[1:]]
    parameters = [array for array in constants if array is not None]
    assert given is not None and result is not None
    if len(parameters) < len(constants):
        return lower_in_float(lowering, op, COMPUTED)
    # Tables of 65,536 entries per channel would be larger than most weights.
    if given.storage.type.width != 8:
        return lower_in_float(lowering, op, "only batch normalizations of 8-bit values have a table")
    return _looked_up(lowering, op, parameters, (op.operand, given), result)


def lower_quantized_floats(lowering: Lowering, op: UniformQuantizeOp) -> SSAValue | None:
    """The table lookup for a batch norm of floats that `op` quantizes; None for other operands."""
    norm, result = op.operand.owner, stored_element(op.result)
    if not isinstance(norm, BatchNormInferenceOp) or FLOAT_REASON in norm.attributes or result is None:
        return None
    source = norm.operand.owner
    given = quantized_element(source.operand) if isinstance(source, UniformDequantizeOp) else None
    parameters = [array for value in norm.operands[1:] if (array := _reals(lowering, value)) is not None]
    known = given is not None and given.is_per_layer and given.storage.type.width == 8
    if not known or len(parameters) < 4 or not result.is_per_layer:
        return None
    assert isinstance(source, UniformDequantizeOp) and given is not None
    return _looked_up(lowering, norm, parameters, (source.operand, given), result)


def note_reason(lowering: Lowering, op: Operation) -> None:
    """Attach the reason to a batch norm of floats that stays float."""
    if isinstance(op, BatchNormInferenceOp):
        constant = all(_reals(lowering, value) is not None for value in op.operands[1:])
        op.attributes.setdefault(FLOAT_REASON, StringAttr(NO_TABLE if constant else COMPUTED))
    elif isinstance(op, BatchNormTrainingOp | BatchNormGradOp):
        reason = STATISTICS if isinstance(op, BatchNormTrainingOp) else GRADIENT
        op.attributes.setdefault(FLOAT_REASON, StringAttr(reason))


def _reals(lowering: Lowering, value: SSAValue) -> Array | None:
    """The real values of a constant, which may be quantized, or of a broadcast number; None for other values."""
    owner = value.owner
    value = owner.operand if isinstance(owner, UniformDequantizeOp) else value
    found = quantized_constant(value, lowering.weights, rounding(lowering.profile.name))
    if found is not None:
        return dequantize(*found)
    array, number = constant_array(value, lowering.weights), splat_value(value, lowering.weights)
    if array is None and number is not None:
        array = np.full(shape_of(value), number, element_dtype(element_of(value)))
    return array


def _looked_up(
    lowering: Lowering,
    op: BatchNormInferenceOp,
    parameters: Sequence[Array],
    source: tuple[SSAValue, UniformQuantizedType],
    result: UniformQuantizedType,
) -> SSAValue:
    """table[256 * channel + stored + 128], with the batch norm of all 256 values of `source` for each channel."""
    operand, given = source
    stored = np.arange(given.storage.type.min, given.storage.type.max + 1, dtype=np.int32)
    columns = [array.reshape(-1, 1) for array in parameters]
    # A variance of 0 with epsilon 0 gives a division by 0. The table saturates, as the op would.
    with np.errstate(all="ignore"):
        image = normalized(dequantize(stored, given), *columns, epsilon=op.epsilon.value.data)
    table = lowering.constant(signed_integers(quantize(image, result, lowering.profile.name)).reshape(-1))
    shape, wide = shape_of(operand), lowering.widened(lowering.stored(operand), 0)
    # 128 shifts signed storage to 0..255.
    starts = np.arange(shape[op.feature], dtype=np.int32) * 256 + 128
    index = lowering.insert(AddOp(wide, lowering.channels(wide, starts, op.feature))).result
    dimensions = GatherDimensions(
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=len(shape)
    )
    return lowering.insert(GatherOp(table, index, dimensions, [1])).result


def lower_training(lowering: Lowering, op: BatchNormTrainingOp) -> Sequence[SSAValue]:
    """Computed in float, because the statistics of a batch have no integer form."""
    return lower_several_in_float(lowering, op, STATISTICS)


def lower_gradient(lowering: Lowering, op: BatchNormGradOp) -> Sequence[SSAValue]:
    """Computed in float."""
    return lower_several_in_float(lowering, op, GRADIENT)

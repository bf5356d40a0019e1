"""Weights-only quantization: a kernel stays float; its weights are stored in at most 8 bits and dequantized before it.

```mlir
%1 = "quant.region"(%x, %w) ({ dot_general }) {zeropoint.demands = [{name = "activations", value = "float"}, ...]}
```
becomes
```mlir
%q = stablehlo.constant dense<...> : tensor<96x24xi4>
%s = quant.scast %q : tensor<96x24xi4> to tensor<96x24x!quant.uniform<i4:f32:{0:32, 1:1}, {...}>>
%r = quant.dcast %s : ... to tensor<96x24xf32>
%1 = stablehlo.dot_general %x, %r
```
A type that the model pins is kept. Blocks are those of onnxruntime's `MatMulNBits`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import Float32Type, IntegerType
from xdsl.ir import OpResult, SSAValue

from zeropoint.ir.annotations import (
    BLOCK_SIZE,
    DEMANDS,
    FLOAT_ACTIVATIONS,
    PINNED,
    WEIGHT_BITS,
    WEIGHT_SYMMETRIC,
    facts_of,
)
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.contractions import weight_channel_axis
from zeropoint.ir.locations import location_of
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeRegionOp,
    Storage,
    StorageCastOp,
    UniformQuantizedType,
    stored_array,
)
from zeropoint.ir.stablehlo import ConvolutionOp, DotGeneralOp
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.numerics.storage import StorageType
from zeropoint.numerics.weight_scales import least_error
from zeropoint.solve.blocks import unfit_blocks

DEFAULT_BITS = 8
NIBBLE = Storage.of("i4")


def weights_of(region: QuantizeRegionOp) -> tuple[ConvolutionOp | DotGeneralOp, int] | None:
    """A region's contraction whose weights are an operand of the region, and the operand's number; None without one."""
    for op in region.body.block.ops:
        if isinstance(op, ConvolutionOp | DotGeneralOp) and op.rhs in region.body.block.args:
            return op, region.body.block.args.index(op.rhs)
    return None


def store_weights(region: QuantizeRegionOp, weights: Weights) -> str | None:
    """Replace the weights of a float kernel by stored ones that are dequantized, in place.

    Returns the reason why they stay float; None if they are stored, or if no recipe demands it.
    """
    found = type_of_weights(region, weights)
    if found is None or isinstance(found, str):
        return found
    index, kind, array = found
    region.operands[index] = _dequantized(region.inputs[index], array, kind, region, weights)
    return None


def type_of_weights(region: QuantizeRegionOp, weights: Weights) -> tuple[int, UniformQuantizedType, Array] | str | None:
    """The operand of a float kernel whose weights are stored, their type, and the real numbers.

    The reason why they stay float, if they do; None if no recipe demands that they are stored.
    """
    demands = {fact.name: fact.value for fact in facts_of(region, DEMANDS)}
    found = weights_of(region)
    if not FLOAT_ACTIVATIONS.items() <= demands.items() or found is None:
        return None
    op, index = found
    value = region.inputs[index]
    array, axis = constant_array(value, weights), weight_channel_axis(op)
    if array is None or axis is None or not isinstance(element_of(value), Float32Type):
        return "its weights are not a constant of f32 with output channels"
    pinned = value.op.attributes.get(PINNED) if isinstance(value, OpResult) else None
    if isinstance(pinned, UniformQuantizedType):
        return index, _narrowed(pinned.signed), array
    if not np.isfinite(array).all():
        return "its weights are not finite"
    if BLOCK_SIZE in demands and (reason := unfit_blocks(region, demands, None)) is not None:
        return reason
    return index, _type(array, axis, demands), array


def _type(array: Array, axis: int, demands: dict[str, str]) -> UniformQuantizedType:
    """The type of weights with output channels along `axis` that has the least squared error."""
    kind = StorageType(True, int(demands.get(WEIGHT_BITS, DEFAULT_BITS)))
    storage, points = Storage(kind, kind.min, kind.max), demands.get(WEIGHT_SYMMETRIC) == "false"
    if BLOCK_SIZE in demands:
        size, terms = int(demands[BLOCK_SIZE]), 1 - axis
        # [channels, blocks, terms of a block]
        blocks = np.moveaxis(array, axis, 0).astype(np.float64).reshape(array.shape[axis], -1, size)
        numbers = [np.moveaxis(part, 0, axis) for part in least_error(blocks, kind, zero_points=points)]
        sizes = [(dimension, size if dimension == terms else 1) for dimension in range(2)]
        return UniformQuantizedType.sub_channel(storage, sizes, *numbers)
    rows = np.moveaxis(array, axis, 0).astype(np.float64).reshape(array.shape[axis], -1)
    if demands.get("granularity") == "per_tensor":
        rows = rows.reshape(1, -1)
    scales, found = least_error(rows, kind, zero_points=points)
    if len(rows) == 1:
        return UniformQuantizedType.per_layer(storage, float(scales[0]), int(found[0]))
    return UniformQuantizedType.per_channel(storage, axis, scales.tolist(), found.tolist())


def _narrowed(pinned: UniformQuantizedType) -> UniformQuantizedType:
    """A pinned type in 4-bit storage, if that holds its range."""
    storage = pinned.storage
    if storage.minimum < NIBBLE.minimum or storage.maximum > NIBBLE.maximum:
        return pinned
    narrow = Storage(NIBBLE.type, storage.minimum, storage.maximum)
    return UniformQuantizedType(replace(pinned.data, storage=narrow))


def _dequantized(
    value: SSAValue, array: Array, kind: UniformQuantizedType, region: QuantizeRegionOp, weights: Weights
) -> SSAValue:
    """Insert the stored constant, its cast and its dequantization before the region. Returns the dequantized value."""
    element = IntegerType(kind.storage.type.width)
    made = constant_op(stored_array(array, kind), weights, element_type=element, location=location_of(value))
    cast = StorageCastOp(made.output, with_element(value, kind))
    real = DequantizeCastOp(cast.result, value.type)
    cast.location = real.location = location_of(value)
    assert region.parent is not None
    region.parent.insert_ops_before([made, cast, real], region)
    return real.results[0]

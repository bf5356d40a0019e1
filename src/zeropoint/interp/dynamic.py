"""Dynamic ops: they compute what their static forms do, with attributes known only at run time.

Source: the StableHLO specification. `dynamic_conv` and `dynamic_gather` are bound once for each distinct padding or
slice size.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from xdsl.ir import Block

from zeropoint.interp.affine import is_quantized, quantization
from zeropoint.interp.binding import Binary, Kernel, Scope, Ternary, Unary
from zeropoint.interp.contraction import contraction as real_contraction
from zeropoint.interp.indexing import gather
from zeropoint.interp.movement import padded
from zeropoint.interp.quantized_contraction import contraction as quantized_contraction
from zeropoint.ir.stablehlo import (
    ConvolutionOp,
    DynamicBroadcastInDimOp,
    DynamicConvOp,
    DynamicGatherOp,
    DynamicIotaOp,
    DynamicPadOp,
    DynamicReshapeOp,
    GatherOp,
    GetDimensionSizeOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.limits import afford


def _sizes(values: Array) -> tuple[int, ...]:
    return tuple(int(size) for size in values.reshape(-1))


def get_dimension_size(op: GetDimensionSizeOp, scope: Scope) -> Unary:
    """result = dim(operand, dimension)."""
    dimension = int(op.dimension.value.data)
    return lambda operand: np.asarray(operand.shape[dimension], np.int32)


def dynamic_reshape(op: DynamicReshapeOp, scope: Scope) -> Binary:
    """reshape to the shape output_shape."""
    return lambda operand, output_shape: operand.reshape(_sizes(output_shape))


def dynamic_broadcast_in_dim(op: DynamicBroadcastInDimOp, scope: Scope) -> Binary:
    """broadcast_in_dim to the shape output_dimensions."""
    dims = array_values(op.broadcast_dimensions)
    order = sorted(range(len(dims)), key=dims.__getitem__)

    def run(operand: Array, output_dimensions: Array) -> Array:
        shape = _sizes(output_dimensions)
        afford(shape, operand.itemsize, "a dynamic_broadcast_in_dim")
        aligned = [1] * len(shape)
        for source, target in enumerate(dims):
            aligned[target] = operand.shape[source]
        return np.broadcast_to(operand.transpose(order).reshape(aligned), shape)

    return run


def dynamic_iota(op: DynamicIotaOp, scope: Scope) -> Unary:
    """iota of the shape output_shape."""
    axis, element = int(op.iota_dimension.value.data), element_of(op.result)
    finish: Unary = (
        quantization(element, scope.profile) if is_quantized(element) else _as_element(element_dtype(element))
    )

    def run(output_shape: Array) -> Array:
        shape = _sizes(output_shape)
        afford(shape, finish(np.arange(1)).itemsize, "a dynamic_iota")
        along = [-1 if dim == axis else 1 for dim in range(len(shape))]
        return np.broadcast_to(finish(np.arange(shape[axis])).reshape(along), shape)

    return run


def _as_element(dtype: np.dtype[np.generic]) -> Unary:
    return lambda counted: counted.astype(dtype)


def dynamic_pad(op: DynamicPadOp, scope: Scope) -> Kernel:
    """pad by the amounts of the last three operands."""

    def run(operand: Array, padding_value: Array, low: Array, high: Array, interior: Array) -> Array:
        return padded(operand, list(zip(_sizes(low), _sizes(high), strict=True)), padding_value, _sizes(interior))

    return run


def _bound_once(bind: Callable[[Array], Binary]) -> Ternary:
    """Binds a kernel for each distinct value of the last operand, and caches it."""
    kernels: dict[bytes, Binary] = {}

    def run(first: Array, second: Array, attribute: Array) -> Array:
        key = attribute.tobytes()
        if key not in kernels:
            kernels[key] = bind(attribute)
        return kernels[key](first, second)

    return run


def dynamic_conv(op: DynamicConvOp, scope: Scope) -> Ternary:
    """convolution with the padding of the third operand."""

    def bind(padding: Array) -> Binary:
        # The operands are fresh block arguments, so the rule cannot take one for a constant.
        block = Block(arg_types=[op.lhs.type, op.rhs.type])
        pairs = [(int(low), int(high)) for low, high in padding]
        static = ConvolutionOp.create(
            operands=list(block.args),
            result_types=[op.result.type],
            properties={**op.properties, "padding": padding_attribute(pairs)},
        )
        rule = quantized_contraction if is_quantized(element_of(op.rhs)) else real_contraction
        return rule(static, scope)

    return _bound_once(bind)


def dynamic_gather(op: DynamicGatherOp, scope: Scope) -> Ternary:
    """gather of slices of the sizes of the third operand."""

    def bind(slice_sizes: Array) -> Binary:
        block = Block(arg_types=[op.operand.type, op.start_indices.type])
        static = GatherOp.create(
            operands=list(block.args),
            result_types=[op.result.type],
            properties={**op.properties, "slice_sizes": i64_array(_sizes(slice_sizes))},
        )
        return gather(static, scope)

    return _bound_once(bind)

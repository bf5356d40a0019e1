"""Dynamic ops. They compute what their static forms compute, with attributes that are known only at run time.

Source: the StableHLO specification. `dynamic_conv` and `dynamic_gather` are bound once for each padding or slice size,
and shapes of operands.

The verifier cannot see the computed shapes. So each op checks them when it runs, before it allocates memory. It raises
InputError if they do not fit the operand or the result type, and LimitExceeded if the result exceeds the memory limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.ir import Operation

from zeropoint.interp.affine import is_quantized, quantization
from zeropoint.interp.binding import Binary, Kernel, Scope, Ternary, Unary
from zeropoint.interp.contraction import contraction as real_contraction
from zeropoint.interp.errors import InputError
from zeropoint.interp.indexing import gather
from zeropoint.interp.movement import padded, padded_shape
from zeropoint.interp.quantized_contraction import contraction as quantized_contraction
from zeropoint.interp.run_shapes import block_arguments, verify_static
from zeropoint.ir.locations import describe
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
from zeropoint.ir.stablehlo.elements import compatible_shapes
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.limits import afford


def _sizes(values: Array) -> tuple[int, ...]:
    return tuple(int(size) for size in values.reshape(-1))


def _check_shape(op: Operation, shape: Sequence[int]) -> None:
    """Check that a computed shape has no negative size and fits the type of the result. Raises InputError."""
    wanted = op.results[0].type
    if min(shape, default=0) < 0 or not compatible_shapes(tuple(shape), shape_of(wanted)):
        raise InputError(f"{describe(op)}: found the computed shape {list(shape)}, expected one that fits {wanted}")


def get_dimension_size(op: GetDimensionSizeOp, scope: Scope) -> Unary:
    """result = dim(operand, dimension)."""
    dimension = int(op.dimension.value.data)
    return lambda operand: np.asarray(operand.shape[dimension], np.int32)


def dynamic_reshape(op: DynamicReshapeOp, scope: Scope) -> Binary:
    """reshape to the shape output_shape (C2, C4)."""

    def run(operand: Array, output_shape: Array) -> Array:
        shape = _sizes(output_shape)
        _check_shape(op, shape)
        if prod(shape) != operand.size:
            raise InputError(
                f"{describe(op)}: found the computed shape {list(shape)} of {prod(shape)} elements, expected "
                f"{operand.size}, as many as the operand of shape {list(operand.shape)} has"
            )
        return operand.reshape(shape)

    return run


def dynamic_broadcast_in_dim(op: DynamicBroadcastInDimOp, scope: Scope) -> Binary:
    """broadcast_in_dim to the shape output_dimensions."""
    dims = array_values(op.broadcast_dimensions)
    order = sorted(range(len(dims)), key=dims.__getitem__)

    def run(operand: Array, output_dimensions: Array) -> Array:
        shape = _sizes(output_dimensions)
        _check_shape(op, shape)
        afford(shape, operand.itemsize, "a dynamic_broadcast_in_dim")
        aligned = [1] * len(shape)
        for source, target in enumerate(dims):
            if operand.shape[source] not in (1, shape[target]):
                raise InputError(
                    f"{describe(op)}: found size {operand.shape[source]} of operand dimension {source} and the "
                    f"computed shape {list(shape)}, expected size 1 or {shape[target]}"
                )
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
        _check_shape(op, shape)
        afford(shape, finish(np.arange(1)).itemsize, "a dynamic_iota")
        along = [-1 if dim == axis else 1 for dim in range(len(shape))]
        return np.broadcast_to(finish(np.arange(shape[axis])).reshape(along), shape)

    return run


def _as_element(dtype: np.dtype[np.generic]) -> Unary:
    return lambda counted: counted.astype(dtype)


def dynamic_pad(op: DynamicPadOp, scope: Scope) -> Kernel:
    """pad by the amounts of the last three operands."""

    def run(operand: Array, padding_value: Array, low: Array, high: Array, interior: Array) -> Array:
        steps = _sizes(interior)
        if min(steps, default=0) < 0:
            raise InputError(f"{describe(op)}: found interior padding {list(steps)}, expected no negative amount")
        edges = list(zip(_sizes(low), _sizes(high), strict=True))
        _check_shape(op, padded_shape(operand.shape, edges, steps))
        return padded(operand, edges, padding_value, steps)

    return run


def _bound_once(bind: Callable[[Array, Array, Array], Binary]) -> Ternary:
    """Bind and cache a kernel for each distinct value of the last operand and shapes of the others."""
    kernels: dict[tuple[object, ...], Binary] = {}

    def run(first: Array, second: Array, attribute: Array) -> Array:
        key = (first.shape, second.shape, attribute.tobytes())
        if key not in kernels:
            kernels[key] = bind(first, second, attribute)
        return kernels[key](first, second)

    return run


def dynamic_conv(op: DynamicConvOp, scope: Scope) -> Ternary:
    """convolution with the padding of the third operand."""

    def bind(lhs: Array, rhs: Array, padding: Array) -> Binary:
        pairs = [(int(low), int(high)) for low, high in padding]
        static = ConvolutionOp.create(
            operands=block_arguments([op.lhs, op.rhs], [lhs, rhs]),
            result_types=[op.result.type],
            properties={**op.properties, "padding": padding_attribute(pairs)},
        )
        verify_static(op, static, f"padding {[list(pair) for pair in pairs]}")
        rule = quantized_contraction if is_quantized(element_of(op.rhs)) else real_contraction
        return rule(static, scope)

    return _bound_once(bind)


def dynamic_gather(op: DynamicGatherOp, scope: Scope) -> Ternary:
    """gather of slices of the sizes of the third operand."""

    def bind(operand: Array, start_indices: Array, slice_sizes: Array) -> Binary:
        sizes = _sizes(slice_sizes)
        static = GatherOp.create(
            operands=block_arguments([op.operand, op.start_indices], [operand, start_indices]),
            result_types=[op.result.type],
            properties={**op.properties, "slice_sizes": i64_array(sizes)},
        )
        verify_static(op, static, f"slice sizes {list(sizes)}")
        return gather(static, scope)

    return _bound_once(bind)

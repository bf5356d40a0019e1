"""Ops of the tensor dialect that move elements. Offsets, sizes and strides are static.

Source: MLIR's "'tensor' Dialect" document.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zeropoint.interp.binding import Kernel, Scope, Unary
from zeropoint.interp.errors import InputError, UnsupportedError
from zeropoint.ir.tensors import Array, shape_of


def reshaped(op: Any, scope: Scope) -> Unary:
    """`tensor.collapse_shape` and `tensor.expand_shape`: the same elements in another static shape."""
    del scope
    shape = shape_of(op.result)
    return lambda x: x.reshape(shape)


def _slices(op: Any) -> tuple[slice, ...]:
    """The slices of a slice op. Raises UnsupportedError if they depend on values."""
    if len(op.offsets) + len(op.sizes) + len(op.strides):
        raise UnsupportedError("found dynamic offsets, sizes or strides; expected static ones")
    parts = zip(
        op.static_offsets.get_values(), op.static_sizes.get_values(), op.static_strides.get_values(), strict=True
    )
    return tuple(slice(offset, offset + (size - 1) * stride + 1, stride) for offset, size, stride in parts)


def extract_slice(op: Any, scope: Scope) -> Unary:
    """`tensor.extract_slice`: the elements at offset + i * stride. Dimensions of size 1 may be dropped."""
    del scope
    slices, shape = _slices(op), shape_of(op.result)
    return lambda x: x[slices].reshape(shape)


def insert(op: Any, scope: Scope) -> Kernel:
    """`tensor.insert`: the destination with an element replaced. The indices must be in bounds."""
    del op, scope

    def run(scalar: Array, destination: Array, *indices: Array) -> Array:
        at = tuple(int(index) for index in indices)
        if not all(0 <= index < size for index, size in zip(at, destination.shape, strict=True)):
            raise InputError(f"found index {[*at]} of a tensor of shape {[*destination.shape]}, expected one inside")
        result = destination.copy()
        result[at] = scalar
        return result

    return run


def insert_slice(op: Any, scope: Scope) -> Kernel:
    """`tensor.insert_slice`: the destination with the elements at offset + i * stride replaced."""
    del scope
    slices, shape = _slices(op), tuple(op.static_sizes.get_values())

    def run(source: Array, destination: Array) -> Array:
        result = destination.copy()
        result[slices] = source.reshape(shape)
        return result

    return run


def pad(op: Any, scope: Scope) -> Kernel:
    """`tensor.pad` with one value, which may be defined outside or inside its region."""
    if len(op.low) + len(op.high):
        raise UnsupportedError("found dynamic padding, expected static padding")
    branch = scope.branch(op.region.block)
    pairs = tuple(zip(op.static_low.get_values(), op.static_high.get_values(), strict=True))

    def run(x: Array, *captured: Array) -> Array:
        shape = [low + size + high for (low, high), size in zip(pairs, x.shape, strict=True)]
        indices = [np.zeros((), np.int64) for _ in pairs]
        result = np.full(shape, branch(indices, captured)[0], x.dtype)
        inside = tuple(slice(low, low + size) for (low, _), size in zip(pairs, x.shape, strict=True))
        result[inside] = x
        return result

    return run

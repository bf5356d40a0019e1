"""Verification of a quantized type against the tensor that holds it, with upstream MLIR's messages.

Source: the "'quant' Dialect" document, sections "Per-axis quantization integrity" and "Sub-channel quantization
integrity". Each function raises VerifyException.
"""

from __future__ import annotations

from typing import cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, MemRefType, TensorType, UnrankedTensorType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant.types import QuantizedType, UniformQuantizedType


def check_holder(found: Attribute) -> None:
    """Check that a quantized element type is in a tensor, not in a vector or memref, which xDSL accepts."""
    held = cast("VectorType[Attribute]", found).element_type if isinstance(found, VectorType | MemRefType) else None
    if not isinstance(held, QuantizedType):
        return
    if isinstance(found, MemRefType):
        raise VerifyException("invalid memref element type")
    raise VerifyException("failed to verify 'elementType': VectorElementTypeInterface instance")


def is_tensor(found: Attribute) -> bool:
    """Whether a type is a ranked or unranked tensor."""
    return isinstance(found, TensorType | UnrankedTensorType)


def ranked_shape(found: Attribute) -> tuple[int, ...] | None:
    """The shape of a ranked tensor, DYNAMIC_INDEX for a dynamic dimension; None for any other type."""
    return cast("TensorType[Attribute]", found).get_shape() if isinstance(found, TensorType) else None


def element_or_self(found: Attribute) -> Attribute:
    """The element type of a tensor; any other type itself."""
    return cast("TensorType[Attribute]", found).element_type if is_tensor(found) else found


def with_scalar(container: Attribute, scalar: Attribute) -> Attribute:
    """The type of the same scalar or tensor with another element type."""
    shape = ranked_shape(container)
    if shape is not None:
        return TensorType(scalar, shape)
    return UnrankedTensorType(scalar) if is_tensor(container) else scalar


def is_typed(value: SSAValue) -> bool:
    """Whether a value has a quantized element type."""
    return isinstance(element_or_self(value.type), UniformQuantizedType)


def shapes_match(one: Attribute, other: Attribute) -> bool:
    """Whether both are scalars, both unranked tensors, or both tensors of one shape, dynamic dimensions included."""
    return is_tensor(one) == is_tensor(other) and ranked_shape(one) == ranked_shape(other)


def check_container(container: Attribute) -> None:
    """Check the quantized type in `container`; a type without axes is always valid."""
    quantized = element_or_self(container)
    if not isinstance(quantized, UniformQuantizedType):
        return
    if quantized.axis is not None:
        _check_per_axis(quantized.axis, len(quantized.data.scales), container)
    elif quantized.blocks is not None:
        _check_sub_channel(quantized.blocks, quantized.data.shape, container)


def _check_per_axis(axis: int, count: int, container: Attribute) -> None:
    if not is_tensor(container):
        raise VerifyException("scalar types may not use per-axis quantization")
    shape = ranked_shape(container)
    if shape is None:
        return
    if axis >= len(shape):
        raise VerifyException("quantized dimension must be less than tensor rank")
    if shape[axis] not in (DYNAMIC_INDEX, count):
        raise VerifyException("quantized dimension size does not match number of scales")


def _check_sub_channel(blocks: tuple[tuple[int, int], ...], counts: tuple[int, ...], container: Attribute) -> None:
    if not is_tensor(container):
        raise VerifyException("scalar types may not use sub-channel quantization")
    shape = ranked_shape(container)
    if shape is None:
        raise VerifyException("tensor containing the sub-channel quantized type must be ranked")
    _check_blocks(blocks, shape)
    if len(counts) != len(shape):
        raise VerifyException(f"Rank of scales {len(counts)} must match the rank of the tensor {len(shape)}")
    _check_counts(dict(blocks), counts, shape)


def _check_blocks(blocks: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> None:
    for axis, size in blocks:
        if axis >= len(shape):
            raise VerifyException(f"quantized dimension {axis} must be less than tensor rank {len(shape)}")
        if shape[axis] != DYNAMIC_INDEX and shape[axis] % size:
            raise VerifyException(
                f"tensor dimension size {shape[axis]} at axis {axis} must be divisible by the corresponding "
                f"block size {size}"
            )
    if 0 in shape:
        raise VerifyException("tensor dimension size of zero is not allowed with sub-channel quantization")


def _check_counts(sizes: dict[int, int], counts: tuple[int, ...], shape: tuple[int, ...]) -> None:
    for axis, (count, size) in enumerate(zip(counts, shape, strict=True)):
        if size == DYNAMIC_INDEX and axis in sizes:
            continue
        expected = size // sizes[axis] if axis in sizes else 1
        if count != expected:
            raise VerifyException(
                f"dimension size {count} of scales tensor at axis {axis} should match (tensor dimension at axis / "
                f"block sizes at axis) = {expected}"
            )

"""Constraints between the quantized operands and results of an op.

Source: the constraints of the StableHLO specification on quantized tensors (add, convolution, dot_general, reshape,
transpose, broadcast_in_dim); the error messages are upstream's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.elements import quantized, same_storage_type
from zeropoint.ir.tensors import element_of, shape_of


def check_add(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """Constraints C1 to C7 of `add`, on element types.

    Raises VerifyException.
    """
    types = [quantized(lhs), quantized(rhs), quantized(result)]
    found = [element for element in types if element is not None]
    if not found:
        if lhs != rhs or lhs != result:
            raise VerifyException("op requires the same element type for all operands and results")
        return
    if len(found) < len(types):
        raise VerifyException("expects  all operands and results to be either quantized or non-quantized")
    first, second, third = found
    if not (same_storage_type(first, second) and same_storage_type(first, third)):
        raise VerifyException("mismatched operands and result quantization storage types")
    if not first.expressed_type == second.expressed_type == third.expressed_type:
        raise VerifyException("mismatched operands and result quantization expressed types")
    _check_add_axes(first, second, third)


def _check_add_axes(lhs: UniformQuantizedType, rhs: UniformQuantizedType, result: UniformQuantizedType) -> None:
    if not (lhs.is_per_channel or rhs.is_per_channel):
        if result.is_per_channel:
            raise VerifyException("result per_axis quantized but none from rhs and lhs are per_axis quantized")
        return
    if not result.is_per_channel:
        raise VerifyException("result is not per_axis quantized but lhs or rhs are")
    for name, operand in (("lhs", lhs), ("rhs", rhs)):
        if operand.is_per_channel and operand.axis != result.axis:
            raise VerifyException(f"quantization_dimension of {name} and result are not same '{operand}' vs '{result}'")


def check_contraction(lhs: Attribute, rhs: Attribute, result: Attribute) -> None:
    """Constraints shared by `convolution` and `dot_general` (C28, C31 to C34 of `convolution`), on element types.

    Raises VerifyException.
    """
    kernel, operand, output = quantized(rhs), quantized(lhs), quantized(result)
    if kernel is None or (operand is None) != (output is None):
        raise VerifyException(
            "rhs should be quantized for quantized operations and is_quantized(lhs)=is_quantized(result) should hold"
        )
    if operand is None or output is None:
        if lhs != kernel.expressed_type or lhs != result:
            raise VerifyException("mismatched rhs quantization expressed type and lhs and result element type")
        return
    if not same_storage_type(operand, kernel):
        raise VerifyException("mismatched lhs and rhs quantization storage types")
    if not operand.expressed_type == kernel.expressed_type == output.expressed_type:
        raise VerifyException("mismatched lhs, rhs and result quantization expressed types")
    if not kernel.is_per_channel and output.is_per_channel:
        raise VerifyException("mismatched rhs and result quantization granularity")


def check_convolution_axes(rhs: Attribute, result: Attribute, kernel_feature: int, output_feature: int) -> None:
    """C29 and C30 of `convolution`: the quantized axis is the output feature dimension.

    Raises VerifyException.
    """
    kernel, output = quantized(rhs), quantized(result)
    if kernel is not None and kernel.is_per_channel and kernel.axis != kernel_feature:
        raise VerifyException("quantization dimension of rhs should be same with kernel_output_feature_dimension")
    if output is not None and output.is_per_channel and output.axis != output_feature:
        raise VerifyException("quantization dimension of result should be same with output_feature_dimension")


def check_dot_kernel(rhs: Attribute, contracting: Sequence[int]) -> None:
    """C15 and C16 of `dot_general`: zero points of the kernel are 0, its axis is not contracted.

    Raises VerifyException.
    """
    kernel = quantized(rhs)
    if kernel is None:
        return
    if any(kernel.data.zero_points):
        points = "Zero points" if kernel.is_per_channel else "Zero point"
        raise VerifyException(f"{points} of rhs should be 0")
    if kernel.axis in contracting:
        raise VerifyException("Quantization dimension of rhs should not be in the contracting dimension of rhs")


def check_same_parameters_per_layer(operand: Attribute, result: Attribute) -> None:
    """Data movement keeps the scale and the zero point.

    Raises VerifyException.
    """
    first, second = quantized(element_of(operand)), quantized(element_of(result))
    if first is None or second is None or first.is_per_channel or second.is_per_channel or first == second:
        return
    raise VerifyException(f"expect same quantization scale and zero_point but got '{operand}' vs '{result}'")


def check_same_parameters(operand: Attribute, result: Attribute) -> None:
    """Data movement keeps scales and zero points; the axis may change.

    Raises VerifyException.
    """
    check_same_parameters_per_layer(operand, result)
    first, second = quantized(element_of(operand)), quantized(element_of(result))
    if first is None or second is None or not (first.is_per_channel and second.is_per_channel):
        return
    # As upstream, compare only up to the length of the shorter list.
    pairs = zip(
        zip(first.data.scales, first.data.zero_points, strict=True),
        zip(second.data.scales, second.data.zero_points, strict=True),
        strict=False,
    )
    if any(one != other for one, other in pairs):
        raise VerifyException(f"expect same quantization scales and zero_points but got '{operand}' vs '{result}'")


def check_reshape_axis(operand: Attribute, result: Attribute) -> None:
    """C3 of `reshape`: the quantized axis keeps its size and its position in the row-major order.

    Raises VerifyException.
    """
    first, second = quantized(element_of(operand)), quantized(element_of(result))
    if first is None or second is None or first.axis is None or second.axis is None:
        return
    shape, new_shape = shape_of(operand), shape_of(result)
    if shape[first.axis] != new_shape[second.axis]:
        raise VerifyException(
            f"expect same quantization dimension size for operand and result '{operand}' and '{result}'"
        )
    before, after = prod(shape[: first.axis]), prod(new_shape[: second.axis])
    if before != after:
        raise VerifyException(
            "product of dimensions before quantization dimension must match between operand and result for "
            f"{before} and {after}"
        )


def check_transpose_axis(operand: Attribute, result: Attribute, permutation: Sequence[int]) -> None:
    """C4 of `transpose`: the quantized axis moves with its dimension.

    Raises VerifyException.
    """
    first, second = quantized(element_of(operand)), quantized(element_of(result))
    if first is None or second is None or first.axis is None or second.axis is None:
        return
    if first.axis != permutation[second.axis]:
        raise VerifyException(
            f"operand quantization_dimension {first.axis} is not same as permutation[{second.axis}] = "
            f"{permutation[second.axis]}"
        )


def check_broadcast_axis(operand: Attribute, result: Attribute, dimensions: Sequence[int]) -> None:
    """C6 of `broadcast_in_dim`: the quantized axis moves with its dimension; a single channel may be broadcast.

    Raises VerifyException.
    """
    first, second = quantized(element_of(operand)), quantized(element_of(result))
    if first is None or second is None or first.axis is None or second.axis is None:
        return
    if second.axis != dimensions[first.axis]:
        raise VerifyException(
            f"result quantization_dimension {second.axis} not same as broadcast_dimensions[{first.axis}] = "
            f"{dimensions[first.axis]}"
        )
    if shape_of(operand)[first.axis] == 1:
        _check_repeated(first, second)


def _check_repeated(operand: UniformQuantizedType, result: UniformQuantizedType) -> None:
    scale, point = operand.data.scales[0], operand.data.zero_points[0]
    for index, (found_scale, found_point) in enumerate(zip(result.data.scales, result.data.zero_points, strict=True)):
        if found_scale != scale:
            raise VerifyException(
                f"mismatch result scale {index} ({found_scale:.6e}) and operand scale 0 ({scale:.6e})"
            )
        if found_point != point:
            raise VerifyException(
                f"mismatch result zero_point {index} ({found_point}) and operand zero_point 0 ({point})"
            )

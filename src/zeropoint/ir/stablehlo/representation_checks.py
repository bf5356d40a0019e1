"""Constraints of `bitcast_convert`.

Source: the StableHLO specification, "bitcast_convert" (C1, C2); the sentences are upstream's.
"""

from __future__ import annotations

from typing import Any, cast

from xdsl.dialects.builtin import DYNAMIC_INDEX, ComplexType
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.elements import compatible_sizes
from zeropoint.ir.tensors import element_of, shape_of


def bit_width(element_type: Attribute) -> int:
    """How many bits an element has: of a complex one, both parts; of a quantized one, its storage."""
    if isinstance(element_type, ComplexType):
        return 2 * bit_width(cast("ComplexType[Any]", element_type).element_type)
    if isinstance(element_type, UniformQuantizedType):
        return element_type.storage.type.width
    return int(cast("Any", element_type).bitwidth)


def check_bitcast_convert(operand: Attribute, result: Attribute) -> None:
    """Check the types of a bitcast_convert.

    Upstream does not look at the last dimensions of a shape that is longer than the other one where both element types
    have one width; this does.

    Raises VerifyException.
    """
    types = (operand, result)
    if isinstance(element_of(operand), ComplexType) != isinstance(element_of(result), ComplexType):  # (C2)
        raise VerifyException(f"cannot convert between real and complex types, but got: '{operand}' and '{result}'")
    smaller, larger = sorted(types, key=lambda found: bit_width(element_of(found)))
    widths = bit_width(element_of(smaller)), bit_width(element_of(larger))
    prefix, shape = shape_of(smaller), shape_of(larger)
    if widths[0] != widths[1]:  # (C1)
        if len(prefix) != len(shape) + 1:
            raise VerifyException(
                f"rank of smaller element type ({len(prefix)}) should be 1 more than rank of larger element type "
                f"({len(shape)}), but {len(prefix)} != {len(shape)} + 1."
            )
        *kept, count = prefix
        prefix = tuple(kept)
        if count != DYNAMIC_INDEX and count * widths[0] != widths[1]:
            raise VerifyException(
                f"requires compatible bit widths. Got: '{operand}' and '{result}', but {widths[0]} * {count} != "
                f"{widths[1]}."
            )
    alike = len(prefix) == len(shape) and all(map(compatible_sizes, prefix, shape))
    if not alike:
        raise VerifyException(
            "operand and result shapes must match except for the innermost dimension of the shape with the smaller "
            f"element type. Got: '{operand}' and '{result}'."
        )

"""Constant weights of lowered contractions, in the narrowest storage that holds them."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, LocationAttr
from xdsl.ir import SSAValue

from zeropoint.ir.stablehlo import ConvertOp
from zeropoint.ir.tensors import Array, element_dtype, with_element
from zeropoint.lower.context import Lowering
from zeropoint.numerics.storage import half_range

NIBBLE, BYTE = 4, 8


def held_weights(
    lowering: Lowering,
    weight: Array,
    element: IntegerType,
    bounds: tuple[int, int] | None = None,
    location: LocationAttr | None = None,
) -> SSAValue:
    """Weights converted to `element` from a constant of 4 bits, 8 bits or `element`, the first that holds `bounds`.

    By default, the bounds are those of the weights.
    """
    low, high = bounds or (int(weight.min(initial=0)), int(weight.max(initial=0)))
    for width in (NIBBLE, BYTE):
        if width < element.width.data and fits_width(low, high, width):
            narrow = lowering.constant(weight.astype(np.int8), location, IntegerType(width))
            return lowering.insert(ConvertOp(narrow, with_element(narrow, element))).result
    return lowering.constant(weight.astype(element_dtype(element)), location)


def fits_width(low: int, high: int, width: int) -> bool:
    """Whether signed integers of `width` bits hold all of low..high."""
    half = half_range(width)
    return -half <= low <= high < half

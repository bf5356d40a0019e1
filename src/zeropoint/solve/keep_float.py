"""Demand that a region stays float, with a reason."""

from __future__ import annotations

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.ir import Attribute, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.quant import NoQuantizedType, QuantizeRegionOp
from zeropoint.ir.tensors import element_of


def keep_float(region: QuantizeRegionOp, why: str) -> None:
    """Demand that a region stays float, and so what comes before it, up to an uneven concatenation (`joins.py`)."""
    region.attributes[FLOAT_REASON] = StringAttr(why)
    region.input_specs = ArrayAttr([_float_spec(value) for value in region.inputs])
    region.output_specs = ArrayAttr([_float_spec(value) for value in region.outputs])


def _float_spec(value: SSAValue) -> Attribute:
    element = element_of(value)
    return NoQuantizedType(element) if isinstance(element, AnyFloat) else element

"""Demand that regions stay float, with a reason."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS, FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.quant import NoQuantizedType, QuantizeRegionOp
from zeropoint.ir.tensors import element_of


def keep_float(region: QuantizeRegionOp, why: str) -> None:
    """Demand that a region stays float, and so the kernels before it, up to an uneven concatenation (`joins.py`)."""
    region.attributes[FLOAT_REASON] = StringAttr(why)
    region.input_specs = ArrayAttr([_float_spec(value) for value in region.inputs])
    region.output_specs = ArrayAttr([_float_spec(value) for value in region.outputs])


def with_float(program: Program, ops: Collection[Operation], why: str) -> Program:
    """A copy in which the regions among `ops` stay float, with a reason; the program itself if there are none.

    Kernels with demands from a recipe are left unchanged.
    """
    kept = {op for op in ops if isinstance(op, QuantizeRegionOp) and DEMANDS not in op.attributes}
    places = [place for place, op in enumerate(program.entry.ops) if op in kept]
    if not places:
        return program
    program = program.for_change()
    changed = list(program.entry.ops)
    for place in places:
        region = changed[place]
        assert isinstance(region, QuantizeRegionOp)
        keep_float(region, why)
    return program


def _float_spec(value: SSAValue) -> Attribute:
    element = element_of(value)
    return NoQuantizedType(element) if isinstance(element, AnyFloat) else element

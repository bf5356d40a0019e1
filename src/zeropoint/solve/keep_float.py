"""Demand that regions stay float, with a reason."""

from __future__ import annotations

from collections.abc import Collection

from xdsl.dialects.builtin import AnyFloat, ArrayAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from zeropoint.ir.annotations import DEMANDS, FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.quant import NoQuantizedType, QuantizeRegionOp
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import element_of
from zeropoint.solve.classes import real_range
from zeropoint.solve.constraints import Constraints
from zeropoint.targets import Target


def keep_float(region: QuantizeRegionOp, why: str) -> None:
    """Demand that a region stays float, and the kernels before it, up to an uneven concatenation: `parts/joins.py`."""
    region.attributes[FLOAT_REASON] = StringAttr(why)
    region.input_specs = ArrayAttr([_float_spec(value) for value in region.inputs])
    region.output_specs = ArrayAttr([_float_spec(value) for value in region.outputs])


def keep_real(region: QuantizeRegionOp, index: int) -> None:
    """Demand that one operand of a region stays float. Its target has to have kernels that read it so."""
    specs = list(region.input_specs.data)
    specs[index] = _float_spec(region.inputs[index])
    region.input_specs = ArrayAttr(specs)


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


def state_fixed_ranges(program: Program, constraints: Constraints, target: Target) -> None:
    """State the ranges of results that stay float by demand, but whose kernel always gives them one type, in place.

    Calibration does not observe them, and kernels that quantize them need a range.
    """
    for region in regions_of(program):
        row = next(iter(target.by_kernel.get(region.logical_kernel.data, ())), None)
        for number, (result, spec) in enumerate(zip(region.outputs, region.output_specs, strict=True)):
            known = constraints.get(result)
            fixed = None if row is None else row.fixed(~number, row.rule(~number).storage)
            if isinstance(spec, NoQuantizedType) and fixed is not None and (known is None or known.minimum is None):
                constraints.of(result).observe(*real_range(fixed), "default", f"kernel {region.logical_kernel.data}")


def _float_spec(value: SSAValue) -> Attribute:
    element = element_of(value)
    return NoQuantizedType(element) if isinstance(element, AnyFloat) else element

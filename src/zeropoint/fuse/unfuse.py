"""Inlines every region, with casts for its quantized specs, so that fusion can run again for another target.

```mlir
%0 = "quant.region"(%x) ({ tanh }) {logical_kernel = "tanh", input_specs = [f32],
       output_specs = [!quant.uniform<i8:f32, 7.812500e-03>]} : (tensor<4xf32>) -> tensor<4xf32>
```
becomes
```mlir
%0 = stablehlo.tanh %x : tensor<4xf32>
%1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 7.812500e-03>>
%2 = quant.dcast %1 : tensor<4x!quant.uniform<i8:f32, 7.812500e-03>> to tensor<4xf32>
```
A spec that is the float type itself adds no cast. Statistics stay where they are. Requirements of the old target do not
constrain the new one: its rescales are removed, and casts to types that its kernels fix are marked
(`zeropoint.of_target`), so that propagation uses only their range and chooses a type again.

Source: the RFC on quantization transformations, "Kernel fusion pass": the decision can be reversed by restoring the
high-precision ops with appropriate casts.
"""

from __future__ import annotations

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation
from xdsl.rewriter import Rewriter

from zeropoint.fuse.statements import reroute
from zeropoint.ir.annotations import OF_TARGET, RESCALE, facts_name, facts_of
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    QuantizedType,
    QuantizeRegionOp,
)
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import with_element


def _insert(op: IRDLOperation, region: QuantizeRegionOp) -> SSAValue:
    """Insert an op before a region, with its location."""
    op.location = region.location
    assert region.parent is not None
    region.parent.insert_op_before(op, region)
    return op.results[0]


def _cast(value: SSAValue, spec: Attribute, region: QuantizeRegionOp) -> SSAValue:
    """The value cast to the type of a spec and back; the value itself if that changes nothing."""
    if not isinstance(spec, QuantizedType) or spec.expressed_type is None:
        return value
    quantized = with_element(value, spec)
    made = value.owner
    if isinstance(made, DequantizeCastOp) and made.input.type == quantized:
        return value
    return _insert(DequantizeCastOp(_insert(QuantizeCastOp(value, quantized), region), value.type), region)


def _wanted_by(region: QuantizeRegionOp, name: str, number: int) -> str | None:
    """The salience of the last fact named `name` on a result of a region; None without one."""
    found = [fact.salience for fact in facts_of(region, facts_name(number)) if fact.name == name]
    return found[-1] if found else None


def _is_of_target(region: QuantizeRegionOp, number: int = 0) -> bool:
    """Whether the old target alone determined the type of a result: its kernel or one of its rescales requires it."""
    return _wanted_by(region, "required" if RESCALE in region.attributes else "parameters", number) == "kernel"


def _given(value: SSAValue, region: QuantizeRegionOp, number: int) -> SSAValue:
    """A result of a region after its casts, which are marked if the old target alone determined the type."""
    cast = _cast(value, region.output_specs.data[number], region)
    if cast is not value and _is_of_target(region, number) and isinstance(cast.owner, DequantizeCastOp):
        cast.owner.attributes[OF_TARGET] = UnitAttr()
    return cast


def _inline(region: QuantizeRegionOp, free: set[tuple[QuantizeRegionOp, int]]) -> None:
    if RESCALE in region.attributes and _is_of_target(region):
        Rewriter.replace_op(region, [], [region.inputs[0]])
        return
    inline_region(
        region,
        operand=lambda value, n: value if (region, n) in free else _cast(value, region.input_specs.data[n], region),
        result=lambda value, n: _given(value, region, n),
    )


def unfuse(program: Program) -> Program:
    """A copy without regions and without the rescales that only the old target required."""
    program = program.clone()
    regions = regions_of(program)
    free = {
        (region, index)
        for region in regions
        for index, value in enumerate(region.inputs)
        if isinstance(value.owner, QuantizeRegionOp)
        and RESCALE in value.owner.attributes
        and _is_of_target(value.owner)
    }
    for region in regions:
        _inline(region, free)
    reroute(program)
    remove_dead_ops(program.entry)
    return program

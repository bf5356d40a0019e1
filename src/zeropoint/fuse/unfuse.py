"""Inline every region, with casts where its specs say something, so that fusion can run again, for another target.

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
A spec that is the float type itself leaves no cast. Statistics stay where they are.

Source: the RFC on quantization transformations, "Kernel fusion pass": the decision can be reversed by restoring the
high-precision ops with appropriate casts.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import IRDLOperation

from zeropoint.fuse.statements import reroute
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.inlining import inline_region
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizedType, QuantizeRegionOp
from zeropoint.ir.tensors import with_element


def _insert(op: IRDLOperation, region: QuantizeRegionOp) -> SSAValue:
    """Put an op before a region, under its name."""
    op.location = region.location
    assert region.parent is not None
    region.parent.insert_op_before(op, region)
    return op.results[0]


def _cast(value: SSAValue, spec: Attribute, region: QuantizeRegionOp) -> SSAValue:
    """The value through a cast to the type of a spec and back; the value itself where that changes nothing."""
    if not isinstance(spec, QuantizedType) or spec.expressed_type is None:
        return value
    quantized = with_element(value, spec)
    made = value.owner
    if isinstance(made, DequantizeCastOp) and made.input.type == quantized:
        return value
    return _insert(DequantizeCastOp(_insert(QuantizeCastOp(value, quantized), region), value.type), region)


def _inline(region: QuantizeRegionOp) -> None:
    inline_region(
        region,
        operand=lambda value, n: _cast(value, region.input_specs.data[n], region),
        result=lambda value, n: _cast(value, region.output_specs.data[n], region),
    )


def unfuse(program: Program) -> Program:
    """A program without regions."""
    program = program.clone()
    regions: list[Operation] = [op for op in program.entry.ops if isinstance(op, QuantizeRegionOp)]
    for region in regions:
        assert isinstance(region, QuantizeRegionOp)
        _inline(region)
    reroute(program)
    remove_dead_ops(program.entry)
    return program

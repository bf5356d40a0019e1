"""Inserts casts around regions according to their specs: the (dcast -> op -> qcast) form.

```mlir
%1 = "quant.region"(%0, %w) ... {input_specs = [A, W], output_specs = [B]}
```
becomes
```mlir
%q = quant.qcast %0 : tensor<...xf32> to tensor<...xA>
%d = quant.dcast %q : tensor<...xA> to tensor<...xf32>
(the same for %w with W)
%1 = "quant.region"(%d, %e) ... {input_specs = [A, W], output_specs = [B]}
%r = quant.qcast %1 : tensor<...xf32> to tensor<...xB>
%s = quant.dcast %r : tensor<...xB> to tensor<...xf32>
```
The program simulates the quantized one in float. Materialization rewrites (dcast -> region -> qcast) to the quantized
op, and (constant -> qcast) to the quantized constant.

Source: "MLIR Quantization", section "TFLite Native Quantization", general algorithm.
"""

from __future__ import annotations

from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import OpResult, SSAValue

from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import with_element
from zeropoint.materialize.edges import quantized_before


def _pair(
    value: SSAValue, quantized: UniformQuantizedType, location: LocationAttr
) -> tuple[QuantizeCastOp, DequantizeCastOp]:
    stored = QuantizeCastOp(value, with_element(value, quantized))
    real = DequantizeCastOp(stored.result, value.type)
    stored.location = real.location = location
    return stored, real


def insert_casts(program: Program) -> Program:
    """A copy with casts at every region port that has a uniform type. There is one pair per value and type."""
    program = program.clone()
    block = program.entry
    made: dict[tuple[SSAValue, UniformQuantizedType], SSAValue] = {}
    for region in [op for op in block.ops if isinstance(op, QuantizeRegionOp)]:
        for index, (value, spec) in enumerate(zip(list(region.inputs), region.input_specs, strict=True)):
            if not isinstance(spec, UniformQuantizedType) or quantized_before(value, spec) is not None:
                continue
            if (value, spec) not in made:
                location = value.op.location if isinstance(value, OpResult) else region.location
                stored, real = _pair(value, spec, location)
                block.insert_ops_before([stored, real], region)
                made[value, spec] = real.result
            region.operands[index] = made[value, spec]
        for output, spec in zip(region.outputs, region.output_specs, strict=True):
            if isinstance(spec, UniformQuantizedType):
                stored, real = _pair(output, spec, region.location)
                block.insert_ops_after([stored, real], region)
                output.replace_uses_with_if(real.result, lambda use, own=stored: use.operation is not own)
    return program

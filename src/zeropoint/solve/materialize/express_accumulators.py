"""Give floats the accumulators of a contraction where nothing else reads its result.

```mlir
%2 = stablehlo.add %1, %b : tensor<4x8x!quant.uniform<i32:f32:1, {0.05,0.1,...}>>
%3 = stablehlo.uniform_quantize %2 : (...) -> tensor<4x8x!quant.uniform<i8:f32, 0.02:-128>>
%4 = stablehlo.uniform_dequantize %3 : (...) -> tensor<4x8xf32>
```
becomes
```mlir
%2 = stablehlo.add %1, %b : tensor<4x8x!quant.uniform<i32:f32:1, {0.05,0.1,...}>>
%4 = stablehlo.uniform_dequantize %2 : (...) -> tensor<4x8xf32>
```
Rounding to 8 bits would only lose what the accumulators know. Results of the program keep their storage, which callers
may ask for; so do products of two activations and depthwise convolutions, which native code gives in 8 bits only.

Source: the RFC on quantization transformations, section "Export", code-gen kernel targets: extra primitives are
eliminated.
"""

from __future__ import annotations

from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.annotations import FACTS, Fact, facts_of, state_facts
from zeropoint.ir.constants import is_constant
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import AddOp, ConvolutionOp, DotGeneralOp, UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_of

EXACT = Fact("parameters", "f32", "kernel", "only floats read it: expressed from the accumulators")


def _express(op: UniformQuantizeOp) -> None:
    """Let the dequantizations of a narrowed sum of products read the sum itself."""
    readers = [use.operation for use in op.result.uses]
    if not _is_sum_of_products(op.operand) or not readers or not all(map(_is_for_floats, readers)):
        return
    for reader in readers:
        reader.operands[0] = op.operand
        if FACTS in op.attributes:
            state_facts(reader, [*(fact for fact in facts_of(op) if fact.name == "kernel"), EXACT])


def _is_for_floats(reader: Operation) -> bool:
    return isinstance(reader, UniformDequantizeOp) and not any(
        isinstance(use.operation, ReturnOp) for use in reader.result.uses
    )


def _is_sum_of_products(value: SSAValue) -> bool:
    """Whether a value is a contraction with constant weights, biases added, stored in i32."""
    kind, op = element_of(value), value.owner
    if not isinstance(kind, UniformQuantizedType) or kind.storage.type.width != 32:
        return False
    if isinstance(op, AddOp):
        return _is_sum_of_products(op.lhs) or _is_sum_of_products(op.rhs)
    if isinstance(op, ConvolutionOp):
        return int(op.feature_group_count.value.data) == 1 and is_constant(op.rhs)
    return isinstance(op, DotGeneralOp) and is_constant(op.rhs)


def express_accumulators(program: Program) -> Program:
    """Every narrowed sum of products that only float ops read, expressed from its accumulators."""
    program = program.clone()
    for op in program.entry.ops:
        if isinstance(op, UniformQuantizeOp):
            _express(op)
    remove_dead_ops(program.entry)
    return program

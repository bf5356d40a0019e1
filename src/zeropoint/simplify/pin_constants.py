"""Remove simulated quantization of constants, and pin the constants to its parameters.

```mlir
%w = stablehlo.constant dense<[1.0, -0.5]> : tensor<2xf32>
%q = quant.qcast %w : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
%d = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
```
becomes
```mlir
%d = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[1.0, -0.5]> : tensor<2xf32>
```
with the values that quantization rounds to, so that fusion patterns see a constant. The storage range excludes the
least integer if it is unused, because kernels require weights of a narrow range. A sub-channel type that has one scale
per channel becomes the per-channel type.

Source: "MLIR Quantization", section "TFLite Native Quantization": (constant_float -> Q) becomes (constant_quant); the
RFC on quantization transformations: emulation ops of training are converted to uniform quantized types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, UniformQuantizedType, dequantize, stored_array
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


def _narrowed(pinned: UniformQuantizedType, stored: Array) -> UniformQuantizedType:
    """The type with a narrow range if the least storage value is unused."""
    kind = pinned.storage.type
    least_used = pinned.storage.minimum > kind.min or bool((stored == kind.min).any())
    if least_used or kind.width > 16 or bool((pinned.zero_points == kind.min).any()):
        return pinned
    storage = Storage(kind, kind.narrow_min, pinned.storage.maximum, pinned.storage.spelling)
    return UniformQuantizedType(replace(pinned.data, storage=storage))


def _simulated(op: object, weights: Weights) -> tuple[SSAValue, Array, Attribute] | None:
    """For `dcast(qcast(constant))`, the constant, its array and the quantized element type; None otherwise."""
    if not isinstance(op, DequantizeCastOp | UniformDequantizeOp):
        return None
    made = op.operands[0].owner
    if not isinstance(made, QuantizeCastOp | UniformQuantizeOp) or made.operands[0].type != op.results[0].type:
        return None
    array = constant_array(made.operands[0], weights)
    return None if array is None else (made.operands[0], array, element_of(op.operands[0]))


@dataclass
class PinConstant(RewritePattern):
    """dcast(qcast(constant)) -> the dequantized constant, with its type pinned."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one cast back to floats."""
        simulated = _simulated(op, self.weights)
        if simulated is None:
            return
        constant, array, pinned = simulated
        if not isinstance(pinned, UniformQuantizedType):
            return
        stored = stored_array(array, pinned)
        real = dequantize(stored, pinned, expressed=np.float64).astype(element_dtype(element_of(constant)))
        made = constant_op(real, self.weights, location=op.location)
        made.attributes[PINNED] = _narrowed(pinned.normalized, stored)
        hint = constant.name_hint or made.output.name_hint
        rewriter.replace(op, made)
        made.output.name_hint = hint


def pin_constants(program: Program) -> Program:
    """Pin all constants with simulated quantization, per layer, per channel or per block."""
    if all(_simulated(op, program.weights) is None for op in program.entry.ops):
        return program
    program = program.clone()
    rewrite(program, PinConstant(program.weights))
    remove_dead_ops(program.entry)
    return program

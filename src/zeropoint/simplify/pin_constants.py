"""Removes simulated quantization of constants, and pins the constants to its parameters.

```mlir
%w = stablehlo.constant dense<[1.0, -0.5]> : tensor<2xf32>
%q = quant.qcast %w : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
%d = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
```
becomes
```mlir
%d = stablehlo.constant {zeropoint.pinned = !quant.uniform<i8<-127:127>:f32, 0.5>} dense<[1.0, -0.5]> : tensor<2xf32>
```
with the dequantized values, so that fusion patterns see a constant. A `stablehlo.constant` of a `!quant.uniform` type,
and `quant.scast` or `stablehlo.bitcast_convert` of integer constants to one, are pinned likewise if they are cast to
floats or are the weight of a contraction of floats.

The storage range excludes the least integer if it is unused, because kernels require weights of a narrow range. A
sub-channel type with one scale per channel becomes the per-channel type.

Source: "MLIR Quantization", section "TFLite Native Quantization": (constant_float -> Q) becomes (constant_quant); the
RFC on quantization transformations: emulation ops of training are converted to uniform quantized types.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import AnyFloat
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_op, is_wide, with_rest
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.locations import location_of
from zeropoint.ir.mapped import result_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, Storage, UniformQuantizedType, dequantize, stored_array
from zeropoint.ir.quantized_constants import quantized_constant
from zeropoint.ir.stablehlo import BroadcastInDimOp, ConvolutionOp, DotGeneralOp, UniformDequantizeOp
from zeropoint.ir.tensors import Array, element_dtype, element_of
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite


def _narrowed(pinned: UniformQuantizedType, stored: Array) -> UniformQuantizedType:
    """The type with a narrow storage range if the least storage value is unused."""
    kind = pinned.storage.type
    least_used = pinned.storage.minimum > kind.min or bool((stored == kind.min).any())
    if least_used or kind.width > 16 or bool((pinned.zero_points == kind.min).any()):
        return pinned
    storage = Storage(kind, kind.narrow_min, pinned.storage.maximum, pinned.storage.spelling)
    return UniformQuantizedType(replace(pinned.data, storage=storage))


def _quantized(value: SSAValue, weights: Weights) -> tuple[Array, UniformQuantizedType] | None:
    """Storage integers and element type of a quantized constant; None for other values.

    A quantized broadcast of a number is not one: its cast is a statement about an activation.
    """
    found, owner = quantized_constant(value, weights, stored_array), value.owner
    is_broadcast = isinstance(owner, Operation) and any(isinstance(v.owner, BroadcastInDimOp) for v in owner.operands)
    return None if is_broadcast else found


def _read_as_float(op: Operation) -> tuple[SSAValue, Attribute] | None:
    """The quantized value that an op reads as floats, and the element type of the floats; None without one."""
    if isinstance(op, DequantizeCastOp | UniformDequantizeOp):
        return op.operands[0], element_of(op.results[0])
    if isinstance(op, ConvolutionOp | DotGeneralOp) and isinstance(element_of(op.lhs), AnyFloat):
        return op.rhs, element_of(op.lhs)
    return None


@dataclass
class PinConstant(RewritePattern):
    """A quantized constant that is read as floats -> the dequantized constant, with its type pinned."""

    weights: Weights

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        """Rewrite one cast back to floats, or the weight of one contraction."""
        read = _read_as_float(op)
        found = None if read is None else _quantized(read[0], self.weights)
        if read is None or found is None:
            return
        (value, element), (stored, pinned) = read, found
        reals = partial(dequantize, quantized=pinned, expressed=np.float64, dtype=element_dtype(element))
        again = partial(result_of, reals, stored)
        is_cast = isinstance(op, DequantizeCastOp | UniformDequantizeOp)
        made = constant_op(
            again(), self.weights, location=location_of(op.results[0] if is_cast else value), again=again
        )
        made.attributes[PINNED] = _narrowed(pinned.normalized, stored)
        if pinned.storage.is_integer and is_wide(stored):
            with_rest(made, dequantize(stored, pinned, expressed=np.float64, dtype=np.float64), self.weights)
        made_of = value.owner.operands if isinstance(value.owner, Operation) else ()
        given = made_of[0] if made_of else value
        hint = given.name_hint or made.output.name_hint
        if is_cast:
            rewriter.replace(op, made)
        else:
            rewriter.insert(made)
            op.operands[1] = made.output
        made.output.name_hint = hint


def pin_constants(program: Program) -> Program:
    """Pin all quantized constants that floats read, per layer, per channel or per block."""
    read = filter(None, map(_read_as_float, program.entry.ops))
    if all(_quantized(value, program.weights) is None for value, _ in read):
        return program
    program = program.for_change()
    rewrite(program, PinConstant(program.weights))
    remove_dead_ops(program.entry)
    return program

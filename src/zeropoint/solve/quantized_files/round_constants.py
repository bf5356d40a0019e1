"""Round constants to a quantized type as files say, in f32.

```mlir
%0 = stablehlo.constant dense<[-4.25, 1.0]> : tensor<2xf32>
%1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 3.333333e-02>>
```
becomes
```mlir
%0 = stablehlo.constant dense<[-4.26666641, 1.0]> : tensor<2xf32>      -128 and 30 times the scale
%1 = quant.qcast %0 : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 3.333333e-02>>
```
Later passes compute stored integers in f64. Files of quantization-aware training have scales such as max / 127.5: then
the ratio in f32 is the middle of two integers, and the exact one is a little below it. OpenVINO quantizes constants
between the ends of the type's range, which gives the integers of the exact ratio there, but others elsewhere.

Source: the ONNX operator specification, "QuantizeLinear", which divides in the type of the operand; StableHLO,
`uniform_quantize`; the reference of OpenVINO's FakeQuantize, with which it folds constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from xdsl.dialects.builtin import f32
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    QuantizeCastOp,
    UniformQuantizedType,
    dequantize,
    quantize,
    stored_array,
)
from zeropoint.ir.quant.evaluate import element_parameters
from zeropoint.ir.stablehlo import UniformQuantizeOp
from zeropoint.ir.tensors import element_of
from zeropoint.ir.weights import Weights
from zeropoint.numerics.arrays import AnyArray
from zeropoint.numerics.openvino import stored_constants
from zeropoint.numerics.profile import KernelBehaviour
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.targets import Target

WIDEST = 16
"""f32 holds ratios for this many bits. Integers of 32 bits are those of biases, which files store."""


ConstantRounding = Callable[[AnyArray, UniformQuantizedType], AnyArray]
"""How a runtime quantizes a constant of a file to stored integers."""


def _in_steps(array: AnyArray, kind: UniformQuantizedType) -> AnyArray:
    """By the ratio of the constant and the scale, in f32."""
    return quantize(array, kind)


def _between_ends(array: AnyArray, kind: UniformQuantizedType) -> AnyArray:
    """By the ends of the type's range, in f32."""
    scales, points = element_parameters(array.shape, kind)
    storage = kind.storage
    stored = stored_constants(array, storage.range, scales.astype(np.float32), points)
    return np.clip(stored, storage.minimum, storage.maximum).astype(storage.dtype)


ROUNDINGS: Mapping[KernelBehaviour, ConstantRounding] = dict.fromkeys(
    (KernelBehaviour.OPENVINO, KernelBehaviour.OPENVINO_AMX), _between_ends
)
"""Of the runtimes that do not divide by the scale."""


def _round(op: QuantizeCastOp | UniformQuantizeOp, weights: Weights, rule: ConstantRounding) -> None:
    """Replace the operand of a cast if its integers differ."""
    source, kind = op.operands[0], element_of(op.results[0])
    array = constant_array(source, weights)
    if array is None or element_of(source) != f32 or not isinstance(kind, UniformQuantizedType):
        return
    if not kind.storage.is_integer or kind.storage.type.width > WIDEST:
        return
    stored = rule(array, kind)
    if np.array_equal(stored, stored_array(array, kind)):
        return
    made = constant_op(dequantize(stored, kind, expressed=np.float32), weights, location=op.location)
    made.output.name_hint = source.name_hint
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.operands[0] = made.output


def round_constants(program: Program, target: Target) -> Program:
    """A copy in which quantized constants are the real numbers of the integers that a file's runtime has."""
    casts = [op for op in program.entry.ops if isinstance(op, QuantizeCastOp | UniformQuantizeOp)]
    if not casts:
        return program
    rule = ROUNDINGS.get(named_profile(target.profile).kernels, _in_steps)
    program = program.for_change()
    for op in list(program.entry.ops):
        if isinstance(op, QuantizeCastOp | UniformQuantizeOp):
            _round(op, program.weights, rule)
    return program

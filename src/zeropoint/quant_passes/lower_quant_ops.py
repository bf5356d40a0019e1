"""Lowers `quant.qcast` and `quant.dcast` to arith, math, tensor, linalg and shape ops.

```mlir
%q = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.0:3>
```
becomes, under a profile that rounds to nearest even after adding the zero point,
```mlir
%0 = arith.divf %x, %scale : f32
%1 = arith.addf %0, %zero_point : f32
%2 = math.roundeven %1 : f32
// NaN to the zero point
%3 = arith.maximumf %2, %storage_min : f32
%4 = arith.minimumf %3, %storage_max : f32
%5 = arith.fptosi %4 : f32 to i8
%q = quant.scast %5 : i8 to !quant.uniform<i8:f32, 2.0:3>
```
Under profile `upstream`, the ops are exactly those of C++ MLIR's `lower-quant-ops`: they truncate towards 0 and do not
clamp to a full storage range, so numbers out of that range give poison.

Source: the "'quant' Dialect" document, sections `quant.qcast` and `quant.dcast`; the profiles of `zeropoint.numerics`.
"""

from __future__ import annotations

from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import own_profile
from zeropoint.ir.locations import describe
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.casts import is_signless
from zeropoint.ir.quant.containers import element_or_self, with_scalar
from zeropoint.ir.weights import Weights
from zeropoint.numerics.affine import QuantizeBehaviour
from zeropoint.numerics.profile import CAST_PROFILE
from zeropoint.numerics.profile import profile as named_profile
from zeropoint.quant_passes.affine import dequantize, quantize_as_upstream, quantize_scalar
from zeropoint.quant_passes.containers import Conversion, ConvertNumbers, convert_value
from zeropoint.quant_passes.emitter import Emitter
from zeropoint.quant_passes.errors import LoweringError


def _storable(op: Operation, value: SSAValue) -> UniformQuantizedType:
    """The uniform type of a value, if `quant.scast` can convert it to integers. Raises LoweringError otherwise."""
    found = element_or_self(value.type)
    if not isinstance(found, UniformQuantizedType):
        raise LoweringError(f"{describe(op)}: found type {found}, which has no scale; expected !quant.uniform", op)
    if not is_signless(found.storage.mlir_type):
        raise LoweringError(
            f"{describe(op)}: found storage type {found.storage}, which quant.scast cannot reach; "
            f"expected i1 to i32 or u1 to u32",
            op,
        )
    return found


def _quantizer(behaviour: QuantizeBehaviour) -> ConvertNumbers:
    if behaviour is QuantizeBehaviour.TRUNCATE_NO_CLAMP:
        return quantize_as_upstream
    return lambda ops, value, parameters: quantize_scalar(ops, value, parameters, behaviour)


def _lower_quantize(op: QuantizeCastOp, behaviour: QuantizeBehaviour, weights: Weights) -> None:
    quantized = _storable(op, op.result)
    on_tensors = behaviour is QuantizeBehaviour.TRUNCATE_NO_CLAMP
    conversion = Conversion(quantized, quantized.storage.mlir_type, _quantizer(behaviour), on_tensors, weights)
    emit = Emitter(Builder(InsertPoint.before(op)), op.location)
    stored = convert_value(emit, op.input, conversion)
    _replace(op, emit.value(StorageCastOp(stored, op.result.type)))


def _lower_dequantize(op: DequantizeCastOp, weights: Weights) -> None:
    quantized = _storable(op, op.input)
    conversion = Conversion(quantized, quantized.expressed_type, dequantize, True, weights)
    emit = Emitter(Builder(InsertPoint.before(op)), op.location)
    stored = emit.value(StorageCastOp(op.input, with_scalar(op.input.type, quantized.storage.mlir_type)))
    _replace(op, convert_value(emit, stored, conversion))


def _replace(op: Operation, value: SSAValue) -> None:
    Rewriter.replace_op(op, [], [value])


def lower_quant_ops(program: Program, profile: str | None = None) -> Program:
    """Replace every `quant.qcast` and `quant.dcast`; `quant.scast` stays.

    `profile` names the rounding and clamping. It defaults to the op's own profile, else the program's, else
    `float32-rne`. Raises LoweringError for a type without a scale or without signless integer storage, and ValueError
    for an unknown profile.
    """
    program = program.clone()
    default = named_profile(profile or program.profile or CAST_PROFILE)
    for op in list(program.module.walk()):
        if isinstance(op, QuantizeCastOp):
            own = own_profile(op) if profile is None else None
            _lower_quantize(op, (default if own is None else named_profile(own)).quantize, program.weights)
        elif isinstance(op, DequantizeCastOp):
            _lower_dequantize(op, program.weights)
    return program

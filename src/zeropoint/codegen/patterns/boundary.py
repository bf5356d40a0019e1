"""Single ops that become kernels: quantize and dequantize at the edges of a program, and sums and lookups of i8."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from zeropoint.codegen.kernels.quantize import QUANTIZES
from zeropoint.codegen.patterns.match import Declined, Match
from zeropoint.codegen.values import Values
from zeropoint.ir.annotations import profile_of
from zeropoint.ir.fxpmath import TableOp, WeightedSumOp
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import element_dtype, element_of
from zeropoint.numerics.affine import QuantizeBehaviour


def _bytes(*values: SSAValue) -> bool:
    return all(element_dtype(element_of(value)) == np.int8 for value in values)


def match_bytes(values: Values, op: WeightedSumOp | TableOp) -> Match | Declined:
    """A weighted sum of i8 values, or a table lookup from i8 to i8."""
    if not _bytes(*op.operands, op.result) or (isinstance(op, TableOp) and values.constant(op.table) is None):
        return Declined("found elements other than i8, or a computed table")
    return Match("bytes", (op.result,), tuple(dict.fromkeys(op.operands[:1] if isinstance(op, TableOp) else op.inputs)))


def match_quantize(values: Values, op: UniformQuantizeOp) -> Match | Declined:
    """Quantize floats that are inputs or results of previous kernels."""
    type_ = element_of(op.result)
    if not isinstance(type_, UniformQuantizedType) or type_.is_per_channel:
        return Declined("found per-channel scales")
    behaviour = profile_of(op, values.program.profile).quantize
    if behaviour not in QUANTIZES or behaviour is QuantizeBehaviour.RNE_NAN_IS_STORED_ZERO:
        return Declined(f"found rounding '{behaviour.value}'")
    if not values.has(op.operand):
        return Declined("found floats that are not computed yet, expected computed ones", True)
    if element_dtype(element_of(op.operand)) != np.float32 or type_.storage.dtype != np.int8:
        return Declined("found elements other than f32 and i8")
    return Match("quantize", (op.result,), (op.operand,))


def match_express(values: Values, op: UniformDequantizeOp) -> Match | Declined:
    """Dequantize stored integers to floats that the program returns."""
    type_ = element_of(op.operand)
    if not isinstance(type_, UniformQuantizedType) or type_.is_per_channel or not _bytes(op.operand):
        return Declined("found per-channel scales, or elements other than i8")
    if not values.is_only_returned(op.result) or element_dtype(element_of(op.result)) != np.float32:
        return Declined("found floats that a kernel reads, expected f32 that is only returned", True)
    if not values.has(op.operand):
        return Declined("found integers that are not computed yet, expected computed ones", True)
    return Match("dequantize", (op.result,), (op.operand,))

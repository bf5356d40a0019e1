"""Constants that a program has as stored integers and dequantizes: reads their integers, types and reals.

%w = quant.scast (constant)             : tensor<96x24xi4> to tensor<96x24x!quant.uniform<i4:f32:{0:32, 1:1}, {...}>>
%r = quant.dcast %w                     : the value to read; or stablehlo.uniform_dequantize

The constant may also be one of a quantized type, or one of floats that `quant.qcast` or `uniform_quantize` rounds.
"""

from __future__ import annotations

import numpy as np
from xdsl.ir import OpResult, SSAValue

from zeropoint.ir.annotations import own_profile
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.quant import (
    DequantizeCastOp,
    QuantizeCastOp,
    StorageCastOp,
    UniformQuantizedType,
    dequantize,
    quantize,
)
from zeropoint.ir.stablehlo import UniformDequantizeOp, UniformQuantizeOp
from zeropoint.ir.tensors import Array, element_of
from zeropoint.numerics.profile import DEFAULT_PROFILE

_Rounding = QuantizeCastOp | UniformQuantizeOp


def stored_constant(program: Program, value: SSAValue) -> tuple[Array, UniformQuantizedType] | None:
    """The stored integers and the type of a constant that a program dequantizes; None for other values."""
    owner = _owner(value)
    if not isinstance(owner, UniformDequantizeOp | DequantizeCastOp):
        return None
    held = owner.operands[0]
    kind, source = element_of(held), _owner(held)
    if not isinstance(kind, UniformQuantizedType):
        return None
    given = source.operands[0] if isinstance(source, _Rounding | StorageCastOp) else held
    array = constant_array(given, program.weights)
    if array is None:
        return None
    if isinstance(source, _Rounding):
        array = quantize(array, kind, _profile(program, source))
    elif isinstance(source, StorageCastOp) and not kind.storage.type.signed:
        # The integers of a cast are signless: `i4` holds the bits of `u4`.
        array = array.astype(np.int64) & ((1 << kind.storage.type.width) - 1)
    return array, kind


def _profile(program: Program, op: _Rounding) -> str:
    """The profile that rounds; casts of the quant dialect are not those of StableHLO (`interp/quantized.py`)."""
    name = own_profile(op) or program.profile or DEFAULT_PROFILE
    return "float32-rne" if isinstance(op, QuantizeCastOp) and name == DEFAULT_PROFILE else name


def dequantized_constant(program: Program, value: SSAValue) -> Array | None:
    """The reals of a constant that a program dequantizes; None for other values."""
    found = stored_constant(program, value)
    return None if found is None else dequantize(*found)


def _owner(value: SSAValue) -> object:
    return value.op if isinstance(value, OpResult) else None

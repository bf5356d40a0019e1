"""Unsigned storage as signed storage of the same numbers: half of the range is subtracted.

```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<u8:f32, 0.5:128>>
```
becomes
```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 0.5>>
```
C++ StableHLO takes the bits of unsigned storage for those of signed integers. There is no way back, and no need of one.
Integers that `quant.scast` gives a type, or takes from it, have their highest bit flipped (`stablehlo.xor`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import BitcastConvertOp, BroadcastInDimOp, ConstantOp, XorOp
from zeropoint.ir.tensors import element_dtype, element_of, with_element
from zeropoint.quant_passes.reference_forms.rewriting import quantized


def make_signed(program: Program) -> None:
    """Change the storage of all values, unless a caller or a bit cast sees the stored integers of an unsigned one."""
    seen = (FuncOp, ReturnOp, BitcastConvertOp)
    outside = [
        value
        for op in program.module.walk()
        if isinstance(op, seen)
        for value in (*op.operands, *op.results, *(op.body.block.args if isinstance(op, FuncOp) else ()))
    ]
    if any(unsigned(value) for value in outside):
        return
    casts = [op for op in program.module.walk() if isinstance(op, StorageCastOp)]
    flip = [op for op in casts if unsigned(op.input) or unsigned(op.result)]
    for value in list(_values(program)):
        kind = unsigned(value)
        if kind is None:
            continue
        if isinstance(value.owner, ConstantOp):
            _shift(value.owner, kind, program)
        else:
            Rewriter.replace_value_with_new_type(value, with_element(value, kind.signed))
    for op in flip:
        _flip(op, program)


def unsigned(value: SSAValue) -> UniformQuantizedType | None:
    """The type of a value in unsigned storage; None for other values."""
    kind = quantized(value)
    return kind if kind is not None and kind.storage.is_integer and not kind.storage.type.signed else None


def _values(program: Program) -> Iterator[SSAValue]:
    for op in program.module.walk():
        yield from op.results
        for region in op.regions:
            for block in region.blocks:
                yield from block.args


def _shift(op: ConstantOp, kind: UniformQuantizedType, program: Program) -> None:
    """Flip the top bit of a constant's integers: as signed ones, they are less by half of the range."""
    stored = program.weights.array(op.value)
    half = np.int64(1) << (kind.storage.type.width - 1)
    signless = (stored.astype(np.int64) & (2 * half - 1)) - half
    made = constant_op(signless.astype(stored.dtype), program.weights, quantized=kind.signed, location=op.location)
    Rewriter.insert_op(made, InsertPoint.before(op))
    Rewriter.replace_op(op, [], [made.output])


def _flip(op: StorageCastOp, program: Program) -> None:
    """Flip the top bit of the integers that a cast reads or returns."""
    reads = quantized(op.result) is not None
    value = op.input if reads else op.result
    dtype = element_dtype(element_of(value))
    top = np.array(np.iinfo(dtype).min, dtype)
    array = constant_array(value, program.weights)
    if array is not None:
        made: list[Operation] = [constant_op(array ^ top, program.weights, location=op.location)]
    else:
        bit = constant_op(top, program.weights, location=op.location)
        spread = BroadcastInDimOp(bit.output, value.type, [])
        made = [bit, spread, XorOp(value, spread.result)]
    for one in made:
        one.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(op) if reads else InsertPoint.after(op))
    flipped = made[-1].results[0]
    if reads:
        op.operands[0] = flipped
    else:
        value.replace_uses_with_if(flipped, lambda use: use.operation is not made[-1])

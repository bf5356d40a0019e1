"""Turns the arithmetic that (de)quantizes integer inputs and outputs of a quantized model into casts.

```mlir
%0 = stablehlo.convert %x : (tensor<4xui8>) -> tensor<4xf32>
%1 = stablehlo.subtract %0, %zero_points : tensor<4xf32>
%2 = stablehlo.multiply %1, %scales : tensor<4xf32>
```
of an argument `%x` becomes
```mlir
%0 = stablehlo.bitcast_convert %x : (tensor<4xui8>) -> tensor<4xi8>
%1 = quant.scast %0 : tensor<4xi8> to tensor<4x!quant.uniform<u8:f32, 0.5:128>>
%2 = quant.dcast %1 : tensor<4x!quant.uniform<u8:f32, 0.5:128>> to tensor<4xf32>
```
if scales and zero points are one number each. What `divide`, `round_nearest_even`, `add`, `clamp` and `convert` make
for a result becomes `quant.qcast`, `quant.scast` and `stablehlo.bitcast_convert`. So the kernels at the ports have the
parameters of the file. The argument of a model that states no quantization elsewhere is not changed, because such
arithmetic may be preprocessing.

If other ops read such a result, too, those that dequantize it read the quantized value. Reshapes, transposes and slices
of integers between a port and its arithmetic move floats instead.

Source: the ONNX operator specification, "DequantizeLinear" and "QuantizeLinear".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.storage import signedness_of, type_is_signed, type_width
from zeropoint.ir.stablehlo import (
    AddOp,
    BitcastConvertOp,
    ClampOp,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    ReshapeOp,
    RoundNearestEvenOp,
    SliceOp,
    SubtractOp,
    TransposeOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.simplify.statements import rewrite

_Op = TypeVar("_Op", bound=Operation)
WIDTHS = (8, 16)
"""The widths of stored activations."""
MOVES = (ReshapeOp, TransposeOp, SliceOp)
"""Movements of stored integers."""


def _storage(value: SSAValue) -> Storage | None:
    """The whole range of the integers of a port; None for other values."""
    kind = element_of(value)
    if signedness_of(kind) is None or type_width(kind) not in WIDTHS:
        return None
    return Storage.of(f"{'i' if type_is_signed(kind) else 'u'}{type_width(kind)}")


def _type(storage: Storage, scale: float | None, zero_point: float | None) -> UniformQuantizedType | None:
    """The quantized type of parameters; None for those that no type has."""
    if scale is None or not (np.isfinite(scale) and scale > 0):
        return None
    if zero_point is None or not storage.minimum <= zero_point <= storage.maximum or zero_point != int(zero_point):
        return None
    return UniformQuantizedType.per_layer(storage, scale, int(zero_point))


def _made_by(value: SSAValue, kind: type[_Op]) -> _Op | None:
    """The op of a kind that makes a value."""
    return value.owner if isinstance(value.owner, kind) else None


def _quantized(value: SSAValue) -> SSAValue | None:
    """The quantized value whose integers a value is; None for other values."""
    cast = value.owner.operand.owner if isinstance(value.owner, BitcastConvertOp) else value.owner
    found = cast.input if isinstance(cast, StorageCastOp) else None
    return found if found is not None and isinstance(element_of(found), UniformQuantizedType) else None


def _moved(value: SSAValue) -> tuple[SSAValue, list[Operation]]:
    """The value that movements make a value of, and these movements."""
    moves: list[Operation] = []
    while isinstance(value.owner, MOVES):
        moves.insert(0, value.owner)
        value = value.owner.operand
    return value, moves


def _in_float(moves: list[Operation], value: SSAValue) -> list[Operation]:
    """The same movements of a float value."""
    made: list[Operation] = []
    for op in moves:
        kind = with_element(op.results[0], element_of(value))
        made.append(
            op.create(operands=[value], result_types=[kind], properties=op.properties, attributes=op.attributes)
        )
        made[-1].location = op.location
        value = made[-1].results[0]
    return made


def _is_returned(value: SSAValue) -> bool:
    """Whether a value is returned, or what movements make of it."""
    readers = [use.operation for use in value.uses]
    return any(isinstance(op, ReturnOp) or (isinstance(op, MOVES) and _is_returned(op.result)) for op in readers)


def _bits(value: SSAValue, storage: Storage) -> list[Operation]:
    """The casts between a port's integers and signless ones of the same bits; none for signless ones."""
    kind, signless = element_of(value), storage.mlir_type
    return [] if kind == signless else [BitcastConvertOp(value, with_element(value, signless))]


@dataclass
class CastInput(RewritePattern):
    """(convert(x) - zero point) * scale -> `quant.dcast`, for an argument and for the integers of a quantized value."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MultiplyOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one dequantized value."""
        difference = _made_by(op.lhs, SubtractOp)
        converted = _made_by(op.lhs if difference is None else difference.lhs, ConvertOp)
        if converted is None:
            return
        (source, moves), zero = _moved(converted.operand), 0.0
        if difference is not None:
            zero = splat_value(difference.rhs, self.weights)
        storage, quantized = _storage(source), _quantized(source)
        kind = None if storage is None else _type(storage, splat_value(op.rhs, self.weights), zero)
        if storage is None or kind is None or not isinstance(element_of(op.result), Float32Type):
            return
        made: list[Operation] = []
        if isinstance(source, BlockArgument):
            made += _bits(source, storage)
            made.append(StorageCastOp(made[-1].results[0] if made else source, with_element(source, kind)))
            quantized = made[-1].results[0]
        if quantized is None or element_of(quantized) != kind:
            return
        made.append(DequantizeCastOp(quantized, with_element(source, element_of(op.result))))
        made += _in_float(moves, made[-1].results[0])
        for one in made[: len(made) - len(moves)]:
            one.location = op.location
        rewriter.replace(op, made)


@dataclass
class CastOutput(RewritePattern):
    """convert(clamp(round(x / scale) + zero point)) that is returned, or moved and returned, -> `quant.qcast`."""

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvertOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one quantized result."""
        storage, clamped = _storage(op.result), _made_by(op.operand, ClampOp)
        if storage is None or clamped is None or not _is_returned(op.result):
            return
        ends = [splat_value(bound, self.weights) for bound in (clamped.min, clamped.max)]
        added = _made_by(clamped.operand, AddOp)
        rounded = _made_by(clamped.operand if added is None else added.lhs, RoundNearestEvenOp)
        ratio = None if rounded is None else _made_by(rounded.operand, DivideOp)
        if ratio is None or ends != [storage.minimum, storage.maximum]:
            return
        zero = 0.0 if added is None else splat_value(added.rhs, self.weights)
        kind = _type(storage, splat_value(ratio.rhs, self.weights), zero)
        if kind is None or not isinstance(element_of(ratio.lhs), Float32Type):
            return
        made = _stored(ratio.lhs, kind, op.result.type)
        for one in made:
            one.location = op.location
        rewriter.replace(op, made)


class MoveOutput(RewritePattern):
    """Movements of the integers of a quantized value that are returned -> `quant.qcast` of movements in float."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReturnOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite the results of a program."""
        for index, value in enumerate(op.operands):
            source, moves = _moved(value)
            quantized = _quantized(source)
            if not moves or quantized is None:
                continue
            kind = element_of(quantized)
            assert isinstance(kind, UniformQuantizedType)
            real = DequantizeCastOp(quantized, with_element(quantized, f32))
            real.location = moves[-1].location
            moved = _in_float(moves, real.result)
            made = _stored(moved[-1].results[0], kind, value.type)
            for one in made:
                one.location = moves[-1].location
            rewriter.insert([real, *moved, *made], InsertPoint.before(op))
            op.operands[index] = made[-1].results[0]
            rewriter.handle_operation_modification(op)


def _stored(value: SSAValue, kind: UniformQuantizedType, result: Attribute) -> list[Operation]:
    """The casts of a float value to the integers of a quantized type, in the type of a result."""
    quantized = QuantizeCastOp(value, with_element(value, kind))
    stored = StorageCastOp(quantized.result, with_element(value, kind.storage.mlir_type))
    made: list[Operation] = [quantized, stored]
    if stored.result.type != result:
        made.append(BitcastConvertOp(stored.result, result))
    return made


def _states_quantization(program: Program) -> bool:
    """Whether a model has casts to quantized types, or weights of such types."""
    return any(isinstance(op, QuantizeCastOp) or PINNED in op.attributes for op in program.entry.ops)


def cast_ports(program: Program) -> Program:
    """A copy in which integer ports of a quantized model are casts of quantized values."""
    program = program.for_change()
    rewrite(program, CastOutput(program.weights))
    rewrite(program, MoveOutput())
    if _states_quantization(program):
        rewrite(program, CastInput(program.weights))
    remove_dead_ops(program.entry)
    return program

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
if scales and zero points are one number each, or one for each index of a dimension. What `divide`,
`round_nearest_even`, `add`, `clamp` and `convert` make for a result becomes `quant.qcast`, `quant.scast` and
`stablehlo.bitcast_convert`. So the kernels at the ports have the parameters of the file. The argument of a model that
states no quantization elsewhere is not changed, because such arithmetic may be preprocessing.

If other ops read such a result, too, those that dequantize it read the quantized value. Reshapes, transposes, slices
and concatenations of integers between ports and their arithmetic move floats instead (`port_moves.py`), if all channels
have one scale.

Source: the ONNX operator specification, "DequantizeLinear" and "QuantizeLinear".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import Float32Type, f32
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern
from xdsl.rewriter import InsertPoint

from zeropoint.ir.annotations import PINNED
from zeropoint.ir.constants import constant_array, splat_value
from zeropoint.ir.dead_code import remove_dead_ops
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, QuantizeCastOp, Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.quant.storage import signedness_of, type_is_signed, type_width
from zeropoint.ir.stablehlo import (
    AddOp,
    BitcastConvertOp,
    BroadcastInDimOp,
    ClampOp,
    ConcatenateOp,
    ConvertOp,
    DivideOp,
    MultiplyOp,
    RoundNearestEvenOp,
    SubtractOp,
)
from zeropoint.ir.tensors import Array, element_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.simplify.port_moves import in_float, is_returned, movements, sources
from zeropoint.simplify.statements import rewrite

_Op = TypeVar("_Op", bound=Operation)
WIDTHS = (8, 16)
"""The widths of stored activations."""


def _storage(value: SSAValue) -> Storage | None:
    """The whole range of the integers of a port; None for other values."""
    kind = element_of(value)
    if signedness_of(kind) is None or type_width(kind) not in WIDTHS:
        return None
    return Storage.of(f"{'i' if type_is_signed(kind) else 'u'}{type_width(kind)}")


def _type(storage: Storage, scale: Array | None, zero_point: Array | None) -> UniformQuantizedType | None:
    """The quantized type of parameters in the rank of the value; None for those that no type has."""
    if scale is None or zero_point is None or not (np.isfinite(scale) & (scale > 0)).all():
        return None
    inside = (storage.minimum <= zero_point) & (zero_point <= storage.maximum) & (zero_point == np.rint(zero_point))
    scale, zero_point = np.broadcast_arrays(scale, zero_point)
    axes = [axis for axis, size in enumerate(scale.shape) if size > 1]
    if not inside.all() or len(axes) > 1:
        return None
    scales, zeros = scale.reshape(-1).tolist(), zero_point.astype(np.int64).reshape(-1).tolist()
    if not axes:
        return UniformQuantizedType.per_layer(storage, scales[0], zeros[0])
    return UniformQuantizedType.per_channel(storage, axes[0], scales, zeros)


def _parameters(value: SSAValue, weights: Weights) -> Array | None:
    """One number, or one for each index of a dimension, of a constant that is broadcast; None for other values."""
    number = splat_value(value, weights)
    if number is not None:
        return np.asarray(number)
    if isinstance(value.owner, BroadcastInDimOp):
        inner = constant_array(value.owner.operand, weights)
        return None if inner is None else value.owner.aligned(inner)
    return constant_array(value, weights)


def _made_by(value: SSAValue, kind: type[_Op]) -> _Op | None:
    """The op of a kind that makes a value."""
    return value.owner if isinstance(value.owner, kind) else None


def _bounded(value: SSAValue, weights: Weights) -> tuple[ClampOp, Storage] | None:
    """The clamp to constant integers that alone reads stored integers, with the storage between its bounds, if any."""
    use, storage = value.get_unique_use(), _storage(value)
    clamp = None if use is None else use.operation
    if storage is None or not isinstance(clamp, ClampOp) or clamp.operand is not value:
        return None
    low, high = (splat_value(bound, weights) for bound in (clamp.min, clamp.max))
    if low is None or high is None or low >= high:
        return None
    return clamp, replace(storage, minimum=int(low), maximum=int(high))


def _quantized(value: SSAValue) -> SSAValue | None:
    """The quantized value whose integers a value is; None for other values."""
    cast = value.owner.operand.owner if isinstance(value.owner, BitcastConvertOp) else value.owner
    found = cast.input if isinstance(cast, StorageCastOp) else None
    return found if found is not None and isinstance(element_of(found), UniformQuantizedType) else None


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
        zero = np.zeros(()) if difference is None else _parameters(difference.rhs, self.weights)
        storage = _storage(converted.operand)
        kind = None if storage is None else _type(storage, _parameters(op.rhs, self.weights), zero)
        if storage is None or kind is None or not isinstance(element_of(op.result), Float32Type):
            return
        moves, made, floats = movements(converted.operand), list[Operation](), dict[SSAValue, SSAValue]()
        for source in sources(converted.operand):
            casts = [] if moves and not kind.is_per_layer else _dequantized(source, kind)
            if not casts:
                return
            made += casts
            floats[source] = casts[-1].results[0]
        moved = in_float(moves, floats)
        casts = _restated(moved[-1].results[0], kind) if any(isinstance(move, ConcatenateOp) for move in moves) else []
        for one in (*made, *casts):
            one.location = op.location
        rewriter.replace(op, [*made, *moved, *casts])


@dataclass
class CastOutput(RewritePattern):
    """convert(clamp(round(x / scale) + zero point)) that is returned, or moved and returned, -> `quant.qcast`.

    A clamp of the integers, as our files have it for a ReLU, is the range of the storage.
    """

    weights: Weights

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ConvertOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite one quantized result."""
        bounded = _bounded(op.result, self.weights)
        result = op.result if bounded is None else bounded[0].result
        storage, clamped = _storage(op.result), _made_by(op.operand, ClampOp)
        if storage is None or clamped is None or not is_returned(result):
            return
        ends = [splat_value(bound, self.weights) for bound in (clamped.min, clamped.max)]
        added = _made_by(clamped.operand, AddOp)
        rounded = _made_by(clamped.operand if added is None else added.lhs, RoundNearestEvenOp)
        ratio = None if rounded is None else _made_by(rounded.operand, DivideOp)
        if ratio is None or ends != [storage.minimum, storage.maximum]:
            return
        zero = np.zeros(()) if added is None else _parameters(added.rhs, self.weights)
        narrow = storage if bounded is None else bounded[1]
        kind = _type(narrow, _parameters(ratio.rhs, self.weights), zero)
        if kind is None or not isinstance(element_of(ratio.lhs), Float32Type):
            return
        made = _stored(ratio.lhs, kind, op.result.type)
        for one in made:
            one.location = op.location
        if bounded is not None:
            bounded[0].result.replace_all_uses_with(op.result)
            rewriter.erase(bounded[0])
        rewriter.replace(op, made)


class MoveOutput(RewritePattern):
    """Movements of the integers of a quantized value that are returned -> `quant.qcast` of movements in float."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReturnOp, rewriter: PatternRewriter, /) -> None:
        """Rewrite the results of a program."""
        for index, value in enumerate(op.operands):
            moves, given = movements(value), [_quantized(source) for source in sources(value)]
            kinds = {None if quantized is None else element_of(quantized) for quantized in given}
            kind = kinds.pop()
            if not moves or kinds or not isinstance(kind, UniformQuantizedType) or not kind.is_per_layer:
                continue
            reals = [DequantizeCastOp(found, with_element(found, f32)) for found in given if found is not None]
            floats = zip(sources(value), (real.result for real in reals), strict=True)
            moved = in_float(moves, dict(floats))
            made = _stored(moved[-1].results[0], kind, value.type)
            for one in (*reals, *made):
                one.location = moves[-1].location
            rewriter.insert([*reals, *moved, *made], InsertPoint.before(op))
            op.operands[index] = made[-1].results[0]
            rewriter.handle_operation_modification(op)


def _dequantized(source: SSAValue, kind: UniformQuantizedType) -> list[Operation]:
    """The casts of the integers of a port or of a quantized value to floats; none if they have another type."""
    quantized, made = _quantized(source), list[Operation]()
    if isinstance(source, BlockArgument):
        made += _bits(source, kind.storage)
        made.append(StorageCastOp(made[-1].results[0] if made else source, with_element(source, kind)))
        quantized = made[-1].results[0]
    if quantized is None or element_of(quantized) != kind:
        return []
    return [*made, DequantizeCastOp(quantized, with_element(source, f32))]


def _restated(value: SSAValue, kind: UniformQuantizedType) -> list[Operation]:
    """A pair of casts of a concatenation, which may have another type than its operands, to the type that they have."""
    quantized = QuantizeCastOp(value, with_element(value, kind))
    return [quantized, DequantizeCastOp(quantized.result, value.type)]


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

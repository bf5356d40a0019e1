"""Stores quantized values of less than a byte in bytes.

```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i4:f32, 0.5>>
```
becomes
```mlir
%0 = stablehlo.uniform_quantize %x : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8<-8:7>:f32, 0.5>>
```
The results of all ops stay the same, because they depend on the range of the storage, not on its type. Arguments,
returned values, and operands and results of casts keep their types. A `stablehlo.convert` of the integers is inserted
between them and the bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects.builtin import DYNAMIC_INDEX, IntegerType, LocationAttr, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.constants import constant_op, elements, is_constant
from zeropoint.ir.locations import location_of
from zeropoint.ir.program import Program
from zeropoint.ir.quant import DequantizeCastOp, Storage, StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AndOp,
    BitcastConvertOp,
    BroadcastInDimOp,
    ClampOp,
    ConstantOp,
    ConvertOp,
    MinimumOp,
    SubtractOp,
    UniformDequantizeOp,
    XorOp,
)
from zeropoint.ir.tensors import shape_of, with_element
from zeropoint.ir.weights import Weights
from zeropoint.lower.context import storage_element, stored_element
from zeropoint.numerics.storage import StorageType, half_range

BYTE = 8
_FIXED = (ReturnOp, StorageCastOp, BitcastConvertOp)
"""Ops whose operands and results keep their types."""


def store_in_bytes(program: Program) -> None:
    """Widen the storage of every value below a byte, in place, except those that the caller or a cast sees."""
    for op in list(program.entry.ops):
        # Widen constants first. Otherwise they would count as values given by a cast and keep the narrow type.
        constant = isinstance(op, StorageCastOp) and is_constant(op.input) and is_narrow(op.result)
        if isinstance(op, StorageCastOp) and constant and not _only_dequantized(op.result.uses):
            _widen_cast(op, program.weights)
    found = [value for value in _values(program.entry) if is_narrow(value)]
    # Widen all values or none, because a chain that is partly in bytes would need casts between its ops.
    if any(map(_lacks_edges, found)):
        return
    for value in found:
        if _is_given(value):
            _widen_uses(value, program.weights)
        else:
            _narrow_uses(value, program.weights)
            _widen(value, program.weights)


def _only_dequantized(uses: Iterable[Use]) -> bool:
    return all(isinstance(use.operation, UniformDequantizeOp | DequantizeCastOp) for use in uses)


def _values(block: Block) -> Iterator[SSAValue]:
    yield from block.args
    for op in block.ops:
        yield from op.results
        for region in op.regions:
            for inner in region.blocks:
                yield from _values(inner)


def is_narrow(value: SSAValue) -> bool:
    """Whether a value is quantized and stored in less than a byte."""
    kind = stored_element(value)
    return kind is not None and kind.storage.type.width < BYTE


def _is_given(value: SSAValue) -> bool:
    """Whether the value comes from the caller or a cast."""
    owner = value.owner
    return isinstance(owner if isinstance(owner, Operation) else owner.parent_op(), (*_FIXED, FuncOp))


def _lacks_edges(value: SSAValue) -> bool:
    """Whether a value cannot be widened: it is unsigned, which needs a broadcast number, and has a dynamic shape."""
    kind = stored_element(value)
    return kind is not None and not kind.storage.type.signed and DYNAMIC_INDEX in shape_of(value)


def _widen_uses(value: SSAValue, weights: Weights) -> None:
    """Let all ops but casts and the return read a given value in bytes. No effect if it is only dequantized."""
    kind = stored_element(value)
    uses = [use for use in value.uses if not isinstance(use.operation, _FIXED)]
    if kind is None or _only_dequantized(uses):
        return
    owner = value.owner
    at = InsertPoint.after(owner) if isinstance(owner, Operation) else InsertPoint.at_start(owner)
    edge = _Edge(Builder(at), location_of(value), weights)
    integers = edge.converted(edge.cast(value, storage_element(kind)), i8)
    if not kind.storage.type.signed:  # undo the sign extension of `convert`
        mask, greatest = (1 << kind.storage.type.width) - 1, kind.storage.maximum
        integers = edge.add(AndOp(integers, edge.filled(integers, mask)))
        if greatest < mask:  # changes no number; gives range analysis the bound
            integers = edge.add(MinimumOp(integers, edge.filled(integers, greatest)))
    wide = edge.cast(integers, _in_bytes(kind))
    for use in uses:
        use.operation.operands[use.index] = wide


def _narrow_uses(value: SSAValue, weights: Weights) -> None:
    """Let casts and the return read a value, which will be in bytes, in its own type."""
    kind = stored_element(value)
    assert kind is not None
    for use in [use for use in value.uses if isinstance(use.operation, _FIXED)]:
        edge = _Edge(Builder(InsertPoint.before(use.operation)), location_of(value), weights)
        integers = edge.cast(value, i8)
        if not kind.storage.type.signed:  # the signed number with the same low bits
            mask, half = (1 << kind.storage.type.width) - 1, half_range(kind.storage.type.width)
            bounded = edge.add(AndOp(integers, edge.filled(integers, mask)))  # bounds the result of any body
            flipped = edge.add(XorOp(bounded, edge.filled(integers, half)))
            integers = edge.add(SubtractOp(flipped, edge.filled(integers, half)))
        elif isinstance(value.owner, Operation) and value.owner.regions:
            # The clamp changes no number. It gives range analysis, which does not follow every body, the bound.
            storage = kind.storage
            bounds = [edge.scalar(number) for number in (storage.minimum, storage.maximum)]
            integers = edge.add(ClampOp(bounds[0], integers, bounds[1]))
        narrow = edge.cast(edge.converted(integers, storage_element(kind)), kind)
        use.operation.operands[use.index] = narrow


@dataclass(frozen=True)
class _Edge:
    """Emits ops with the location of the value that they convert."""

    builder: Builder
    location: LocationAttr
    weights: Weights

    def add(self, op: Operation) -> SSAValue:
        op.location = self.location
        return self.builder.insert(op).results[0]

    def cast(self, value: SSAValue, element: Attribute) -> SSAValue:
        return self.add(StorageCastOp(value, with_element(value, element)))

    def converted(self, value: SSAValue, element: IntegerType) -> SSAValue:
        return self.add(ConvertOp(value, with_element(value, element)))

    def scalar(self, number: int) -> SSAValue:
        return self.add(constant_op(np.array(number, np.int8), self.weights))

    def filled(self, like: SSAValue, number: int) -> SSAValue:
        scalar = self.scalar(number)
        return self.add(BroadcastInDimOp(scalar, like.type, [])) if shape_of(like) else scalar


def _in_bytes(kind: UniformQuantizedType) -> UniformQuantizedType:
    """The type with the same range in 8-bit storage."""
    storage = kind.storage
    wide = Storage(StorageType(storage.type.signed, BYTE), storage.minimum, storage.maximum)
    return UniformQuantizedType(replace(kind.data, storage=wide))


def _widen_cast(op: StorageCastOp, weights: Weights) -> None:
    """Widen a constant of integers that is cast to a quantized type: weights with a scale per block have this form."""
    kind, owner = stored_element(op.result), op.input.owner
    assert kind is not None and isinstance(owner, ConstantOp)
    array = elements(owner, weights).astype(np.int8 if kind.storage.type.signed else np.uint8)
    constant = constant_op(array, weights, location=owner.location)
    made = StorageCastOp(constant.output, with_element(op.result, _in_bytes(kind)))
    made.location = op.location
    Rewriter.replace_op(op, [constant, made])


def _widen(value: SSAValue, weights: Weights) -> None:
    kind = stored_element(value)
    assert kind is not None
    # Storage bounds and zero point do not change.
    storage, made = kind.storage, _in_bytes(kind)
    if isinstance(value.owner, ConstantOp):
        array = elements(value.owner, weights).astype(np.int8 if storage.type.signed else np.uint8)
        constant = constant_op(array, weights, quantized=made, location=value.owner.location)
        constant.attributes.update(value.owner.attributes)
        Rewriter.replace_op(value.owner, constant)
    else:
        Rewriter.replace_value_with_new_type(value, with_element(value, made))

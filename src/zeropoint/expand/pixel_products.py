"""Products of the channels of images that have their channels last, as products of rows.

```mlir
%1 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<1x40x16x16xi8>) -> tensor<1x16x16x40xi8>
%2 = stablehlo.dot_general %1, %w, contracting_dims = [3] x [0] : ... -> tensor<1x16x16x160xi32>
%3 = "fxpmath.requantize"(%2, ...) : ... -> tensor<1x16x16x160xi8>
```
becomes
```mlir
%1 = stablehlo.transpose %0, dims = [0, 2, 3, 1] : (tensor<1x40x16x16xi8>) -> tensor<1x16x16x40xi8>
%4 = stablehlo.reshape %1 : (tensor<1x16x16x40xi8>) -> tensor<16x16x40xi8>
%2 = stablehlo.dot_general %4, %w, contracting_dims = [2] x [0] : ... -> tensor<16x16x160xi32>
%5 = "fxpmath.requantize"(%2, ...) : ... -> tensor<16x16x160xi8>
%3 = stablehlo.reshape %5 : (tensor<16x16x160xi8>) -> tensor<1x16x16x160xi8>
```
In a program with convolutions, values of rank 4 are stored with the dimension of its channels innermost. Here that is
another one than the dimension that is multiplied, and the product would be a loop nest. Elementwise ops, sums and
broadcasts around such products have one dimension for images and rows, too: layer norms and GELUs of ConvNeXt.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import ELEMENTWISE
from zeropoint.expand.one_row import constant_of_shape, reshape_back
from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.constants import is_constant
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values, i64_array
from zeropoint.ir.stablehlo.attributes import DotDimensionNumbersAttr
from zeropoint.ir.tensors import element_of, shape_of

IMAGE = 4
CHANNELS_FIRST = 1
"""The dimension of channels in the images of convolutions."""
_WINDOWED = (hlo.ConvolutionOp, hlo.ReduceWindowOp, hlo.PadOp)
"""Ops whose images have the channels where convolutions have them."""


def with_pixel_products(program: Program, channel: int | None) -> Program:
    """A copy in which products of pixels with a matrix, and ops around them, have one dimension for images and rows.

    The program itself is returned if it has none. `channel` is the dimension of channels in its convolutions.
    """
    if channel != CHANNELS_FIRST or not any(map(_is_product, program.entry.ops)):
        return program
    copy = program.clone()
    for op in list(copy.entry.ops):
        if op.parent is not None and _is_product(op):
            taken = _connected(copy, op)
            if taken:
                _Rewriting(copy, taken).run()
    return copy


def _is_product(op: Operation) -> bool:
    """Whether an op multiplies the last dimension of images, channels last, by a constant matrix."""
    if not isinstance(op, hlo.DotGeneralOp) or len(shape_of(op.lhs)) != IMAGE or len(shape_of(op.rhs)) != 2:
        return False
    dims = op.dot_dimension_numbers.data
    weights = op.rhs.owner.operands[0] if isinstance(op.rhs.owner, hlo.ConvertOp) else op.rhs
    return not dims.lhs_batching_dimensions and dims.lhs_contracting_dimensions == (3,) and is_constant(weights)


def _values(op: Operation) -> Iterator[SSAValue]:
    """The operands and results of an op whose first two dimensions become one."""
    first_only = (fxp.RequantizeOp, fxp.TableOp, hlo.DotGeneralOp, hlo.ReduceOp)
    operands: Sequence[SSAValue] = op.operands[:1] if isinstance(op, first_only) else op.operands
    if isinstance(op, hlo.BroadcastInDimOp) and 0 not in array_values(op.broadcast_dimensions):
        operands = ()  # the same numbers for every image
    rank = len(shape_of(op.results[0]))
    for value in operands:
        # A scalar bound of a clamp stays as it is.
        if not isinstance(op, ELEMENTWISE) or len(shape_of(value)) == rank:
            yield value
    yield from op.results


def _is_known(op: Operation) -> bool:
    """Whether an op computes the same if the first two dimensions of its values are one."""
    if isinstance(op, hlo.ConstantOp) or not op.results or any(len(shape_of(value)) < 2 for value in _values(op)):
        return False
    if isinstance(op, hlo.BroadcastInDimOp):
        dims, (images, rows, *_) = array_values(op.broadcast_dimensions), shape_of(op.result)
        if 0 in dims:
            return [*dims[:2]] == [0, 1] and [*shape_of(op.operand)[:2]] == [images, rows]
        return images == 1 or 1 not in dims
    if isinstance(op, hlo.ReduceOp):
        return len(op.operands) == 2 and min(array_values(op.dimensions)) > 1
    if isinstance(op, hlo.ReshapeOp):  # dimensions of size 1 at the end, as around the mean of a row
        before, after = (tuple(shape_of(value)) for value in (op.operand, op.result))
        common = min(len(before), len(after))
        return before[:common] == after[:common] and {*before[common:], *after[common:]} == {1}
    if isinstance(op, fxp.RequantizeOp) and op.axis is not None and op.axis.value.data < 2:
        return False
    kinds = [element_of(value) for value in _values(op)]
    if any(isinstance(kind, UniformQuantizedType) and kind.axis is not None and kind.axis < 2 for kind in kinds):
        return False
    return isinstance(op, ELEMENTWISE) or _is_product(op)


def _connected(program: Program, product: Operation) -> set[Operation]:
    """A product and the ops around it; none if they reach images with their channels elsewhere."""
    taken, waiting = set[Operation](), [product]
    while waiting:
        op = waiting.pop()
        if op in taken or op.parent is not program.entry:
            continue
        if isinstance(op, _WINDOWED):
            return set()
        if not _is_known(op):
            continue
        taken.add(op)
        for value in _values(op):
            waiting += [use.operation for use in value.uses]
            if isinstance(value, OpResult):
                waiting.append(value.op)
    return taken


def _type(value: SSAValue) -> TensorType[Attribute]:
    """The type of a value with one dimension for its first two. The axis of a quantized type moves."""
    element, (images, rows, *others) = element_of(value), shape_of(value)
    if isinstance(element, UniformQuantizedType) and element.axis is not None:
        element = UniformQuantizedType(replace(element.data, axis=element.axis - 1))
    return TensorType(element, [images * rows, *others])


def _properties(op: Operation) -> dict[str, Attribute]:
    """The properties that number dimensions, if the first two are one."""
    if isinstance(op, fxp.RequantizeOp) and op.axis is not None:
        return {"axis": IntegerAttr(int(op.axis.value.data) - 1, i64)}
    if isinstance(op, hlo.ReduceOp):
        return {"dimensions": i64_array([d - 1 for d in array_values(op.dimensions)])}
    if isinstance(op, hlo.BroadcastInDimOp):
        numbers = dict.fromkeys(max(0, d - 1) for d in array_values(op.broadcast_dimensions))
        return {"broadcast_dimensions": i64_array([*numbers])}
    if isinstance(op, hlo.DotGeneralOp):
        dims = replace(op.dot_dimension_numbers.data, lhs_contracting_dimensions=(2,))
        return {"dot_dimension_numbers": DotDimensionNumbersAttr(dims)}
    return {}


@dataclass
class _Rewriting:
    """Rebuilds a group of ops with one dimension for the first two."""

    program: Program
    taken: set[Operation]
    made: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])

    def run(self) -> None:
        ops = [op for op in self.program.entry.ops if op in self.taken]
        for op in ops:
            self._rebuild(op)
        for op in ops:
            for result in op.results:
                reshape_back(result, self.made, self.taken)
        for op in ops[::-1]:
            Rewriter.erase_op(op)

    def _rebuild(self, op: Operation) -> None:
        losing = {*_values(op)}
        new: Operation = type(op).create(
            operands=[self._joined(value, op) if value in losing else value for value in op.operands],
            result_types=[_type(result) for result in op.results],
            properties={**op.properties, **_properties(op)},
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        self._insert(new, op)
        self.made.update(zip(op.results, new.results, strict=True))

    def _joined(self, value: SSAValue, before: Operation) -> SSAValue:
        """A value with one dimension for its first two: a reshape if no op of the group computes it."""
        if value not in self.made:
            type_: TensorType[Any] = _type(value)
            owner = value.owner
            new = constant_of_shape(owner, type_) if isinstance(owner, hlo.ConstantOp) else hlo.ReshapeOp(value, type_)
            self.made[value] = self._insert(new, before)
        return self.made[value]

    def _insert(self, op: Operation, before: Operation) -> SSAValue:
        op.location = before.location
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

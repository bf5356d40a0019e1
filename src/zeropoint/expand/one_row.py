"""One-dimensional convolutions as convolutions of images of one row.

```mlir
%y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0]x[o, i, 0]->[b, f, 0], ... : (tensor<1x8x50xi8>, ...)
%z = "fxpmath.requantize"(%y, ...) : (tensor<1x16x48xi32>, ...) -> tensor<1x16x48xi8>
```
becomes
```mlir
%0 = stablehlo.reshape %x : (tensor<1x8x50xi8>) -> tensor<1x8x1x50xi8>
%1 = stablehlo.convolution(%0, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], ...
%2 = "fxpmath.requantize"(%1, ...) : (tensor<1x16x1x48xi32>, ...) -> tensor<1x16x1x48xi8>
%z = stablehlo.reshape %2 : (tensor<1x16x1x48xi8>) -> tensor<1x16x48xi8>
```
Elementwise ops, data movement and windows around convolutions also take and return images. So reshapes are only left at
the edges of such a group of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any

from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    IntegerAttr,
    TensorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir import fxpmath as fxp
from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.program import Program
from zeropoint.ir.quant import StorageCastOp, UniformQuantizedType
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.stablehlo.attributes import ConvDimensionNumbersAttr
from zeropoint.ir.tensors import element_of, shape_of

LINE = 3
"""The rank of a batch of lines: batch, channels and positions."""

Properties = Mapping[str, Attribute | None]


@dataclass(frozen=True)
class Insertion:
    """Inserts a dimension of size 1 before dimension `at`."""

    at: int

    def dimension(self, old: int) -> int:
        """The number of an old dimension after the insertion."""
        return old + (old >= self.at)

    def entries(self, values: Sequence[Any], one: Any) -> list[Any]:
        """A list with one entry per dimension, after `one` is inserted for the new dimension."""
        return [*values[: self.at], one, *values[self.at :]]

    def array(self, attribute: DenseArrayBase[Any] | None, one: int) -> Attribute | None:
        """An optional `array<i64>` with one entry per dimension, after `one` is inserted."""
        return None if attribute is None else i64_array(self.entries(array_values(attribute), one))

    def type(self, value: SSAValue) -> TensorType[Attribute]:
        """The type of a value after the insertion. The axis of a quantized type moves with its dimension."""
        element = element_of(value)
        if isinstance(element, UniformQuantizedType) and element.axis is not None:
            element = UniformQuantizedType(replace(element.data, axis=self.dimension(element.axis)))
        return TensorType(element, self.entries(shape_of(value), 1))


# For each op, its properties after the insertion.


def _unchanged(op: Operation, new: Insertion) -> Properties:
    del op, new
    return {}


def _requantize(op: fxp.RequantizeOp, new: Insertion) -> Properties:
    return {} if op.axis is None else {"axis": IntegerAttr(new.dimension(int(op.axis.value.data)), i64)}


def _concatenate(op: hlo.ConcatenateOp, new: Insertion) -> Properties:
    return {"dimension": IntegerAttr(new.dimension(int(op.dimension.value.data)), i64)}


def _reverse(op: hlo.ReverseOp, new: Insertion) -> Properties:
    return {"dimensions": i64_array([new.dimension(d) for d in array_values(op.dimensions)])}


def _pad(op: hlo.PadOp, new: Insertion) -> Properties:
    names = ("edge_padding_low", "edge_padding_high", "interior_padding")
    return {name: new.array(getattr(op, name), 0) for name in names}


def _slice(op: hlo.SliceOp, new: Insertion) -> Properties:
    return {
        "start_indices": new.array(op.start_indices, 0),
        "limit_indices": new.array(op.limit_indices, 1),
        "strides": new.array(op.strides, 1),
    }


def _reduce(op: hlo.ReduceOp, new: Insertion) -> Properties:
    """The new dimension is also reduced, so that the result keeps its shape."""
    dimensions = [new.dimension(d) for d in array_values(op.dimensions)]
    return {"dimensions": i64_array(sorted([*dimensions, new.at]))}


def _reduce_window(op: hlo.ReduceWindowOp, new: Insertion) -> Properties:
    names = ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    padding = new.entries(padding_values(op.padding, LINE), (0, 0))
    return {**{name: new.array(getattr(op, name), 1) for name in names}, "padding": padding_attribute(padding)}


def _convolution(op: hlo.ConvolutionOp, new: Insertion) -> Properties:
    layout, one = op.dimension_numbers.data, Insertion(0)
    taps = Insertion(layout.kernel_spatial_dimensions[0])
    reversal = op.window_reversal
    changed = replace(
        layout,
        input_feature_dimension=new.dimension(layout.input_feature_dimension),
        input_spatial_dimensions=(new.at, new.at + 1),
        kernel_input_feature_dimension=taps.dimension(layout.kernel_input_feature_dimension),
        kernel_output_feature_dimension=taps.dimension(layout.kernel_output_feature_dimension),
        kernel_spatial_dimensions=(taps.at, taps.at + 1),
        output_feature_dimension=new.dimension(layout.output_feature_dimension),
        output_spatial_dimensions=(new.at, new.at + 1),
    )
    return {
        **{name: one.array(getattr(op, name), 1) for name in ("window_strides", "lhs_dilation", "rhs_dilation")},
        "padding": padding_attribute(one.entries(padding_values(op.padding, 1), (0, 0))),
        "window_reversal": None if reversal is None else DenseArrayBase.from_list(i1, [0, *array_values(reversal)]),
        "dimension_numbers": ConvDimensionNumbersAttr(changed),
    }


MOVED: Mapping[type[Operation], Callable[[Any, Insertion], Properties]] = {
    **dict.fromkeys((hlo.ClampOp, hlo.CompareOp, hlo.SelectOp, hlo.ConvertOp, hlo.IsFiniteOp), _unchanged),
    **dict.fromkeys((hlo.UniformDequantizeOp, hlo.UniformQuantizeOp, StorageCastOp), _unchanged),
    **dict.fromkeys((fxp.TableOp, fxp.WeightedSumOp), _unchanged),
    fxp.RequantizeOp: _requantize,
    hlo.ConcatenateOp: _concatenate,
    hlo.ConvolutionOp: _convolution,
    hlo.PadOp: _pad,
    hlo.ReduceOp: _reduce,
    hlo.ReduceWindowOp: _reduce_window,
    hlo.ReverseOp: _reverse,
    hlo.SliceOp: _slice,
}
"""Ops that compute the same on images as on lines, besides `hlo.UnaryOp` and `hlo.BinaryOp`."""


def with_one_row(program: Program) -> Program:
    """A copy in which one-dimensional convolutions are convolutions of images of one row.

    The program itself is returned if it has none, if the new images would have another channel dimension than its other
    convolutions, and if it has no convolutions of images but products of rank 4: attention heads must not be taken for
    images.
    """
    layouts = [op.dimension_numbers.data for op in program.entry.ops if isinstance(op, hlo.ConvolutionOp)]
    lines = [layout for layout in layouts if _is_line(layout)]
    if not lines:
        return program
    inserted = Insertion(lines[0].input_spatial_dimensions[0])
    channel = inserted.dimension(lines[0].input_feature_dimension)
    images = [layout for layout in layouts if len(layout.input_spatial_dimensions) == 2]
    if any(layout.input_feature_dimension != channel for layout in images):
        return program
    if not images and any(_is_product_of_heads(op) for op in program.entry.ops):
        return program
    program = program.clone()
    _Rewriting(program, inserted).run()
    return program


def _is_line(layout: hlo.ConvolutionLayout) -> bool:
    """Whether a layout has one spatial dimension, and the same dimension order in input and output."""
    order = (layout.input_batch_dimension, layout.input_feature_dimension, *layout.input_spatial_dimensions)
    same = (layout.output_batch_dimension, layout.output_feature_dimension, *layout.output_spatial_dimensions)
    return order == same and order in ((0, 1, 2), (0, 2, 1))


def reshape_back(result: OpResult, rebuilt: Mapping[SSAValue, SSAValue], taken: Set[Operation]) -> None:
    """Let the readers of a result that are not among the rebuilt ops read its new form in its old shape."""
    outside = [use for use in result.uses if use.operation not in taken]
    if not outside:
        return
    made = rebuilt[result]
    assert isinstance(made, OpResult)
    following = hlo.ReshapeOp(made, result.type)
    following.location = result.op.location
    Rewriter.insert_op(following, InsertPoint.after(made.op))
    for use in outside:
        use.operation.operands[use.index] = following.result


def constant_of_shape(op: hlo.ConstantOp, type_: TensorType[Attribute]) -> hlo.ConstantOp:
    """The same elements in another shape."""
    old = op.value
    shaped: TensorType[Any] = TensorType(element_of(old.get_type()), type_.get_shape())
    if isinstance(old, DenseResourceAttr):
        return hlo.ConstantOp(DenseResourceAttr(old.resource_handle, shaped), type_)
    assert isinstance(old, DenseIntOrFPElementsAttr)
    return hlo.ConstantOp(DenseIntOrFPElementsAttr(shaped, old.data), type_)


def _is_product_of_heads(op: Operation) -> bool:
    return isinstance(op, hlo.DotGeneralOp) and len(shape_of(op.result)) == LINE + 1


@dataclass
class _Rewriting:
    """Finds the group of ops on lines, and rebuilds them on images."""

    program: Program
    new: Insertion
    images: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Maps lines to their images."""

    def run(self) -> None:
        taken = self._taken()
        ops = [op for op in self.program.entry.ops if op in taken]
        for op in ops:
            self._rebuild(op)
        for op in ops:
            self._back(op, taken)
        for op in ops[::-1]:
            Rewriter.erase_op(op)

    def _taken(self) -> set[Operation]:
        """The one-dimensional convolutions, and all ops that lines connect with them."""
        waiting: list[Operation] = [
            op for op in self.program.entry.ops if isinstance(op, hlo.ConvolutionOp) and self._moves(op)
        ]
        taken: set[Operation] = set()
        while waiting:
            op = waiting.pop()
            # Ops inside loops and branches are not rebuilt. They keep reading the line.
            if op in taken or op.parent is not self.program.entry or not self._moves(op):
                continue
            taken.add(op)
            for value in self._lines(op):
                waiting += [use.operation for use in value.uses]
                if isinstance(value, OpResult):
                    waiting.append(value.op)
        return taken

    def _moves(self, op: Operation) -> bool:
        """Whether an op computes the same on images."""
        if isinstance(op, hlo.ConvolutionOp):
            layout = op.dimension_numbers.data
            return _is_line(layout) and layout.input_spatial_dimensions == (self.new.at,)
        if isinstance(op, hlo.ReduceOp | hlo.ReduceWindowOp) and len(op.operands) != 2:
            return False
        if isinstance(op, hlo.ReduceOp):
            return len(shape_of(op.inputs[0])) == LINE
        if isinstance(op, hlo.UnaryOp | hlo.BinaryOp):
            return all(len(shape_of(value)) == LINE for value in (*op.operands, *op.results))
        return type(op) in MOVED and len(shape_of(op.results[0])) == LINE

    def _lines(self, op: Operation) -> Iterator[SSAValue]:
        """The operands and results of an op that become images."""
        operands = op.operands[:1] if isinstance(op, hlo.ConvolutionOp | hlo.PadOp | hlo.ReduceOp) else op.operands
        tables = op.operands[1:] if isinstance(op, fxp.RequantizeOp | fxp.TableOp) else ()
        for value in (*operands, *op.results):
            if len(shape_of(value)) == LINE and value not in tables:
                yield value

    def _rebuild(self, op: Operation) -> None:
        lines = {*self._lines(op)}
        operands = [self._image(operand, op) if operand in lines else operand for operand in op.operands]
        if isinstance(op, hlo.ConvolutionOp):
            taps = Insertion(op.dimension_numbers.data.kernel_spatial_dimensions[0])
            operands[1] = self._inserted(op.rhs, taps, op)
        changed = MOVED.get(type(op), _unchanged)(op, self.new)
        made = type(op).create(
            operands=operands,
            result_types=[self.new.type(result) if result in lines else result.type for result in op.results],
            properties={**op.properties, **{name: value for name, value in changed.items() if value is not None}},
            attributes=dict(op.attributes),
            regions=[region.clone() for region in op.regions],
        )
        self._insert(made, op)
        for result, image in zip(op.results, made.results, strict=True):
            if result in lines:
                self.images[result] = image
            else:
                result.replace_all_uses_with(image)

    def _image(self, value: SSAValue, before: Operation) -> SSAValue:
        """The image of a line: a reshape if no op of the group computes it."""
        if value not in self.images:
            self.images[value] = self._inserted(value, self.new, before)
        return self.images[value]

    def _inserted(self, value: SSAValue, new: Insertion, before: Operation) -> SSAValue:
        """A value with one more dimension, by a reshape. Constants and broadcasts are rebuilt instead."""
        op = value.owner
        if isinstance(op, hlo.ConstantOp):
            return self._insert(constant_of_shape(op, new.type(value)), before)
        if isinstance(op, hlo.BroadcastInDimOp):
            dimensions = [new.dimension(d) for d in array_values(op.broadcast_dimensions)]
            return self._insert(hlo.BroadcastInDimOp(op.operand, new.type(value), dimensions), before)
        return self._insert(hlo.ReshapeOp(value, new.type(value)), before)

    def _back(self, op: Operation, taken: set[Operation]) -> None:
        """Let readers outside of the group read a reshape of the result's image."""
        for result in op.results:
            reshape_back(result, self.images, taken)

    def _insert(self, op: Operation, before: Operation) -> SSAValue:
        op.location = before.location
        Rewriter.insert_op(op, InsertPoint.before(before))
        return op.results[0]

"""Rewrite windows over one of five or more dimensions as windows over an image, for which runtimes have kernels.

So are windows over rows (two dimensions or one), and over the first dimension.

```mlir
%1 = "quant.region"(%0) ({ reduce_window, window_dimensions = [1, 1, 5, 1, 1] }) : (tensor<1x1x12x7x9xf32>) ...
```
becomes
```mlir
%a = "quant.region"(%0) ({ reshape }) : (tensor<1x1x12x7x9xf32>) -> tensor<1x12x1x63xf32>
%b = "quant.region"(%a) ({ reduce_window, window_dimensions = [1, 5, 1, 1] }) : (tensor<1x12x1x63xf32>) ...
%1 = "quant.region"(%b) ({ reshape }) : (tensor<1x8x1x63xf32>) -> tensor<1x1x8x7x9xf32>
```
PyTorch's LocalResponseNorm has such a window, over channels. The dimensions before that of the window become the batch,
and those after it become the channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    ConstantOp,
    ReduceWindowOp,
    ReshapeOp,
    UnaryOp,
)
from zeropoint.ir.stablehlo.arrays import array_values, i64_array, padding_attribute, padding_values
from zeropoint.ir.tensors import element_of, shape_of

IMAGE_RANK = 4


def flatten_windows(program: Program) -> Program:
    """The program with windows over one of five or more dimensions rewritten as windows over images."""
    program = program.clone()
    for region in list(program.entry.ops):
        if isinstance(region, QuantizeRegionOp) and (dimension := _dimension(region)) is not None:
            _flatten(region, dimension)
    return program


def _dimension(region: QuantizeRegionOp) -> int | None:
    """The only dimension that the window of a region covers; None if the region is not to be rewritten.

    A region is rewritten if its ops allow it, and it has five or more dimensions, one or two, or a window over the
    first one.
    """
    ops = list(region.body.block.ops)[:-1]
    windows = [op for op in ops if isinstance(op, ReduceWindowOp)]
    if len(windows) != 1 or len(region.inputs) != 1 or len(region.outputs) != 1:
        return None
    (op,) = windows
    rank = len(shape_of(op.inputs[0]))
    if len(op.inputs) != 1 or op.inputs[0] is not region.body.block.args[0]:
        return None
    if not all(isinstance(other, ReduceWindowOp) or _can_be_flat(other) for other in ops):
        return None
    dilations = [array_values(array) for array in (op.base_dilations, op.window_dilations)]
    rows = zip(
        array_values(op.window_dimensions),
        array_values(op.window_strides, (1,) * rank),
        padding_values(op.padding, rank),
        strict=True,
    )
    covered = [index for index, row in enumerate(rows) if row != (1, 1, (0, 0))]
    if len(covered) != 1 or any(step != 1 for array in dilations for step in array):
        return None
    return None if rank in (IMAGE_RANK - 1, IMAGE_RANK) and covered[0] else covered[0]


def _can_be_flat(op: Operation) -> bool:
    """Whether an op of the body is elementwise, or a scalar constant that is broadcast for one."""
    if isinstance(op, ConstantOp):
        return not shape_of(op.output)
    if isinstance(op, BroadcastInDimOp):
        return not shape_of(op.operand)
    return isinstance(op, UnaryOp | BinaryOp | ClampOp)


def _flat(shape: Sequence[int], dimension: int) -> tuple[int, int, int, int]:
    return prod(shape[:dimension]), shape[dimension], 1, prod(shape[dimension + 1 :])


def _flatten(region: QuantizeRegionOp, dimension: int) -> None:
    """Replace a region by a reshape, a region over images, and a reshape."""
    given, made = region.inputs[0], region.outputs[0]
    source = _reshape(given, _flat(shape_of(given), dimension), region.input_specs.data[0])
    block = Block(arg_types=[source.outputs[0].type])
    mapping: dict[SSAValue, SSAValue] = {region.body.block.args[0]: block.args[0]}
    for op in list(region.body.block.ops)[:-1]:
        copy = _copied(op, mapping, dimension)
        block.add_op(copy)
        mapping.update(zip(op.results, copy.results, strict=True))
    returned = region.body.block.last_op
    assert returned is not None
    block.add_op(ReturnOp([mapping[returned.operands[0]]]))
    flat = QuantizeRegionOp(
        [source.outputs[0]],
        [mapping[returned.operands[0]].type],
        region.logical_kernel.data,
        region.input_specs.data,
        region.output_specs.data,
        Region(block),
    )
    flat.attributes.update(region.attributes)
    back = _reshape(flat.outputs[0], shape_of(made), region.output_specs.data[0])
    for op in (source, flat, back):
        op.location = region.location
    Rewriter.replace_op(region, [source, flat, back])


def _copied(op: Operation, mapping: dict[SSAValue, SSAValue], dimension: int) -> Operation:
    """A copy of an op of the body, over images."""
    kept = isinstance(op, ConstantOp) or not shape_of(op.results[0])
    if kept:
        return op.clone(mapping)
    result = op.results[0]
    kind = TensorType(element_of(result), _flat(shape_of(result), dimension))
    copy = type(op).create(
        operands=[mapping.get(operand, operand) for operand in op.operands],
        result_types=[kind],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[region.clone() for region in op.regions],
    )
    if isinstance(op, ReduceWindowOp):
        rank = len(shape_of(op.inputs[0]))
        size = array_values(op.window_dimensions)[dimension]
        step = array_values(op.window_strides, (1,) * rank)[dimension]
        padding = padding_values(op.padding, rank)[dimension]
        ones = i64_array((1,) * IMAGE_RANK)
        copy.properties.update(
            window_dimensions=i64_array((1, size, 1, 1)),
            window_strides=i64_array((1, step, 1, 1)),
            base_dilations=ones,
            window_dilations=ones,
            padding=padding_attribute([(0, 0), padding, (0, 0), (0, 0)]),
        )
    return copy


def _reshape(value: SSAValue, shape: Sequence[int], spec: Attribute) -> QuantizeRegionOp:
    """A region that reshapes a value. Its operand and its result have the type `spec`."""
    block = Block(arg_types=[value.type])
    made = ReshapeOp(block.args[0], TensorType(element_of(value), shape))
    block.add_ops([made, ReturnOp([made.result])])
    return QuantizeRegionOp([value], [made.result.type], "reshape", [spec], [spec], Region(block))

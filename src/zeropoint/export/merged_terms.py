"""Rewrite matrix products over a merged dimension as products over the dimensions before the merge.

```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x12x7x5xf32>) -> tensor<1x420xf32>
%2 = "quant.region"(%1, %w) ({ dot_general, contracting_dims = [1] x [1] }) : (..., tensor<10x420xf32>) -> ...
```
becomes
```mlir
%2 = "quant.region"(%0, %v) ({ dot_general, contracting_dims = [1, 2, 3] x [1, 2, 3] }) : (..., tensor<10x12x7x5xf32>)
```
The sum has the same terms. If the layout pass moves the channels of `%0`, the constant weights follow, and no transpose
is needed. This is the first fully connected layer after the images of a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import AnyFloat, StringAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.annotations import MERGE_NAME
from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.locations import location_of, location_text
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import DotGeneralOp, ReshapeOp
from zeropoint.ir.stablehlo.attributes import DotDimensionNumbersAttr
from zeropoint.ir.tensors import shape_of


def split_merged_terms(program: Program) -> Program:
    """The program with products of constant weights over merged dimensions rewritten over the dimensions themselves."""
    program = program.clone()
    for region in list(program.entry.ops):
        if isinstance(region, QuantizeRegionOp):
            _split(region, program)
    return program


def _split(region: QuantizeRegionOp, program: Program) -> None:
    dot = next((op for op in region.body.block.ops if isinstance(op, DotGeneralOp)), None)
    if dot is None:
        return
    data, weight = (_port(region, operand) for operand in (dot.lhs, dot.rhs))
    numbers = dot.dot_dimension_numbers.data
    if data is None or weight is None or len(numbers.lhs_contracting_dimensions) != 1:
        return
    (summed,), (over,) = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
    source = _before_reshape(region.inputs[data], region.input_specs.data[data])
    sizes = None if source is None else _merged(shape_of(source), shape_of(region.inputs[data]), summed)
    constant = region.inputs[weight].owner
    array = constant_array(region.inputs[weight], program.weights)
    spec = None if sizes is None else _split_spec(region.input_specs.data[weight], over, len(sizes))
    if source is None or sizes is None or array is None or spec is None or not isinstance(constant, Operation):
        return
    made = constant_op(array.reshape(*array.shape[:over], *sizes, *array.shape[over + 1 :]), program.weights)
    made.location = constant.location
    Rewriter.insert_op(made, InsertPoint.before(region))
    specs = list(region.input_specs.data)
    specs[weight] = spec
    inputs = list(region.inputs)
    inputs[data], inputs[weight] = source, made.output
    body = _split_body(region, dot, {data: source.type, weight: made.output.type}, len(sizes))
    kinds = [value.type for value in region.outputs]
    copy = QuantizeRegionOp(inputs, kinds, region.logical_kernel.data, specs, region.output_specs.data, body)
    copy.attributes.update({**region.attributes, **copy.attributes})
    copy.location = region.location
    name = location_text(location_of(region.inputs[data]))
    if name:
        copy.attributes[MERGE_NAME] = StringAttr(name)
    Rewriter.replace_op(region, copy)


def _port(region: QuantizeRegionOp, value: SSAValue) -> int | None:
    """The index of a block argument that only one op reads; None for other values."""
    arguments = region.body.block.args
    return next((i for i, found in enumerate(arguments) if found is value and found.has_one_use()), None)


def _before_reshape(value: SSAValue, spec: Attribute) -> SSAValue | None:
    """The operand of the reshape that makes a value of type `spec` and changes nothing else; None without one."""
    op = value.owner
    if isinstance(op, ReshapeOp):
        return op.operand
    if not isinstance(op, QuantizeRegionOp) or {*op.input_specs.data, *op.output_specs.data} != {spec}:
        return None
    inner = op.body.block.first_op
    is_only = isinstance(inner, ReshapeOp) and len(list(op.body.block.ops)) == 2
    return op.inputs[0] if is_only and len(op.inputs) == 1 else None


def _merged(old: Sequence[int], new: Sequence[int], dimension: int) -> Sequence[int] | None:
    """The sizes of the dimensions that a reshape merges into `dimension`; None if it changes other ones, or none."""
    after = len(new) - dimension - 1
    sizes = old[dimension : len(old) - after]
    around = (*old[:dimension], *old[len(old) - after :])
    if len(sizes) < 2 or around != (*new[:dimension], *new[dimension + 1 :]):
        return None
    return sizes


def _split_spec(spec: Attribute, over: int, count: int) -> Attribute | None:
    """The type of weights whose dimension `over` becomes `count` dimensions; None if scales vary along it."""
    if isinstance(spec, AnyFloat):
        return spec
    if not isinstance(spec, UniformQuantizedType) or spec.axis == over or spec.is_sub_channel:
        return None
    if spec.axis is None or spec.axis < over:
        return spec
    return UniformQuantizedType.per_channel(
        spec.storage, spec.axis + count - 1, spec.scales, spec.zero_points, expressed_type=spec.expressed_type
    )


def _split_body(region: QuantizeRegionOp, dot: DotGeneralOp, types: dict[int, Attribute], count: int) -> Region:
    """The body over operands of other types, in which the contracting dimension is `count` dimensions."""
    block = Block(arg_types=[types.get(i, value.type) for i, value in enumerate(region.body.block.args)])
    mapping: dict[SSAValue, SSAValue] = dict(zip(region.body.block.args, block.args, strict=True))
    for op in region.body.block.ops:
        copy = op.clone(mapping)
        if op is dot:
            numbers = dot.dot_dimension_numbers.data
            (summed,), (over,) = numbers.lhs_contracting_dimensions, numbers.rhs_contracting_dimensions
            copy.properties["dot_dimension_numbers"] = DotDimensionNumbersAttr(
                replace(
                    numbers,
                    lhs_contracting_dimensions=tuple(range(summed, summed + count)),
                    rhs_contracting_dimensions=tuple(range(over, over + count)),
                )
            )
        block.add_op(copy)
        mapping.update(zip(op.results, copy.results, strict=True))
    return Region(block)

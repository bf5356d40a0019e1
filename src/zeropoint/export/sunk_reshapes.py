"""Move reshapes that merge dimensions behind the functions between them and a product with constant weights.

```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x12x7x5xf32>) -> tensor<1x420xf32>
%2 = "quant.region"(%1) ({ logistic }) : (tensor<1x420xf32>) -> tensor<1x420xf32>
```
becomes
```mlir
%1 = "quant.region"(%0) ({ logistic }) : (tensor<1x12x7x5xf32>) -> tensor<1x12x7x5xf32>
%2 = "quant.region"(%1) ({ reshape }) : (tensor<1x12x7x5xf32>) -> tensor<1x420xf32>
```
so that the product can be rewritten over the dimensions before the merge (`merged_terms.py`).
"""

from __future__ import annotations

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import (
    BinaryOp,
    BroadcastInDimOp,
    ClampOp,
    CompareOp,
    ConstantOp,
    DotGeneralOp,
    ReshapeOp,
    SelectOp,
    UnaryOp,
)
from zeropoint.ir.tensors import element_of, shape_of


def sink_reshapes(program: Program) -> Program:
    """The program with the functions between a merge of dimensions and a product computed before the merge."""
    program = program.clone()
    for region in list(program.entry.ops):
        if isinstance(region, QuantizeRegionOp) and any(isinstance(op, DotGeneralOp) for op in region.body.block.ops):
            _sink(region)
    return program


def _sink(reader: QuantizeRegionOp) -> None:
    """Move the reshape before the functions whose result is the first operand of a product."""
    functions: list[QuantizeRegionOp] = []
    op = reader.inputs[0].owner
    while isinstance(op, QuantizeRegionOp) and _is_function(op) and op.outputs[0].has_one_use():
        functions.insert(0, op)
        op = op.inputs[0].owner
    if not functions or not isinstance(op, QuantizeRegionOp) or not _merges(op):
        return
    if functions[0].input_specs.data[0] != op.output_specs.data[0]:
        return  # Otherwise a float function would read what the reshape rounds without the rounding.
    value = op.inputs[0]
    for function in functions:
        value = _computed_on(function, value)
    spec = functions[-1].output_specs.data[0]
    block = Block(arg_types=[value.type])
    merged = ReshapeOp(block.args[0], reader.inputs[0].type)
    block.add_ops([merged, ReturnOp([merged.result])])
    made = QuantizeRegionOp([value], [merged.result.type], "reshape", [spec], [spec], Region(block))
    made.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(reader))
    functions[-1].outputs[0].replace_all_uses_with(made.outputs[0])
    for dead in (*reversed(functions), op):
        Rewriter.erase_op(dead)


def _merges(region: QuantizeRegionOp) -> bool:
    """Whether a region only merges dimensions, and only one op reads its result."""
    (first, *rest) = region.body.block.ops
    alone = isinstance(first, ReshapeOp) and len(rest) == 1 and len(region.inputs) == 1
    moves = alone and region.input_specs.data == region.output_specs.data and region.outputs[0].has_one_use()
    return moves and len(shape_of(region.inputs[0])) > len(shape_of(region.outputs[0]))


def _is_function(region: QuantizeRegionOp) -> bool:
    """Whether a region computes a function of every element of its one operand."""
    if len(region.inputs) != 1 or len(region.outputs) != 1:
        return False
    shape, ops = shape_of(region.outputs[0]), list(region.body.block.ops)[:-1]
    return shape_of(region.inputs[0]) == shape and all(_is_elementwise(op, shape) for op in ops)


def _is_elementwise(op: Operation, shape: tuple[int, ...]) -> bool:
    if isinstance(op, ConstantOp):
        return shape_of(op.output) == ()
    if isinstance(op, BroadcastInDimOp):
        return shape_of(op.operand) == ()
    return isinstance(op, UnaryOp | BinaryOp | ClampOp | CompareOp | SelectOp) and shape_of(op.results[0]) in (
        (),
        shape,
    )


def _computed_on(function: QuantizeRegionOp, value: SSAValue) -> SSAValue:
    """The result of a function of a value of another shape."""
    old, new = shape_of(function.outputs[0]), shape_of(value)

    def kind(result: SSAValue) -> Attribute:
        return result.type if shape_of(result) != old else TensorType(element_of(result), new)

    block = Block(arg_types=[kind(function.body.block.args[0])])
    mapping: dict[SSAValue, SSAValue] = {function.body.block.args[0]: block.args[0]}
    for op in function.body.block.ops:
        copy = op.clone(mapping)
        block.add_op(copy)
        for before, after in zip(op.results, list(copy.results), strict=True):
            mapping[before] = Rewriter.replace_value_with_new_type(after, kind(before))
    specs = function.input_specs.data, function.output_specs.data
    made = QuantizeRegionOp([value], [kind(function.outputs[0])], function.logical_kernel.data, *specs, Region(block))
    made.attributes.update({**function.attributes, **made.attributes})
    made.location = function.location
    Rewriter.insert_op(made, InsertPoint.before(function))
    return made.outputs[0]

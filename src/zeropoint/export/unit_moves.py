"""Replace transposes that move only dimensions of size 1 by reshapes, which move no elements.

```mlir
%1 = "quant.region"(%0) ({ transpose, dims = [0, 2, 3, 1] }) : (tensor<1x1x8x6xf32>) -> tensor<1x8x6x1xf32>
```
becomes
```mlir
%1 = "quant.region"(%0) ({ reshape }) : (tensor<1x1x8x6xf32>) -> tensor<1x8x6x1xf32>
```
"""

from __future__ import annotations

from xdsl.ir import Block, Operation, Region
from xdsl.rewriter import Rewriter

from zeropoint.export.reshaped_orders import moves_units
from zeropoint.export.wanted_orders import permutation
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, ReturnOp
from zeropoint.ir.stablehlo import ReshapeOp
from zeropoint.ir.tensors import shape_of


def reshape_unit_moves(program: Program) -> None:
    """Replace the transposes of a program in place. One that also rounds, from one type to another, stays."""
    for op in list(program.entry.ops):
        order = permutation(op)
        if order is None or not moves_units(shape_of(op.operands[0]), order):
            continue
        rounds = isinstance(op, QuantizeRegionOp) and op.input_specs.data[0] != op.output_specs.data[0]
        if not rounds:
            made = _reshape(op)
            made.location = op.location
            Rewriter.replace_op(op, made)


def _reshape(op: Operation) -> Operation:
    value, kind = op.operands[0], op.results[0].type
    if not isinstance(op, QuantizeRegionOp):
        return ReshapeOp(value, kind)
    block = Block(arg_types=[value.type])
    moved = ReshapeOp(block.args[0], kind)
    block.add_ops([moved, ReturnOp([moved.result])])
    made = QuantizeRegionOp([value], [kind], "reshape", op.input_specs.data, op.output_specs.data, Region(block))
    made.attributes.update({**op.attributes, **made.attributes})
    return made

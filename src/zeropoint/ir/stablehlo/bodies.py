"""Regions of StableHLO ops: their terminator `return`, and bodies of a single op.

Source: the StableHLO specification, "return".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, traits_def, var_operand_def
from xdsl.traits import IsTerminator, Pure


@irdl_op_definition
class ReturnOp(IRDLOperation):
    """Terminates a region of a StableHLO op."""

    name = "stablehlo.return"
    results_ = var_operand_def()
    traits = traits_def(IsTerminator(), Pure())
    assembly_format = "$results_ attr-dict (`:` type($results_)^)?"

    def __init__(self, results: Sequence[SSAValue]):
        super().__init__(operands=[results])


def binary_body(op: Callable[[SSAValue, SSAValue], Operation], element_type: Attribute) -> Region:
    """The body `(a, b) -> op(a, b)` on scalars of `element_type`, e.g. `binary_body(AddOp, f32)`."""
    scalar = TensorType(element_type, [])
    block = Block(arg_types=[scalar, scalar])
    combined = op(block.args[0], block.args[1])
    block.add_ops([combined, ReturnOp(combined.results)])
    return Region(block)


def body_op(body: Region) -> type[Operation] | None:
    """The class of the single op that a body applies to its two arguments; None for any other body."""
    ops = list(body.block.ops)
    applied = len(ops) == 2 and set(ops[0].operands) == set(body.block.args)
    if applied and tuple(ops[1].operands) == tuple(ops[0].results):
        return type(ops[0])
    return None


OPS = (ReturnOp,)

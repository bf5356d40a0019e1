"""Data movement, maxima and sums on storage integers."""

from __future__ import annotations

from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.ir.constants import constant_array, constant_op
from zeropoint.ir.locations import describe
from zeropoint.ir.stablehlo import ConstantOp, ReduceOp, ReduceWindowOp, ReturnOp
from zeropoint.ir.tensors import shape_of
from zeropoint.lower.context import Lowering, LoweringError, quantized_element, storage_element

INT32_MAX = (1 << 31) - 1
BYTE_REACH = 255
"""The greatest |q - z| of 8-bit storage: what is summed in i32 was widened from it."""


def lower_constant(lowering: Lowering, op: ConstantOp) -> SSAValue:
    """The constant of storage integers."""
    array = constant_array(op.output, lowering.weights)
    assert array is not None
    return lowering.insert(constant_op(array, lowering.weights)).output


def lower_movement(lowering: Lowering, op: Operation) -> SSAValue:
    """The same op on storage; operands and result have one type, so that nothing has to be computed."""
    result = quantized_element(op.results[0])
    assert result is not None
    for operand in op.operands:
        found = quantized_element(operand)
        if found is None or (found.storage, found.data.scales, found.data.zero_points) != (
            result.storage,
            result.data.scales,
            result.data.zero_points,
        ):
            raise LoweringError(f"{describe(op)}: found an operand of type {operand.type}, expected elements {result}")
    return lowering.retyped(op, storage_element(result))


def lower_reduction(lowering: Lowering, op: ReduceOp | ReduceWindowOp) -> SSAValue:
    """`maximum`, `minimum` on any storage; `add` where the zero point is 0, as stored integers add up as they are."""
    result = quantized_element(op.results[0])
    combined = op.body.block.first_op
    assert combined is not None
    if result is None or len(op.results) != 1 or (result.zero_points.any() and combined.name == "stablehlo.add"):
        raise LoweringError(f"{describe(op)}: found a sum at {op.results[0].type}, expected one result, zero point 0")
    terms = prod(shape_of(op.inputs[0])) // max(1, prod(shape_of(op.results[0])))
    if combined.name == "stablehlo.add" and terms * BYTE_REACH > INT32_MAX:
        raise LoweringError(f"{describe(op)}: found sums of {terms} values, expected at most {INT32_MAX // BYTE_REACH}")
    element = storage_element(result)
    scalar = TensorType(element, [])
    block = Block(arg_types=[scalar, scalar])
    made = type(combined).create(operands=list(block.args), result_types=[scalar])
    block.add_ops([made, ReturnOp(made.results)])
    return lowering.retyped(op, element, Region(block))

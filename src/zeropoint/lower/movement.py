"""Data movement, maxima and sums on storage integers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, StringAttr, TensorType, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    AddOp,
    BitcastConvertOp,
    ClampOp,
    CompareOp,
    ConstantOp,
    ConvertOp,
    ReduceOp,
    ReduceWindowOp,
    ReturnOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.lower.context import (
    Lowering,
    LoweringError,
    check_storage,
    is_widening,
    quantized_element,
    storage_element,
    stored_element,
)
from zeropoint.ranges.contraction import reduction_sums, terms

COMBINED = ("stablehlo.add", "stablehlo.maximum", "stablehlo.minimum")
"""The bodies of reductions that have an integer form."""


def lower_constant(lowering: Lowering, op: ConstantOp) -> SSAValue:
    """The constant of storage integers."""
    array = lowering.integers(op.output)
    assert array is not None
    return lowering.insert(constant_op(array, lowering.weights)).output


def lower_movement(lowering: Lowering, op: Operation) -> SSAValue:
    """The same op on storage; operands and result have one type, so that nothing has to be computed.

    Operands that are not quantized (indices, predicates) stay as they are.
    """
    result = quantized_element(op.results[0])
    assert result is not None
    for operand in op.operands:
        found = quantized_element(operand)
        if found is None and isinstance(element_of(operand), IntegerType):
            continue
        if found is None or (found.storage, found.data.scales, found.data.zero_points) != (
            result.storage,
            result.data.scales,
            result.data.zero_points,
        ):
            raise LoweringError(f"{describe(op)}: found an operand of type {operand.type}, expected elements {result}")
    return lowering.retyped(op, storage_element(result))


def lower_bits(lowering: Lowering, op: BitcastConvertOp) -> SSAValue:
    """`bitcast_convert` to a quantized type: the same op to its storage; nothing where that is the operand's type."""
    result = stored_element(op.result)
    assert result is not None
    if not result.storage.type.signed:
        raise LoweringError(f"{describe(op)}: found bits of {op.result.type}, expected signed storage")
    stored = lowering.stored(op.operand) if quantized_element(op.operand) is not None else op.operand
    element = storage_element(result)
    if element_of(stored) == element:
        return stored
    made = BitcastConvertOp.create(operands=[stored], result_types=[with_element(op.result, element)])
    return lowering.insert(made).results[0]


def lower_comparison(lowering: Lowering, op: CompareOp) -> SSAValue | None:
    """`compare` of two values of one type per layer on their storage, whose order is theirs; None for others."""
    lhs, rhs = quantized_element(op.lhs), quantized_element(op.rhs)
    if lhs is None or lhs != rhs or lhs.is_per_channel:
        return None
    check_storage(op)
    properties = {name: found for name, found in op.properties.items() if name != "compare_type"}
    stored = [lowering.stored(operand) for operand in op.operands]
    made = CompareOp.create(operands=stored, result_types=[op.result.type], properties=properties)
    return lowering.insert(made).results[0]


def lower_reduction(lowering: Lowering, op: ReduceOp | ReduceWindowOp) -> SSAValue | None:
    """`maximum`, `minimum` on any storage; `add` where the zero point is 0, as stored integers add up as they are.

    A sum in i32 saturates at every step, where it might pass 32 bits. The op stays as it is, with the reason, where its
    body is another one, or of another type than a widening of the operand's, or a sum that may pass narrower storage.
    """
    result = quantized_element(op.results[0])
    combined = op.body.block.first_op
    assert combined is not None
    if result is None or len(op.results) != 1 or (result.zero_points.any() and combined.name == "stablehlo.add"):
        raise LoweringError(f"{describe(op)}: found a sum at {op.results[0].type}, expected one result, zero point 0")
    reason = _why_kept(op, combined, result)
    if reason is not None:
        op.attributes.setdefault(FLOAT_REASON, StringAttr(reason))
        return None
    element = storage_element(result)
    operands: list[SSAValue] = []
    for operand in op.operands:
        kind = quantized_element(operand)
        assert kind is not None
        stored = lowering.stored(operand)
        operands.append(stored if kind == result else lowering.widened(stored, kind.zero_point, element))
    reduction = type(op).create(
        operands=operands,
        result_types=[with_element(op.results[0], element)],
        properties=dict(op.properties),
        attributes=dict(op.attributes),
        regions=[Region(_body(type(combined), element))],
    )
    if combined.name == "stablehlo.add" and not reduction_sums(lowering.ranges, reduction).partial.fits(32):
        reduction.regions[0].detach_block(0)
        reduction.regions[0].add_block(_saturating_body(lowering, result))
    return lowering.insert(reduction).results[0]


def _body(combine: type[Operation], element: IntegerType) -> Block:
    """One op on both arguments."""
    scalar = TensorType(element, [])
    block = Block(arg_types=[scalar, scalar])
    made = combine.create(operands=list(block.args), result_types=[scalar])
    block.add_ops([made, ReturnOp(made.results)])
    return block


def _saturating_body(lowering: Lowering, result: UniformQuantizedType) -> Block:
    """clamp(a + b), in i64: every sum saturates, as one of quantized values does."""
    element = storage_element(result)
    block = Block(arg_types=[TensorType(element, [])] * 2)
    wide = [ConvertOp(argument, TensorType(i64, [])) for argument in block.args]
    total = AddOp(wide[0].result, wide[1].result)
    bounds = (result.storage.minimum, result.storage.maximum)
    low, high = (constant_op(np.array(bound, np.int64), lowering.weights) for bound in bounds)
    inside = ClampOp(low.output, total.result, high.output)
    narrow = ConvertOp(inside.result, TensorType(element, []))
    block.add_ops([*wide, total, low, high, inside, narrow, ReturnOp([narrow.result])])
    return block


def _why_kept(op: ReduceOp | ReduceWindowOp, combined: Operation, result: UniformQuantizedType) -> str | None:
    """Why a reduction of quantized values has no integer form here; None where it has one."""
    ops, arguments = list(op.body.block.ops), list(op.body.block.args)
    if len(ops) != 2 or combined.name not in COMBINED or set(combined.operands) != set(arguments):
        return "only a sum, a maximum or a minimum of quantized values has an integer form"
    if any(quantized_element(argument) != result for argument in arguments):
        return "it converts what its body gives: only a body of the result's type has an integer form"
    kinds = [quantized_element(operand) for operand in op.operands]
    if any(kind is None or (kind != result and not is_widening(kind, result)) for kind in kinds):
        return "it converts its operand to another scale: only a widening one has an integer form"
    if combined.name == "stablehlo.add" and result.storage.type.width < 32 and _may_saturate(op, result):
        return f"a sum of {result.storage} saturates at every step: sums in i32 have an integer form"
    return None


def _may_saturate(op: ReduceOp | ReduceWindowOp, result: UniformQuantizedType) -> bool:
    """Whether some sum of as many values passes the storage of the result, whose zero point is 0."""
    kind, count = quantized_element(op.inputs[0]), terms(op)
    assert kind is not None
    low, high = (bound - kind.zero_point for bound in (kind.storage.minimum, kind.storage.maximum))
    return count * low < result.storage.minimum or count * high > result.storage.maximum

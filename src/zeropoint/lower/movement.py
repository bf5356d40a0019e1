"""Lowers data movement, maxima, minima and comparisons to storage integers.

```mlir
%0 = stablehlo.compare LT, %a, %b : (tensor<4x!quant.uniform<i8:f32, 0.5:3>>, tensor<4x!quant.uniform<i8:f32, 0.75>>)
```
becomes, with the ratio of the scales in integers,
```mlir
%0 = stablehlo.compare LT, (%a - 3) * 2, %b * 3 : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
```
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerType, i32, i64
from xdsl.ir import Operation, SSAValue

from zeropoint.ir.constants import constant_op
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.stablehlo import (
    BitcastConvertOp,
    CompareOp,
    ConstantOp,
    MultiplyOp,
)
from zeropoint.ir.tensors import element_of, with_element
from zeropoint.lower.context import (
    Lowering,
    LoweringError,
    check_storage,
    quantized_element,
    storage_element,
    stored_element,
)
from zeropoint.lower.float_islands import lower_in_float
from zeropoint.numerics.division import comparison_factors
from zeropoint.numerics.rounding import INT32_MAX


def lower_constant(lowering: Lowering, op: ConstantOp) -> SSAValue:
    """The constant of storage integers."""
    array = lowering.integers(op.output)
    assert array is not None
    return lowering.insert(constant_op(array, lowering.weights)).output


def lower_movement(lowering: Lowering, op: Operation) -> SSAValue:
    """The op on storage integers. Operands and result must have the same type; LoweringError otherwise.

    Integer operands that are not quantized (indices, predicates) stay unchanged.
    """
    result = quantized_element(op.results[0])
    assert result is not None
    for operand in op.operands:
        found = quantized_element(operand)
        # An index or a predicate.
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
    """`bitcast_convert` to a quantized type: the same op to its storage type, or no op if the operand has this type."""
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
    """`compare` on integers in the order of the real values: storage integers of one type, otherwise (q - z) * M.

    Values of different types are compared in float if the profile does so. None for per-channel values.
    """
    lhs, rhs = quantized_element(op.lhs), quantized_element(op.rhs)
    if lhs is None or rhs is None or lhs.is_per_channel or rhs.is_per_channel:
        return None
    # (q - z) * M of 32-bit operands may not fit 64 bits.
    narrow = max(lhs.storage.type.width, rhs.storage.type.width) <= 16
    if lhs != rhs and not (narrow and lowering.profile.integer_kernels):
        return lower_in_float(lowering, op, f"the profile '{lowering.profile.name}' compares {lhs} with {rhs} in float")
    check_storage(op)
    # `compare_type` FLOAT would not verify on integers.
    properties = {name: found for name, found in op.properties.items() if name != "compare_type"}
    stored = [lowering.stored(operand) for operand in op.operands]
    if lhs != rhs:
        stored = _common_terms(lowering, stored, (lhs, rhs))
    made = CompareOp.create(operands=stored, result_types=[op.result.type], properties=properties)
    return lowering.insert(made).results[0]


def _common_terms(
    lowering: Lowering, stored: Sequence[SSAValue], kinds: Sequence[UniformQuantizedType]
) -> list[SSAValue]:
    """(q - z) * M of both operands (`numerics.division`), in i32 if they fit."""
    factors = comparison_factors(*(kind.scale for kind in kinds))
    wide = any(kind.affine.reach * factor > INT32_MAX for kind, factor in zip(kinds, factors, strict=True))
    element = i64 if wide else i32
    centred = [lowering.widened(value, kind.zero_point, element) for value, kind in zip(stored, kinds, strict=True)]
    return [
        value if factor == 1 else lowering.insert(MultiplyOp(value, lowering.filled(value, factor, element))).result
        for value, factor in zip(centred, factors, strict=True)
    ]

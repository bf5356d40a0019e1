"""Lowers a function of one 8-bit value to a table of 256 entries, and of one 16-bit value to a table of 65,536.

```mlir
%1 = stablehlo.uniform_dequantize %0 : (tensor<4x!quant.uniform<i8:f32, 0.1>>) -> tensor<4xf32>
%2 = stablehlo.logistic %1 : tensor<4xf32>
%3 = stablehlo.uniform_quantize %2 : (tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 3.906250e-03:-128>>
```
becomes `fxpmath.table` with a constant: the results of these three ops for the 256 stored values. A function on
quantized types has the same meaning and becomes the same table. Only profiles with integer kernels have tables of
16-bit values. Entries are the function's results, rounded once: they differ by at most half a step from the f32
function. The quantization of converted integers (an attention mask) becomes a `gather` from a table of all integers
that do not saturate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable

import numpy as np
from xdsl.dialects.builtin import IntegerType, i64
from xdsl.ir import Operation, OpResult, SSAValue

from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.constants import splat_value
from zeropoint.ir.functions import chain_form, evaluate_chain, is_function
from zeropoint.ir.fxpmath import RealUnaryEwOp, TableOp
from zeropoint.ir.locations import describe
from zeropoint.ir.quant import UniformQuantizedType, dequantize, quantize
from zeropoint.ir.stablehlo import (
    ConvertOp,
    GatherDimensions,
    GatherOp,
    SubtractOp,
    UnaryOp,
    UniformDequantizeOp,
    UniformQuantizeOp,
)
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of, with_element
from zeropoint.ir.weights import RecentArrays
from zeropoint.lower.context import (
    Lowering,
    LoweringError,
    quantized_element,
    signed_integers,
    storage_element,
    stored_element,
)
from zeropoint.lower.float_islands import lower_in_float
from zeropoint.numerics import functions

MOST_ENTRIES = 1 << 12
"""The maximum number of entries of a table of converted integers."""
RECENT_TABLES = RecentArrays(64 << 20)


def function_source(op: UniformQuantizeOp, lowering: Lowering) -> UniformDequantizeOp | None:
    """The dequantization of the only value on which the chain of float functions before `op` depends.

    None if there are several, if the chain has another op, or if the value's type has no table.
    """
    sources: set[UniformDequantizeOp] = set()
    pending: list[SSAValue] = [op.operand]
    seen: set[Operation] = set()
    while pending:
        value = pending.pop()
        # Constants do not depend on the input.
        if splat_value(value, lowering.weights) is not None:
            continue
        producer = value.op if isinstance(value, OpResult) else None
        if isinstance(producer, UniformDequantizeOp):
            sources.add(producer)
        elif is_function(producer) and FLOAT_REASON not in producer.attributes:
            if producer not in seen:
                seen.add(producer)
                pending += producer.operands
        else:  # includes ops kept float by a recipe or the target
            return None
    # With two inputs, the table would need an entry for each pair of values.
    if len(sources) != 1:
        return None
    source = sources.pop()
    element = quantized_element(source.operand)
    return source if element is not None and has_table(lowering, element) else None


def has_table(lowering: Lowering, operand: UniformQuantizedType) -> bool:
    """Whether functions of a type have a table: it has 8 bits per layer, or 16 if the profile has integer kernels."""
    # Profiles of runtimes compute 16-bit functions as the runtimes do, not by whole tables.
    widths = (8, 16) if lowering.profile.integer_kernels else (8,)
    return operand.is_per_layer and operand.storage.type.width in widths


def integer_source(op: UniformQuantizeOp) -> SSAValue | None:
    """The integers that `op` quantizes, converted to floats; None for other operands."""
    made = op.operand.owner
    if not isinstance(made, ConvertOp) or not isinstance(element_of(made.operand), IntegerType):
        return None
    return made.operand if element_dtype(element_of(made.operand)).kind in "iu" else None


def lower_converted(lowering: Lowering, op: UniformQuantizeOp, integers: SSAValue) -> SSAValue | None:
    """A table lookup for converted integers. Quantization is monotonic, so integers beyond the table's ends saturate.

    None if more than `MOST_ENTRIES` integers have different results.
    """
    result = stored_element(op.result)
    assert result is not None
    if result.is_per_channel:
        return None
    storage, wide = result.storage, element_dtype(element_of(integers))
    low, high = ((bound - result.zero_point) * result.scale for bound in (storage.minimum, storage.maximum))
    limits = np.iinfo(wide)
    # Add one integer at each end, which certainly saturates, because floor and ceil may give a value that rounds
    # inside.
    first, last = max(math.floor(low) - 1, limits.min), min(math.ceil(high) + 1, limits.max)
    if last - first >= MOST_ENTRIES or first > last:
        return None
    domain = np.arange(first, last + 1).astype(element_dtype(element_of(op.operand)))
    table = lowering.constant(signed_integers(quantize(domain, result, lowering.profile.name)))
    # In i64, because the subtraction of `first` could overflow i32.
    inside = lowering.clamped(integers, first, last, i64)
    index = lowering.insert(SubtractOp(inside, lowering.filled(inside, first, i64))).result
    dimensions = GatherDimensions(
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=len(shape_of(integers))
    )
    return lowering.insert(GatherOp(table, index, dimensions, [1])).result


def lower_table(lowering: Lowering, op: UniformQuantizeOp, source: UniformDequantizeOp) -> SSAValue:
    """`fxpmath.table` for the float chain between `source` and `op`."""
    result = stored_element(op.result)
    assert result is not None
    form = chain_form(op.operand, source.result, lowering.weights)

    def image(domain: Array) -> Array:
        return evaluate_chain(op.operand, source.result, domain, lowering.weights)

    return _looked_up(lowering, source.operand, form, image, result)


def _looked_up(
    lowering: Lowering,
    operand: SSAValue,
    function: Hashable,
    image: Callable[[Array], Array],
    result: UniformQuantizedType,
) -> SSAValue:
    """`fxpmath.table` of a function: `image` at every stored value of `operand`, quantized to `result`.

    `function` identifies it: the gates of all steps of a recurrence have one table, and so have all lowerings of a
    network.
    """
    given, profile = quantized_element(operand), lowering.profile.name
    assert given is not None

    def entries() -> Array:
        stored = np.arange(given.storage.type.min, given.storage.type.max + 1, dtype=np.int32)
        return signed_integers(quantize(image(dequantize(stored, given)), result, profile))

    table = lowering.constant(RECENT_TABLES.get((function, given, result, profile), entries))
    value = lowering.stored(operand)
    return lowering.insert(TableOp(value, table, with_element(value, storage_element(result)))).result


def lower_function(lowering: Lowering, op: UnaryOp) -> SSAValue:
    """A function of a quantized value: a table if the type has one, otherwise the op in float."""
    given, result = quantized_element(op.operand), stored_element(op.result)
    assert given is not None and result is not None
    if not has_table(lowering, given) or result.is_per_channel:
        return lower_in_float(lowering, op, "only functions of one 8-bit value per layer have a table")
    return _table_of(lowering, op.operand, op.name.removeprefix("stablehlo."), result)


def lower_named_function(lowering: Lowering, op: RealUnaryEwOp, name: str) -> SSAValue:
    """The table of a real function.

    Raises LoweringError for 16-bit operands under a profile without tables of 65,536 entries.
    """
    given, result = quantized_element(op.operand), stored_element(op.result)
    assert given is not None and result is not None
    if not has_table(lowering, given):
        raise LoweringError(
            f"{describe(op)}: found {op.fn.data} of {op.operand.type} under the profile '{lowering.profile.name}', "
            "expected 8 bits, or a profile with tables of 16 bits: fixed16, fixed32"
        )
    return _table_of(lowering, op.operand, name, result)


def _table_of(lowering: Lowering, operand: SSAValue, name: str, result: UniformQuantizedType) -> SSAValue:
    def image(domain: Array) -> Array:
        # The logarithm and the reciprocal root are infinite at 0, which saturates and is no error.
        with np.errstate(all="ignore"):
            return functions.UNARY[name](domain)

    return _looked_up(lowering, operand, name, image, result)

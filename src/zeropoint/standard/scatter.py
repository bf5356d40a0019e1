"""`stablehlo.scatter` as a loop over the elements of the updates, in their order.

```mlir
%y = "stablehlo.scatter"(%x, %rows, %updates) ({ add }) : (tensor<9xi32>, tensor<3x1xi64>, tensor<3xi32>) -> ...
```
becomes
```mlir
%y = scf.for %k = %c0 to %c3 step %c1 iter_args(%total = %x) -> (tensor<9xi32>) {
  %row = tensor.extract %rows[%k, %c0] : tensor<3x1xi64>
  %at = arith.index_cast %row : i64 to index
  %inside = arith.cmpi ult, %at, %c9 : index
  %here = arith.select %inside, %at, %c0 : index
  %old = tensor.extract %total[%here] : tensor<9xi32>
  %update = tensor.extract %updates[%k] : tensor<3xi32>
  %sum = arith.addi %old, %update : i32
  %new = arith.select %inside, %sum, %old : i32
  %next = tensor.insert %new into %total[%here] : tensor<9xi32>
  scf.yield %next : tensor<9xi32>
}
```
For an update out of bounds, the loop writes back the element at index 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xdsl.dialects import arith, scf, tensor
from xdsl.dialects.builtin import IndexType, i1
from xdsl.ir import Block, SSAValue

from zeropoint.ir import stablehlo as hlo
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.standard.arithmetic import Element
from zeropoint.standard.bodies import scalar_results
from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.indexing import bounded
from zeropoint.standard.lowering import Standard
from zeropoint.standard.scalars import GenericBody, ScalarArithmetic


def lower_scatter(std: Standard, op: hlo.ScatterOp) -> Sequence[SSAValue]:
    """`scf.for` over the elements of the updates. The results have the types of the body."""
    arguments, count = op.update_computation.block.args, len(op.inputs)
    totals = [
        std.converted(std.value(value), scalar_type(op, wanted), unsigned=is_unsigned(value))
        for value, wanted in zip(op.inputs, arguments[:count], strict=True)
    ]
    if 0 in shape_of(op.inputs[0]):
        return totals
    block = Block(arg_types=[IndexType(), *(total.type for total in totals)])
    body, given = GenericBody(0, op.location, block), block.args[1:]
    shape = shape_of(op.updates[0])
    at = _coordinates(body, block.args[0], shape)
    here, inside = _target(std, op, body, at)
    old = [body.value(tensor.ExtractOp(total, here, element_of(total))) for total in given]
    updates = [
        _update(std, body, value, (at, scalar_type(op, wanted)))
        for value, wanted in zip(op.updates, arguments[count:], strict=True)
    ]
    made = scalar_results(std, op, op.update_computation.block, body, [*old, *updates])
    chosen = [body.value(arith.SelectOp(inside, new, was)) for new, was in zip(made, old, strict=True)]
    written = [body.value(tensor.InsertOp(new, total, here)) for new, total in zip(chosen, given, strict=True)]
    block.add_op(scf.YieldOp(*written))
    low, high, step = (std.index(number) for number in (0, math.prod(shape), 1))
    return std.insert(scf.ForOp(low, high, step, totals, block)).results


def _update(std: Standard, body: GenericBody, value: SSAValue, wanted: tuple[Sequence[SSAValue], Element]) -> SSAValue:
    """An element of the updates, in the type of the body."""
    (at, element), found = wanted, std.value(value)
    ops = ScalarArithmetic(body, std.constant, unsigned=is_unsigned(value))
    return ops.converted(body.value(tensor.ExtractOp(found, at, element_of(found))), element)


def _coordinates(body: GenericBody, flat: SSAValue, shape: Sequence[int]) -> list[SSAValue]:
    """The indices of an element, from its number in row-major order."""
    found: list[SSAValue] = []
    for dim in reversed(range(len(shape))):
        if shape[dim] == 1:
            found.append(body.number(0, IndexType()))
            continue
        size, is_last = body.number(shape[dim], IndexType()), math.prod(shape[:dim]) == 1
        found.append(flat if is_last else body.value(arith.RemUIOp(flat, size)))
        flat = flat if is_last else body.value(arith.DivUIOp(flat, size))
    return found[::-1]


def _target(
    std: Standard, op: hlo.ScatterOp, body: GenericBody, at: Sequence[SSAValue]
) -> tuple[list[SSAValue], SSAValue]:
    """The position at which an update is applied, and whether it is in bounds. Indices out of bounds become 0."""
    dims, shape = op.scatter_dimension_numbers.data, shape_of(op.inputs[0])
    batch = [at[dim] for dim in range(len(at)) if dim not in dims.update_window_dims]
    windows = iter([at[dim] for dim in dims.update_window_dims])
    position: list[SSAValue] = []
    inside: SSAValue | None = None
    for dim, size in enumerate(shape):
        parts: list[SSAValue] = []
        if dim in dims.scatter_dims_to_operand_dims:
            parts.append(_start(std, op, body, (batch, dims.scatter_dims_to_operand_dims.index(dim), size)))
        if dim in dims.input_batching_dims:
            axis = dims.scatter_indices_batching_dims[dims.input_batching_dims.index(dim)]
            parts.append(batch[axis - (axis > dims.index_vector_dim)])
        elif dim not in dims.inserted_window_dims:
            parts.append(next(windows))
        found = parts[0] if parts else body.number(0, IndexType())
        for part in parts[1:]:
            found = body.value(arith.AddiOp(found, part))
        # One unsigned comparison tests both bounds: a negative index is above every size.
        fits = body.value(arith.CmpiOp(found, body.number(size, IndexType()), "ult"))
        position.append(body.value(arith.SelectOp(fits, found, body.number(0, IndexType()))))
        inside = fits if inside is None else body.value(arith.AndIOp(inside, fits))
    return position, body.number(True, i1) if inside is None else inside


def _start(std: Standard, op: hlo.ScatterOp, body: GenericBody, which: tuple[Sequence[SSAValue], int, int]) -> SSAValue:
    """A start index of type index. `which` is (indices of the index vector, component in it, size of the dimension)."""
    (batch, number, size), starts = which, std.value(op.scatter_indices)
    place = list(batch)
    if op.scatter_dimension_numbers.data.index_vector_dim < len(shape_of(starts)):
        place.insert(op.scatter_dimension_numbers.data.index_vector_dim, body.number(number, IndexType()))
    start = body.value(tensor.ExtractOp(starts, place, element_of(starts)))
    return bounded(body, start, size, unsigned=is_unsigned(op.scatter_indices))

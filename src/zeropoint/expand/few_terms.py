"""Products of images with a constant matrix that has few nonzero terms per column: sums of scaled rows or columns.

Resizing has such a product for rows and one for columns, as in the lowered program of a linear one:

```mlir
%y = stablehlo.dot_general %x, %w, contracting_dims = [2] x [0] : (tensor<1x64x24x24xi8>, tensor<24x48xi8>) -> ...
```
becomes
```mlir
%0 = "stablehlo.gather"(%x, %first) ...        row %first[j] of %x for every column j of %w
%1 = stablehlo.multiply %0, %factors           after a conversion to the type of the result
...                                            the same for the second row
%y = stablehlo.add %1, %3
```
Images have their channels innermost in native code, so the terms of such a product are apart, and no kernel of products
takes them. A loop nest computes the sums, whole vectors of channels at a time. Sums wrap around as in the product, so
their order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.builder import Builder
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from zeropoint.expand.emission import Emission
from zeropoint.ir.annotations import DOT_FORM
from zeropoint.ir.constants import constant_array
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import AddOp, ConvertOp, DotGeneralOp, GatherDimensions, GatherOp, MultiplyOp
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.weights import Weights

MOST = 8
"""Terms of a column. Each takes a load, a conversion, a multiplication and an addition."""
IMAGE = 4
"""The rank of images."""


def with_few_terms(program: Program, channel: int | None) -> Program:
    """A copy in which such products of images are sums; the program itself if it has none.

    `channel` is the dimension of the channels of images; None if the program has no images.
    """
    if channel is None or not any(_factors(op, channel, program.weights) for op in program.entry.ops):
        return program
    program = program.clone()
    for op in list(program.entry.ops):
        factors = _factors(op, channel, program.weights)
        if factors and isinstance(op, DotGeneralOp):
            emit = Emission(Builder(InsertPoint.before(op)), program.weights, op.location)
            Rewriter.replace_op(op, [], [_summed(emit, op, *factors)])
    return program


def _factors(op: Operation, channel: int, weights: Weights) -> tuple[Array, Array] | None:
    """The positions of the nonzero terms of every column, and their factors; None if an op is no such product.

    Both have a row for each term of the longest column. The others are filled up with factors of 0.
    """
    if not isinstance(op, DotGeneralOp) or DOT_FORM in op.attributes or len(shape_of(op.lhs)) != IMAGE:
        return None
    dims, elements = op.dot_dimension_numbers.data, [element_of(value) for value in (op.lhs, op.rhs, op.result)]
    if any(element_dtype(element).kind not in "iu" for element in elements) or dims.lhs_batching_dimensions:
        return None
    if len(dims.lhs_contracting_dimensions) != 1 or dims.lhs_contracting_dimensions[0] in (0, channel):
        return None
    constant = op.rhs.owner.operand if isinstance(op.rhs.owner, ConvertOp) else op.rhs
    matrix = constant_array(constant, weights)
    if matrix is None or matrix.ndim != 2:
        return None
    matrix = np.moveaxis(matrix.astype(element_dtype(elements[1])), dims.rhs_contracting_dimensions[0], 0)
    count = max(1, int(np.count_nonzero(matrix, axis=0).max(initial=0)))
    if count > min(MOST, len(matrix) // 2):
        return None
    # Nonzero terms first, in their order.
    positions = np.argsort(matrix == 0, axis=0, kind="stable")[:count]
    return positions, np.take_along_axis(matrix, positions, axis=0)


def _summed(emit: Emission, op: DotGeneralOp, positions: Array, factors: Array) -> SSAValue:
    shape, element = shape_of(op.result), element_of(op.result)
    # A conversion commutes with a gather, which then moves fewer bytes.
    source = op.lhs.owner.operand if isinstance(op.lhs.owner, ConvertOp) else op.lhs
    (term,) = op.dot_dimension_numbers.data.lhs_contracting_dimensions
    total: SSAValue | None = None
    for at, some in zip(positions, factors, strict=True):
        rows = emit.converted(emit.converted(_gathered(emit, source, term, at), element_of(op.lhs)), element)
        numbers = emit.constant(some.astype(element_dtype(element)))
        product = emit.add(MultiplyOp(rows, emit.spread(numbers, shape, (len(shape) - 1,))))
        total = product if total is None else emit.add(AddOp(total, product))
    assert total is not None
    return total


def _gathered(emit: Emission, source: SSAValue, term: int, positions: Sequence[int]) -> SSAValue:
    """The elements at some positions of dimension `term`, which becomes the last one."""
    sizes = [1 if d == term else size for d, size in enumerate(shape_of(source))]
    dimensions = GatherDimensions(
        offset_dims=tuple(range(len(sizes) - 1)),
        collapsed_slice_dims=(term,),
        start_index_map=(term,),
        index_vector_dim=1,
    )
    return emit.add(GatherOp(source, emit.constant(np.array(positions, np.int32)), dimensions, sizes))

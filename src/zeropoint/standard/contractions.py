"""Matrix products and convolutions as linalg named ops; other forms as `linalg.generic`.

A constant operand is transposed at compile time to the layout of the named op. Named ops sign-extend their operands, so
products of unsigned integers become generics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, DenseIntElementsAttr, IntegerType, TensorType, i64
from xdsl.dialects.linalg.ops import Conv2DNchwFchwOp, Conv2DNgchwGfchwOp, TransposeOp
from xdsl.ir import OpResult, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from zeropoint.ir.stablehlo import ConvertOp, ConvolutionLayout, ConvolutionOp, DotGeneralOp
from zeropoint.ir.stablehlo.arrays import array_values
from zeropoint.ir.standard.linalg import BatchMatmulOp, DepthwiseConv2DNchwChwOp, MatmulOp
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.window_padding import padding_of
from zeropoint.standard.element_types import is_unsigned, scalar_type
from zeropoint.standard.lowering import Standard, product_body
from zeropoint.standard.movement import padded, reshaped

Dims = Sequence[int]


def narrow(std: Standard, value: SSAValue) -> SSAValue:
    """The constant before a conversion to a wider type; other values unchanged.

    Named ops extend their operands themselves.
    """
    made = value.owner if isinstance(value, OpResult) else None
    if isinstance(made, ConvertOp) and std.array(made.operand) is not None:
        given, wanted = element_of(made.operand), element_of(value)
        if isinstance(given, IntegerType) and isinstance(wanted, IntegerType) and given.bitwidth < wanted.bitwidth:
            return made.operand
    return value


def transposed(std: Standard, value: SSAValue, permutation: Dims) -> SSAValue:
    """The standard tensor of a value, transposed: dimension i of the result is dimension permutation[i]."""
    if list(permutation) == sorted(permutation):
        return std.value(value)
    array = std.array(value)
    if array is not None:
        return std.constant(array.transpose(permutation), element_of(value))
    shape = [shape_of(value)[dim] for dim in permutation]
    given = std.value(value)
    init = std.empty(shape, element_of(given))
    op = TransposeOp(given, init, DenseArrayBase.from_list(i64, permutation), init.type)
    return std.insert(op).results[0]


def lower_dot_general(std: Standard, op: DotGeneralOp) -> SSAValue:
    """`linalg.matmul` or `linalg.batch_matmul` for products of integer matrices, otherwise a generic.

    Several batching, free or contracting dimensions are collapsed into one.
    """
    dims, left, right = op.dot_dimension_numbers.data, narrow(std, op.lhs), narrow(std, op.rhs)
    batch = (dims.lhs_batching_dimensions, dims.rhs_batching_dimensions)
    contracted = (dims.lhs_contracting_dimensions, dims.rhs_contracting_dimensions)
    free = [
        [dim for dim in range(len(shape_of(side))) if dim not in (*b, *c)]
        for side, b, c in zip((left, right), batch, contracted, strict=True)
    ]
    result = scalar_type(op, op.result)
    matrices = free[0] and free[1] and contracted[0] and isinstance(result, IntegerType)
    if not matrices or is_unsigned(left) or is_unsigned(right):
        init = std.filled(shape_of(op.result), result, 0)
        return _general_product(std, (left, right), init, (batch, contracted, free))
    a = _matrices(std, left, (batch[0], free[0], contracted[0]))
    b = _matrices(std, right, (batch[1], contracted[1], free[1]))
    shape = [*shape_of(a)[:-1], shape_of(b)[-1]]
    named = BatchMatmulOp if batch[0] else MatmulOp
    made = std.insert(named([a, b], [std.filled(shape, result, 0)])).results[0]
    return reshaped(std, made, shape_of(op.result))


def _matrices(std: Standard, value: SSAValue, groups: tuple[Dims, Dims, Dims]) -> SSAValue:
    """The standard tensor of a value with each group of dimensions collapsed into one.

    An empty first group is left out.
    """
    given, permutation = shape_of(value), [dim for group in groups for dim in group]
    shape = [math.prod(given[dim] for dim in group) for group in (groups if groups[0] else groups[1:])]
    array = std.array(value)
    if array is not None and tuple(shape) != tuple(given):
        return std.constant(array.transpose(permutation).reshape(shape), element_of(value))
    return reshaped(std, transposed(std, value, permutation), shape)


def _general_product(
    std: Standard,
    operands: tuple[SSAValue, SSAValue],
    init: SSAValue,
    dims: tuple[tuple[Dims, Dims], tuple[Dims, Dims], list[list[int]]],
) -> SSAValue:
    """A generic with these loops: batching dimensions, free dimensions of lhs, those of rhs, contracting dimensions."""
    batch, contracted, free = dims
    counts = [len(batch[0]), len(free[0]), len(free[1]), len(contracted[0])]
    starts = [sum(counts[:index]) for index in range(5)]
    maps: list[AffineMap] = []
    for side, operand in enumerate(operands):
        loops = {
            **{dim: starts[0] + index for index, dim in enumerate(batch[side])},
            **{dim: starts[1 + side] + index for index, dim in enumerate(free[side])},
            **{dim: starts[3] + index for index, dim in enumerate(contracted[side])},
        }
        results = tuple(AffineExpr.dimension(loops[dim]) for dim in range(len(shape_of(operand))))
        maps.append(AffineMap(starts[4], 0, results))
    maps.append(AffineMap(starts[4], 0, tuple(AffineExpr.dimension(dim) for dim in range(starts[3]))))
    values = [std.value(operand) for operand in operands]
    block = product_body([element_of(value) for value in (*values, init)], [*map(is_unsigned, operands)])
    return std.reduction(values, init, block, (maps, starts[3], counts[3]))


def pair(values: Dims) -> DenseIntElementsAttr:
    """Strides or dilations as linalg's named ops hold them."""
    return cast("DenseIntElementsAttr", DenseIntElementsAttr.from_list(TensorType(i64, [len(values)]), list(values)))


def lower_convolution(std: Standard, op: ConvolutionOp) -> SSAValue:
    """A named op for signed two-dimensional convolutions of channels-first layout, otherwise a generic.

    Padding becomes `tensor.pad`.
    """
    layout, groups = op.dimension_numbers.data, int(op.feature_group_count.value.data)
    rank = len(layout.input_spatial_dimensions)
    if int(op.batch_group_count.value.data) != 1 or (
        op.window_reversal is not None and any(array_values(op.window_reversal))
    ):
        raise std.refuse(op, "found groups of batches or a reversed window, expected neither")
    strides, dilations = (array_values(found, (1,) * rank) for found in (op.window_strides, op.rhs_dilation))
    given = _padded_input(std, op)
    # The bodies of the named convolutions extend both operands or none.
    weight = op.rhs if element_of(given) == scalar_type(op, op.result) else narrow(std, op.rhs)
    plain = layout == ConvolutionLayout.channels_first(rank)
    signed = isinstance(scalar_type(op, op.result), IntegerType) and not is_unsigned(op.lhs) and not is_unsigned(weight)
    if not plain or rank != 2 or not signed:
        return _general_convolution(std, op, given, weight, (strides, dilations, groups))
    filters = shape_of(weight)
    if groups > 1 and filters[1] == 1 and filters[0] == groups:
        filter_values = _reshaped_weight(std, weight, (filters[0], *filters[2:]))
        return _named(
            std, DepthwiseConv2DNchwChwOp, (given, filter_values), shape_of(op.result), op, (strides, dilations)
        )
    if groups == 1:
        return _named(std, Conv2DNchwFchwOp, (given, std.value(weight)), shape_of(op.result), op, (strides, dilations))
    batch, channels, *spatial = shape_of(given)
    outputs = shape_of(op.result)
    apart = reshaped(std, given, (batch, groups, channels // groups, *spatial))
    filter_values = _reshaped_weight(std, weight, (groups, filters[0] // groups, *filters[1:]))
    shape = (outputs[0], groups, outputs[1] // groups, *outputs[2:])
    found = _named(std, Conv2DNgchwGfchwOp, (apart, filter_values), shape, op, (strides, dilations))
    return reshaped(std, found, outputs)


def _named(
    std: Standard,
    kind: type[Conv2DNchwFchwOp | Conv2DNgchwGfchwOp | DepthwiseConv2DNchwChwOp],
    operands: tuple[SSAValue, SSAValue],
    shape: Dims,
    op: ConvolutionOp,
    window: tuple[Dims, Dims],
) -> SSAValue:
    init = std.filled(shape, scalar_type(op, op.result), 0)
    made = kind(operands, [init], [init.type], strides=pair(window[0]), dilations=pair(window[1]))
    return std.insert(made).results[0]


def _reshaped_weight(std: Standard, weight: SSAValue, shape: Dims) -> SSAValue:
    array = std.array(weight)
    if array is not None:
        return std.constant(array.reshape(shape), element_of(weight))
    return reshaped(std, std.value(weight), tuple(shape))


def _padded_input(std: Standard, op: ConvolutionOp) -> SSAValue:
    """The input after zero padding at its edges and, if it is dilated, between its elements."""
    zero = 0 if isinstance(scalar_type(op, op.lhs), IntegerType) else 0.0
    return padded(std, std.value(op.lhs), lambda: std.number(zero, scalar_type(op, op.lhs)), padding_of(op))


def _general_convolution(
    std: Standard, op: ConvolutionOp, given: SSAValue, weight: SSAValue, window: tuple[Dims, Dims, int]
) -> SSAValue:
    """A generic with these loops: batch, groups, a group's output features, positions, a group's input features,
    window.
    """
    strides, dilations, groups = window
    layout = op.dimension_numbers.data
    rank = len(strides)
    a = _apart(std, given, layout.input_feature_dimension, groups)
    b = _apart(std, std.value(weight), layout.kernel_output_feature_dimension, groups)
    shape = shape_of(op.result)
    feature = layout.output_feature_dimension
    init = std.filled(
        (*shape[:feature], groups, shape[feature] // groups, *shape[feature + 1 :]), scalar_type(op, op.result), 0
    )
    loop = [AffineExpr.dimension(dim) for dim in range(4 + 2 * rank)]
    n, g, f, c = loop[0], loop[1], loop[2], loop[3 + rank]
    positions, offsets = loop[3 : 3 + rank], loop[4 + rank :]
    reads = [p * s + k * d for p, s, k, d in zip(positions, strides, offsets, dilations, strict=True)]
    maps = [
        _inserted(
            len(loop),
            layout.input_batch_dimension,
            n,
            layout.input_feature_dimension,
            (g, c),
            layout.input_spatial_dimensions,
            reads,
        ),
        _inserted(
            len(loop),
            layout.kernel_input_feature_dimension,
            c,
            layout.kernel_output_feature_dimension,
            (g, f),
            layout.kernel_spatial_dimensions,
            offsets,
        ),
        _inserted(
            len(loop), layout.output_batch_dimension, n, feature, (g, f), layout.output_spatial_dimensions, positions
        ),
    ]
    block = product_body([element_of(value) for value in (a, b, init)], [is_unsigned(op.lhs), is_unsigned(weight)])
    found = std.reduction([a, b], init, block, (maps, 3 + rank, 1 + rank))
    return reshaped(std, found, shape)


def _apart(std: Standard, value: SSAValue, dim: int, groups: int) -> SSAValue:
    """A tensor with one dimension split into groups."""
    shape = shape_of(value)
    assert shape[dim] % groups == 0
    return reshaped(std, value, (*shape[:dim], groups, shape[dim] // groups, *shape[dim + 1 :]))


def _inserted(
    rank: int,
    one: int,
    one_expression: AffineExpr,
    split: int,
    split_expressions: tuple[AffineExpr, AffineExpr],
    spatial: Dims,
    expressions: Sequence[AffineExpr],
) -> AffineMap:
    """The indexing map of a tensor in which one dimension is split into groups."""
    found: dict[int, tuple[AffineExpr, ...]] = {one: (one_expression,), split: split_expressions}
    found |= {dim: (expression,) for dim, expression in zip(spatial, expressions, strict=True)}
    return AffineMap(rank, 0, tuple(expression for dim in sorted(found) for expression in found[dim]))

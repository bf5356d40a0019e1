"""Converts scalars and tensors (ranked, dynamic, unranked) by per-layer, per-channel and sub-channel types.

A tensor of unknown rank is reshaped to one dimension, or to three with the channels in the middle, and back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xdsl.builder import Builder
from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AffineMapAttr,
    DenseIntOrFPElementsAttr,
    IndexType,
    TensorType,
    UnrankedTensorType,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import GenericOp, YieldOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.rewriter import InsertPoint

from zeropoint.ir.floats import float_format, round_to
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.containers import element_or_self, is_tensor, ranked_shape
from zeropoint.ir.standard.shape import NumElementsOp, ShapeOfOp, SplitAtOp
from zeropoint.ir.standard.tensor import ReshapeOp
from zeropoint.ir.weights import ElementsAttr, Weights
from zeropoint.numerics.storage import half_range
from zeropoint.quant_passes.affine import ScalarParameters
from zeropoint.quant_passes.emitter import ElementwiseEmitter, Emitter

ConvertNumbers = Callable[[ElementwiseEmitter, SSAValue, ScalarParameters], SSAValue]
"""Emits ops that convert a value, given its scale and zero point."""


@dataclass(frozen=True)
class Conversion:
    """The conversion of an op's values.

    `result_element` is the element type of the result. With `on_tensors`, `convert` takes whole tensors; otherwise it
    takes scalars, and tensors are converted in a `linalg.generic`.
    """

    quantized: UniformQuantizedType
    result_element: Attribute
    convert: ConvertNumbers
    on_tensors: bool
    weights: Weights


def convert_value(emit: Emitter, value: SSAValue, conversion: Conversion) -> SSAValue:
    """The converted value: a scalar or a tensor of the same shape."""
    axis = conversion.quantized.axis
    if not isinstance(value.type, UnrankedTensorType):
        return _convert_ranked(emit, value, conversion, axis)
    extents = emit.value(ShapeOfOp(value))
    if axis is None:
        flat = _flatten(emit, value, extents)
    else:
        flat = _flatten_around(emit, value, extents, axis, len(conversion.quantized.data.scales))
    result = _convert_ranked(emit, flat, conversion, None if axis is None else 1)
    return emit.value(ReshapeOp(result, extents, UnrankedTensorType(element_or_self(result.type))))


def _flatten(emit: Emitter, value: SSAValue, extents: SSAValue) -> SSAValue:
    """Reshape an unranked tensor to rank 1."""
    size = emit.value(NumElementsOp(extents))
    flat_extents = emit.value(tensor.FromElementsOp(size))
    return emit.value(ReshapeOp(value, flat_extents, TensorType(element_or_self(value.type), [DYNAMIC_INDEX])))


def _flatten_around(emit: Emitter, value: SSAValue, extents: SSAValue, axis: int, channels: int) -> SSAValue:
    """Reshape an unranked tensor to shape [?, channels, ?]."""
    before, after = emit.index(axis), emit.index(axis + 1)
    left = emit.value(NumElementsOp(emit.add(SplitAtOp(extents, before)).head))
    right = emit.value(NumElementsOp(emit.add(SplitAtOp(extents, after)).tail))
    middle = emit.index(channels)
    flat_extents = emit.value(tensor.FromElementsOp(left, middle, right, result_type=TensorType(IndexType(), [3])))
    flat_type = TensorType(element_or_self(value.type), [DYNAMIC_INDEX, channels, DYNAMIC_INDEX])
    return emit.value(ReshapeOp(value, flat_extents, flat_type))


def _convert_ranked(emit: Emitter, value: SSAValue, conversion: Conversion, axis: int | None) -> SSAValue:
    quantized = conversion.quantized
    if not quantized.is_per_layer:
        return _generic(emit, value, conversion, _parameter_map(value, quantized, axis))
    if is_tensor(value.type) and not conversion.on_tensors:
        return _generic(emit, value, conversion, None)
    parameters = _scalar_parameters(emit, quantized)
    ops = ElementwiseEmitter(emit, ranked_shape(value.type), emit.dynamic_sizes(value))
    return conversion.convert(ops, value, parameters)


def _scalar_parameters(emit: Emitter, quantized: UniformQuantizedType) -> ScalarParameters:
    """The parameters of a per-layer type as scalar constants."""
    scale = emit.real(quantized.scale, quantized.expressed_type)
    unknown = ScalarParameters(quantized, scale, None)
    zero_point = emit.integer(quantized.zero_point, unknown.integer)
    return ScalarParameters(quantized, scale, zero_point) if quantized.zero_point else unknown


def _parameter_map(value: SSAValue, quantized: UniformQuantizedType, axis: int | None) -> AffineMap:
    """Maps the indices of an element to those of its scale and zero point."""
    rank = len(ranked_shape(value.type) or ())
    if axis is not None:
        return AffineMap(rank, 0, (AffineExpr.dimension(axis),))
    sizes = dict(quantized.blocks or ())
    constant = AffineExpr.constant(0)
    results = [AffineExpr.dimension(i) // sizes[i] if i in sizes else constant for i in range(rank)]
    return AffineMap(rank, 0, tuple(results))


def _generic(emit: Emitter, value: SSAValue, conversion: Conversion, parameter_map: AffineMap | None) -> SSAValue:
    """A `linalg.generic` over the elements. With `parameter_map`, scales and zero points are operands of it."""
    quantized, shape = conversion.quantized, ranked_shape(value.type)
    assert shape is not None
    inputs = [value]
    if parameter_map is not None:
        inputs += [emit.elements(attribute) for attribute in _parameter_elements(quantized, conversion.weights)]
    result_type = TensorType(conversion.result_element, shape)
    empty = emit.value(tensor.EmptyOp(emit.dynamic_sizes(value), result_type))
    block = Block(arg_types=[element_or_self(operand.type) for operand in (*inputs, empty)])
    body = Emitter(Builder(InsertPoint.at_end(block)), emit.location)
    if parameter_map is None:
        parameters = _scalar_parameters(body, quantized)
    else:
        parameters = ScalarParameters(quantized, block.args[1], block.args[2])
    result = conversion.convert(ElementwiseEmitter(body), block.args[0], parameters)
    body.add(YieldOp(result))
    identity = AffineMapAttr(AffineMap.identity(len(shape)))
    maps = [identity, *[AffineMapAttr(parameter_map)] * 2, identity] if parameter_map is not None else [identity] * 2
    iterators = [IteratorTypeAttr(IteratorType.PARALLEL)] * len(shape)
    return emit.value(GenericOp(inputs, [empty], Region(block), maps, iterators, [result_type]))


def _parameter_elements(quantized: UniformQuantizedType, weights: Weights) -> tuple[ElementsAttr, ElementsAttr]:
    """Scales in the expressed type and zero points in the storage type."""
    expressed, storage = quantized.expressed_type, quantized.storage
    dtype = float_format(expressed).dtype
    if dtype is not None:
        scales = weights.attribute(quantized.scales.astype(dtype), expressed)
    else:
        rounded = [round_to(scale, expressed) for scale in quantized.data.scales]
        scales = DenseIntOrFPElementsAttr.from_list(TensorType(expressed, quantized.scales.shape), rounded)
    # Signless integers with the same bits; narrow ones are sign-extended in their containers.
    wrapped = quantized.zero_points
    if not storage.type.signed:
        wrapped = np.where(wrapped >= half_range(storage.type.width), wrapped - (1 << storage.type.width), wrapped)
    container = np.dtype(f"i{np.dtype(storage.dtype).itemsize}")
    return scales, weights.attribute(wrapped.astype(container), storage.mlir_type)

"""Evaluate integers that nodes compute from constants and shapes, where constant folding did not.

Nodes that move elements have the forms of the converters (`movement.py`). The others are evaluated by ONNX's reference
implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from zeropoint.frontend.onnx.builder import Builder
from zeropoint.frontend.onnx.growth import result_elements
from zeropoint.frontend.onnx.movement import sliced_positions, squeezed_shape, unsqueezed_shape
from zeropoint.frontend.onnx.node import NodeError, OnnxNode
from zeropoint.ir.tensors import Array, shape_of

ELEMENTS = 8192
"""Maximum number of elements of an evaluated tensor."""
_LEFT = frozenset({"Constant", "DequantizeLinear", "If", "Loop", "QuantizeLinear", "Scan"})


def evaluated(node: NodeProto, opset: int, build: Builder) -> list[Array] | None:
    """The results of a node with constant integer inputs, or of a node that only reads a shape; None for others."""
    if node.domain not in ("", "ai.onnx") or node.op_type in _LEFT:
        return None
    if node.op_type in ("Shape", "Size"):
        if not build.is_known(node.input[0]):
            return None
        # The node reads only the shape, so a broadcast number of that shape can replace the value.
        arrays: list[Array | None] = [np.broadcast_to(np.float32(0), shape_of(build.value(node.input[0])))]
    else:
        arrays = [build.array(name) if name else None for name in node.input]
        given = [array for name, array in zip(node.input, arrays, strict=True) if name]
        small = all(a is not None and a.dtype.kind in "iub" and a.size <= ELEMENTS for a in given)
        if not given or not small or node.op_type in ("Identity",):
            return None
        if result_elements(node.op_type, arrays) > ELEMENTS:
            return None
    if node.op_type in _MOVES:
        return _moved(OnnxNode(node, opset, build), arrays)
    from onnx.reference import ReferenceEvaluator  # builds a table of all operators, needed only here

    names = [name for name in node.output if name]
    model = _model(node, arrays, names, opset)
    try:
        found: Any = ReferenceEvaluator(model).run(None, _feeds(node, arrays))  # pyright: ignore[reportUnknownMemberType] (onnx has no types here)
    except Exception:  # a node of the file may fail in any way; the converter reports the reason
        return None
    results = [np.asarray(array) for array in found]
    return results if all(array.size <= ELEMENTS and array.dtype.kind in "iubf" for array in results) else None


def _moved(node: OnnxNode, arrays: Sequence[Array | None]) -> list[Array] | None:
    """The result of a node that moves elements; None if it is not valid, whose reason the converter reports."""
    data, *others = arrays
    try:
        result = None if data is None else _MOVES[node.op_type](node, data, others)
    except NodeError:
        return None
    return None if result is None else [result]


def _elements(node: OnnxNode, data: Array, others: Sequence[Array | None]) -> Array | None:
    """`GatherElements`. ONNX's reference fails for tensors of one row."""
    (indices,) = others
    axis = node.integer("axis", 0)
    if indices is None or data.ndim != indices.ndim or not -data.ndim <= axis < data.ndim:
        return None
    rest = [slice(size) for size in indices.shape]
    rest[axis] = slice(None)
    read = data[tuple(rest)]
    size = read.shape[axis]
    if np.delete(read.shape, axis).tolist() != np.delete(indices.shape, axis).tolist():
        return None
    if indices.size and not -size <= indices.min() <= indices.max() < size:
        return None
    return np.take_along_axis(read, indices, axis)


def _shape(node: OnnxNode, data: Array, _: Sequence[Array | None]) -> Array:
    """`Shape` with its bounds, which are clamped to the dimensions."""
    sizes, start = data.shape, node.integer("start", 0)
    return np.array(sizes[start : node.integer("end", len(sizes))], np.int64)


def _slice(node: OnnxNode, data: Array, _: Sequence[Array | None]) -> Array:
    return np.asarray(data[np.ix_(*sliced_positions(node, data.shape))])


def _squeeze(node: OnnxNode, data: Array, _: Sequence[Array | None]) -> Array:
    return data.reshape(squeezed_shape(node, data.shape))


def _unsqueeze(node: OnnxNode, data: Array, _: Sequence[Array | None]) -> Array:
    return data.reshape(unsqueezed_shape(node, data.shape))


_MOVES: Mapping[str, Callable[[OnnxNode, Array, Sequence[Array | None]], Array | None]] = {
    "GatherElements": _elements,
    "Shape": _shape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
}
"""ONNX's reference gets some forms of these wrong: bounds before the first element, and negative or no dimensions."""


def _feeds(node: NodeProto, arrays: list[Array | None]) -> dict[str, Array]:
    return {name: array for name, array in zip(node.input, arrays, strict=True) if name and array is not None}


def _model(node: NodeProto, arrays: list[Array | None], names: list[str], opset: int) -> ModelProto:
    inputs = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in _feeds(node, arrays).items()
    ]
    outputs = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in names]
    graph = helper.make_graph([node], "node", inputs, outputs)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])

"""Shape arithmetic that the importer evaluates by itself, without onnxscript.

The importer evaluates nodes of small integers when it comes to them (`evaluation.py`), because it knows the shapes of
all tensors before them. Only graphs with other nodes to fold need onnxscript, whose import alone takes longer than that
of most models.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from pathlib import Path

import numpy as np
from onnx import GraphProto, NodeProto, TensorProto, numpy_helper

from zeropoint.frontend.onnx.bodies import graphs_inside_node
from zeropoint.frontend.onnx.evaluation import ELEMENTS
from zeropoint.frontend.onnx.tensors import read_tensor
from zeropoint.ir.tensors import Array

INTEGERS = frozenset({TensorProto.INT32, TensorProto.INT64})
EVALUATED = frozenset(
    {"Add", "Concat", "Div", "Gather", "Mul", "Reshape", "Slice", "Squeeze", "Sub", "Transpose", "Unsqueeze"}
)
"""Ops on integers whose result is integers."""


def evaluates(graph: GraphProto, derived: set[str], folder: Path) -> bool:
    """Whether the importer evaluates all `derived` tensors: integers, and small constants in another shape.

    If so, constants that a Reshape reads become constants in the new shape.
    """
    if any(True for node in graph.node for _ in graphs_inside_node(node)):
        return False
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant" and (stated := _stated(node)) is not None:
            constants[node.output[0]] = stated
    reshapes = _reshapes(graph, derived, constants)
    if reshapes is None:
        return False
    arrays = [_reshaped(node, constants, folder) for node in reshapes]
    if any(array is None for array in arrays):
        return False
    for node, array in zip(reshapes, arrays, strict=True):
        assert array is not None
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        graph.node.remove(node)
    return True


def _reshapes(graph: GraphProto, derived: set[str], constants: Mapping[str, TensorProto]) -> list[NodeProto] | None:
    """The nodes that give a constant another shape; None if the importer does not evaluate some other derived node."""
    integers = {name for name, tensor in constants.items() if _is_small_integer(tensor)}
    found: list[NodeProto] = []
    for node in graph.node:
        if derived.isdisjoint(node.output):
            continue
        if _reshapes_constant(node, constants, integers):
            found.append(node)
        elif not _is_evaluated(node, integers):
            return None
        elif _gives_integers(node):
            integers.update(node.output)
    return found


def _is_evaluated(node: NodeProto, integers: set[str]) -> bool:
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type in ("Shape", "Size"):
        return True
    known = all(name in integers for name in node.input if name)
    return known and (node.op_type in EVALUATED or node.op_type in ("Cast", "ConstantOfShape"))


def _gives_integers(node: NodeProto) -> bool:
    """Whether an evaluated node has integer results."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type == "Cast":
        return "to" in attributes and attributes["to"].i in INTEGERS
    if node.op_type == "ConstantOfShape":
        return "value" in attributes and attributes["value"].t.data_type in INTEGERS
    return True


def _is_small_integer(tensor: TensorProto) -> bool:
    return tensor.data_type in INTEGERS and prod(tensor.dims) <= ELEMENTS


def _stated(node: NodeProto) -> TensorProto | None:
    """The tensor of a `Constant`; None for floats and texts that are no tensor in the file."""
    for attribute in node.attribute:
        if attribute.name == "value":
            return attribute.t
        if attribute.name in ("value_int", "value_ints"):
            numbers = attribute.i if attribute.name == "value_int" else list(attribute.ints)
            return numpy_helper.from_array(np.array(numbers, np.int64))
    return None


def _reshapes_constant(node: NodeProto, constants: Mapping[str, TensorProto], integers: set[str]) -> bool:
    """Whether a node gives a small constant of floats another, constant shape."""
    if node.op_type != "Reshape" or node.domain not in ("", "ai.onnx") or len(node.input) != 2 or node.attribute:
        return False
    data, shape = node.input
    return data in constants and shape in constants and shape in integers and _is_small_float(constants[data])


def _is_small_float(tensor: TensorProto) -> bool:
    return tensor.data_type == TensorProto.FLOAT and prod(tensor.dims) <= ELEMENTS


def _reshaped(node: NodeProto, constants: Mapping[str, TensorProto], folder: Path) -> Array | None:
    """The constant in its new shape; None if it does not fit, which the importer's errors say better."""
    data, shape = (read_tensor(constants[name], folder) for name in node.input)
    # A size of 0 stands for that of the operand.
    sizes = [data.shape[n] if not size and n < data.ndim else int(size) for n, size in enumerate(shape.reshape(-1))]
    try:
        return data.reshape(sizes)
    except ValueError:
        return None

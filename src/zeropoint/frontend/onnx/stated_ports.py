"""Integer inputs and outputs of quantized files become real ones, as those of .tflite files do.

The metadata of files that zeropoint exported has their scales and zero points. In files of others, they are those of
the nodes that dequantize an input, or quantize an output.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from zeropoint.errors import port_parameters
from zeropoint.frontend.exported import metadata_among
from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, Quantized, constants_of, input_at
from zeropoint.frontend.onnx.quantization import DEQUANTIZING, QUANTIZING

DEQUANTIZES = frozenset(DEQUANTIZING) - {"Identity"}
"""The ops that dequantize an operand."""


def with_real_ports(model: ModelProto, folder: Path) -> ModelProto:
    """The model with casts of its integer ports, for those whose parameters its metadata has."""
    return _with_casts(model, folder, port_parameters(metadata_among(model.metadata_props)))


def with_dequantized_ports(model: ModelProto, folder: Path) -> ModelProto:
    """A quantized QDQ model with casts of the inputs that it only dequantizes, and of the outputs that it quantizes.

    A network that only dequantizes, or only quantizes, is not a quantized one. Its integers may be pixels. Models with
    nested graphs keep their ports.
    """
    nodes = model.graph.node
    casts = all(any(node.op_type in kinds for node in nodes) for kinds in (QUANTIZING, DEQUANTIZES))
    if not casts or any(attribute.HasField("g") for node in nodes for attribute in node.attribute):
        return model
    run = IntegerRewriting(model, folder, constants_of(model.graph))
    inputs = {port.name for port in model.graph.input}
    found: dict[str, set[tuple[float, int] | None]] = {}
    for node in nodes:
        for index, name in enumerate(node.input):
            if name in inputs:
                reads = node.op_type in DEQUANTIZES and index in DEQUANTIZING[node.op_type]
                found.setdefault(name, set()).add(_stated(run, node, index + 1) if reads else None)
        if node.op_type in QUANTIZING:
            found.setdefault(node.output[0], set()).add(_stated(run, node, QUANTIZING[node.op_type]))
    only = {name: next(iter(ways)) for name, ways in found.items() if len(ways) == 1}
    return _with_casts(model, folder, {name: way for name, way in only.items() if way is not None})


def _stated(run: IntegerRewriting, node: NodeProto, index: int) -> tuple[float, int] | None:
    """The constant scale at an input of a node and the zero point after it; None for several, or computed ones."""
    scale = run.array(input_at(node.input, index))
    name = input_at(node.input, index + 1)
    point = run.array(name) if name else np.zeros((), np.int8)
    if scale is None or point is None or scale.size != 1 or point.size != 1 or scale.dtype != np.float32:
        return None
    number = float(scale.reshape(()))
    return (number, int(point.reshape(()))) if 0 < number < inf else None


def _with_casts(model: ModelProto, folder: Path, stated: Mapping[str, tuple[float, int]]) -> ModelProto:
    """The model with casts of its integer ports that have parameters here."""
    sides = [[port for port in ports if _holds(port, stated)] for ports in (model.graph.input, model.graph.output)]
    both = {port.name for port in sides[0]} & {port.name for port in sides[1]}  # an input that is returned
    inputs, outputs = ([port for port in side if port.name not in both] for side in sides)
    if not inputs and not outputs:
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    run = IntegerRewriting(changed, folder, {})
    run.taken = {name for node in model.graph.node for name in (*node.input, *node.output)}
    run.taken |= {tensor.name for tensor in model.graph.initializer}
    renamed = {port.name: run.unique(f"{port.name}_stored") for port in (*inputs, *outputs)}
    kinds = {port.name: port.type.tensor_type.elem_type for port in (*inputs, *outputs)}
    parameters = {name: _parameters(run, name, *stated[name], kinds[name]) for name in renamed}
    for port in inputs:
        _cast(run, "QuantizeLinear", port.name, renamed[port.name], parameters[port.name])
    run.nodes.extend(_renamed(node, renamed) for node in model.graph.node)
    for port in outputs:
        _cast(run, "DequantizeLinear", renamed[port.name], port.name, parameters[port.name])
    for port in (*changed.graph.input, *changed.graph.output):
        if port.name in renamed:
            port.type.tensor_type.elem_type = TensorProto.FLOAT
    del changed.graph.node[:]
    changed.graph.node.extend(run.nodes)
    return changed


def _renamed(node: NodeProto, names: Mapping[str, str]) -> NodeProto:
    made = NodeProto()
    made.CopyFrom(node)
    for given in (made.input, made.output):
        given[:] = [names.get(name, name) for name in given]
    return made


def _holds(port: ValueInfoProto, stated: Mapping[str, object]) -> bool:
    integers = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT16, TensorProto.INT16)
    return port.name in stated and port.type.tensor_type.elem_type in integers


def _parameters(run: IntegerRewriting, name: str, scale: float, point: int, kind: int) -> Quantized:
    limits = np.iinfo(helper.tensor_dtype_to_np_dtype(kind))
    stored = np.array(min(max(point, limits.min), limits.max), limits.dtype)
    made = run.constant(f"{name}_scale", np.array(scale, np.float32))
    return Quantized("", made, run.constant(f"{name}_zero_point", stored))


def _cast(run: IntegerRewriting, op: str, source: str, made: str, given: Quantized) -> None:
    run.nodes.append(helper.make_node(op, [source, given.scale, given.zero_point], [made], made))

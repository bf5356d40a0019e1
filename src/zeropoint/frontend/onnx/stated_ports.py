"""Integer inputs and outputs of files that zeropoint exported become real ones, as in the program before its export.

The metadata of such a file has their scales and zero points, as tensors of a .tflite file have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from zeropoint.errors import port_parameters
from zeropoint.frontend.exported import metadata_among
from zeropoint.frontend.onnx.integer_rewriting import IntegerRewriting, Quantized


def with_real_ports(model: ModelProto, folder: Path) -> ModelProto:
    """The model with casts of its integer ports, for those whose parameters its metadata has."""
    stated = port_parameters(metadata_among(model.metadata_props))
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

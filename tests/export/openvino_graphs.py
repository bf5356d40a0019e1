"""Models of a few convolutions for OpenVINO, and the ops of which it makes one kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zeropoint.export.onnx.openvino import OpenVinoFile

SHAPE = (1, 8, 12, 12)


class Graph:
    """An ONNX model under construction; every method returns the name of its result."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(11)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array: np.ndarray) -> str:
        name = f"constant{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def convolution(self, value: str, spread: float = 0.3, channels: int = 8) -> str:
        weight = self.constant(self.random.normal(0, spread, (8, channels, 3, 3)))
        return self.node("Conv", value, weight, self.constant(self.random.normal(0, 1, 8)), pads=[1] * 4)

    def model(self, result: str) -> onnx.ModelProto:
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", result)]
        graph = helper.make_graph(self.nodes, "graph", ports[:1], ports[1:], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def kernels(file: OpenVinoFile) -> list[tuple[str, str, str]]:
    """Type, implementation and the model's ops of every op that runs: `('Convolution', 'jit_avx2_I8', 'conv,add')`."""
    found = []
    for op in file.compiled.get_runtime_model().get_ordered_ops():
        facts = op.get_rt_info()
        kind, implementation, names = (
            facts[key].astype(str) for key in ("layerType", "primitiveType", "originalLayersNames")
        )
        found.append((kind, implementation, names))
    return found

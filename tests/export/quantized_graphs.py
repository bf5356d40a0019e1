"""Models with casts for OpenVINO, and whether its results are predicted."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from export import openvino_graphs
from zeropoint.export import export_program
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.pipeline import Options, quantize

Type = tuple[float | tuple[float, ...], int | tuple[int, ...]]
"""Scale and zero point of a value of 8 bits, or those of every channel of an image."""


class Graph(openvino_graphs.Graph):
    """A model with casts. `ports` has the shape, scale and zero point of every input."""

    def __init__(self) -> None:
        super().__init__()
        self.ports: dict[str, tuple[tuple[int, ...], Type, type[np.integer]]] = {}
        self.integer_ports: dict[str, type[np.integer]] = {}
        """The types of inputs and outputs that are stored integers."""

    def stored_input(self, shape: tuple[int, ...], kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        """An input of stored integers, dequantized."""
        name = f"x{len(self.ports)}"
        self.ports[name], self.integer_ports[name] = (shape, kind, dtype), dtype
        return self.dequantized(name, kind, dtype)

    def dequantized(self, value: str, kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        """The real numbers of stored integers."""
        axis = {"axis": 1} if np.ndim(kind[0]) else {}
        return self.node("DequantizeLinear", value, *self._parameters(kind, dtype), **axis)

    def stored_output(self, value: str, kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        """An output of stored integers."""
        axis = {"axis": 1} if np.ndim(kind[0]) else {}
        name = self.node("QuantizeLinear", value, *self._parameters(kind, dtype), **axis)
        self.integer_ports[name] = dtype
        return name

    def input(self, shape: tuple[int, ...], kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        name = f"x{len(self.ports)}"
        self.ports[name] = shape, kind, dtype
        return self.cast(name, kind, dtype)

    def cast(self, value: str, kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        made = self.node("QuantizeLinear", value, *self._parameters(kind, dtype))
        return self.dequantized(made, kind, dtype)

    def stored(self, shape: tuple[int, ...], kind: Type, dtype: type[np.integer] = np.uint8) -> str:
        info = np.iinfo(dtype)
        array = self.random.integers(max(info.min, -60), info.max + 1, shape).astype(dtype)
        return self.dequantized(self._added(array), kind, dtype)

    def model_of(self, outputs: list[str]) -> ModelProto:
        """The model with these outputs."""
        kinds = {name: helper.np_dtype_to_tensor_dtype(np.dtype(kind)) for name, kind in self.integer_ports.items()}
        shapes = {name: shape for name, (shape, *_) in self.ports.items()} | dict.fromkeys(outputs)
        ports, made = (
            [helper.make_tensor_value_info(name, kinds.get(name, TensorProto.FLOAT), shapes[name]) for name in names]
            for names in (self.ports, outputs)
        )
        proto = helper.make_graph(self.nodes, "g", ports, made, self.weights)
        return helper.make_model(proto, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def sample(self) -> dict[str, Array]:
        """Random integers of the inputs' types, as real numbers where a port has these."""
        sample = dict[str, Array]()
        for name, (shape, (scale, zero), dtype) in self.ports.items():
            stored = self.random.integers(0, 256, shape) + np.iinfo(dtype).min
            scales, zeros = (np.reshape(number, (-1, 1, 1)) if np.ndim(number) else number for number in (scale, zero))
            real = ((stored - zeros) * scales).astype(np.float32)
            sample[name] = stored.astype(dtype) if name in self.integer_ports else real
        return sample

    def integers(self, *numbers: int) -> str:
        return self._added(np.array(numbers))

    def _parameters(self, kind: Type, dtype: type[np.integer]) -> list[str]:
        return [self.constant(np.array(kind[0])), self._added(np.array(kind[1], dtype))]

    def _added(self, array: Array) -> str:
        name = f"stored{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name


def is_predicted(graph: Graph, outputs: list[str], path: Path, given: Mapping[str, Array] | None = None) -> None:
    """Whether OpenVINO's results are predicted, for random integers of the inputs' types or the numbers `given`."""
    result = quantize(load_onnx_model(graph.model_of(outputs), {}), [], Options(target="openvino-vnni"))
    export_program(result.propagated, path / "m.onnx")
    file, predict = OpenVinoFile(path / "m.onnx"), Interpreter(result.quantized)
    sample = {**graph.sample(), **(given or {})}
    expected = predict(sample)
    for name, found in file(sample).items():
        np.testing.assert_array_equal(found, expected[name])

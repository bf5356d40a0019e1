"""onnxruntime as the oracle of quantized models: a QDQ model of one op, what its optimizer makes of it, its values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from frontend.onnx.models import model, tensor
from zeropoint.ir.quant import Storage

OPSET = 21
"""The first that quantizes to 16 bits."""


@dataclass(frozen=True)
class Port:
    """A quantized operand or result. An input has a shape, a constant its stored integers, a result neither."""

    storage: Storage
    scale: Any
    zero_point: Any
    shape: tuple[int, ...] = ()
    value: np.ndarray | None = None
    axis: int | None = None

    @property
    def dtype(self) -> np.dtype[Any]:
        kind = self.storage.type
        return np.dtype(f"{'' if kind.signed else 'u'}int{kind.width}")

    def dequantized(self, stored: np.ndarray) -> np.ndarray:
        """The f32 numbers that quantize to the given integers."""
        return (stored.astype(np.float32) - np.float32(self.zero_point)) * np.float32(self.scale)


Operand = Port | np.ndarray | tuple[int, ...]
"""A quantized operand, a constant that is not quantized, or the shape of an input of booleans."""


def qdq_model(
    op: str, operands: Sequence[Operand], results: Sequence[Port], attributes: Mapping[str, Any]
) -> onnx.ModelProto:
    """A model of one op of floats, with QuantizeLinear and DequantizeLinear around it; its inputs are x0, x1, ..."""
    nodes, constants, given, names = [], {}, [], []

    def parameters(name: str, port: Port) -> list[str]:
        scale, zero_point = np.asarray(port.scale, np.float32), np.asarray(port.zero_point, port.dtype)
        constants[f"{name}_scale"], constants[f"{name}_zero"] = scale, np.broadcast_to(zero_point, scale.shape)
        return [f"{name}_scale", f"{name}_zero"]

    for index, operand in enumerate(operands):
        name = f"x{index}"
        names.append(name if not isinstance(operand, Port) else f"{name}_real")
        if isinstance(operand, tuple):
            given.append(tensor(name, operand, TensorProto.BOOL))
        elif isinstance(operand, np.ndarray):
            constants[name] = operand
        else:
            around = parameters(name, operand)
            if operand.value is None:
                given.append(tensor(name, operand.shape))
                nodes.append(helper.make_node("QuantizeLinear", [name, *around], [f"{name}_stored"]))
            else:
                constants[f"{name}_stored"] = operand.value.astype(operand.dtype)
            axis = {} if operand.axis is None else {"axis": operand.axis}
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_stored", *around], [names[-1]], **axis))
    ends = [f"y{index}" for index in range(len(results))]
    nodes.append(helper.make_node(op, names, [f"{end}_real" for end in ends], name="op", **attributes))
    for end, port in zip(ends, results, strict=True):
        around = parameters(end, port)
        nodes.append(helper.make_node("QuantizeLinear", [f"{end}_real", *around], [f"{end}_stored"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{end}_stored", *around], [end]))
    return model(nodes, given, [tensor(end, None) for end in ends], constants, OPSET)


@dataclass(frozen=True)
class Optimized:
    """A model that onnxruntime took: its ops after optimization in order, and how to run it."""

    ops: tuple[str, ...]
    session: Any

    @property
    def inner(self) -> tuple[str, ...]:
        """The ops between the quantization of inputs and the dequantization of results; not the moves to NHWC and back.

        An integer kernel stands there alone; an op that stayed float has DequantizeLinear and QuantizeLinear around it.
        """
        inner = list(self.ops)
        for port in self.session.get_inputs():
            if port.type == "tensor(float)":
                inner.remove("QuantizeLinear")
        for _ in self.session.get_outputs():
            inner.remove("DequantizeLinear")
        kernels = [op for op in inner if op != "Transpose"]
        return tuple(kernels or inner)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return self.session.run(None, dict(inputs))


def optimized(proto: onnx.ModelProto, *, signed: bool = True) -> Optimized:
    """What onnxruntime's optimizer makes of a model.

    On x64 it rewrites i8 to u8 before anything else, so that no kernel sees i8; with `signed` it does not, as on ARM.
    """
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is the oracle of these rows")
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    if signed:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "optimized.onnx"
        options.optimized_model_filepath = str(path)
        session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Optimized(tuple(node.op_type for node in onnx.load(path).graph.node), session)

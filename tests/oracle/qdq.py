"""onnxruntime as the oracle of quantized models: what its optimizer makes of one, and its values."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest


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

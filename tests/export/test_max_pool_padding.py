"""Padding before a MAX_POOL_2D: PAD where no value is below 0, which ai-edge-quantizer reads, else PADV2 with -inf."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from oracle.litert import operators
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.interp import Interpreter

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,8,8] x) => (float y, float z)'
POOL = "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(b)\n z = Conv(b, w)"
BODIES = {
    "relu": f"a = Conv(x, w)\n b = Relu(a)\n {POOL}",
    "sigmoid": f"a = Conv(x, w)\n b = Sigmoid(a)\n {POOL}",
    "none": f"b = Conv(x, w)\n {POOL}",
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("floats", [True, False])
def test_padding_is_zero_where_no_value_is_less(body: str, floats: bool, tmp_path: Path) -> None:
    """ResNet-50 has such a pool. It was a PADV2 with -inf."""
    model, random = parser.parse_model(f"{HEAD} {{ {BODIES[body]} }}"), np.random.default_rng(0)
    array = random.normal(0, 0.5, (4, 4, 1, 1)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(array, "w"))
    samples = [{"x": random.normal(0, 1, (1, 4, 8, 8)).astype(np.float32)} for _ in range(4)]
    rules: list[dict[str, object]] | None = [{"regex": ".*", "quantize": False}] if floats else None
    made = zp.quantize(model, samples, target="litert", recipe=rules)
    made.export(tmp_path / "m.tflite")
    assert ("PADV2" in operators((tmp_path / "m.tflite").read_bytes())) == (body == "none")
    assert made.quantization is not None
    expected = Interpreter(made.quantization.quantized)(samples[0])
    found = LiteRTFile(tmp_path / "m.tflite", reference=True)(samples[0])
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5 if floats else 0, atol=1e-6 if floats else 0)

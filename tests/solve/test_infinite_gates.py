"""-inf in a constant before a gate is legitimate: the gate is closed there."""

from __future__ import annotations

import numpy as np
import onnx.parser
import pytest
from onnx import numpy_helper

import zeropoint as zp


@pytest.mark.parametrize(("function", "closed"), [("Sigmoid", 0.0), ("Tanh", -1.0)])
def test_a_gate_that_is_closed_by_an_infinite_bias_is_quantized(function: str, closed: float) -> None:
    """It was refused: "found NaN or infinities in a constant"."""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,16] x, float[16,16] w, float[16] mask) => (float[1,16] y) {{
          a = MatMul(x, w)
          b = Add(a, mask)
          y = {function}(b)
        }}""")
    random = np.random.default_rng(0)
    mask = np.where(np.arange(16) < 13, 0, -np.inf).astype(np.float32)
    arrays = {"w": random.normal(0, 0.25, (16, 16)).astype(np.float32), "mask": mask}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    del model.graph.input[1:]
    data = {"x": random.normal(size=(32, 16)).astype(np.float32)}
    quantized = zp.quantize(model, data, effort="none")
    (output,) = zp.compare(model, quantized, data).outputs
    assert output.sqnr > 28
    found = quantized(x=data["x"][:1])["y"]
    np.testing.assert_allclose(found[:, 13:], closed, atol=0.01)

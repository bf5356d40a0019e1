"""Names of tensors in exported files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from export.text_networks import text_network


@pytest.mark.parametrize("channels", ["channels-last", "model"])
def test_tensors_of_one_type_have_different_names(channels: str, tmp_path: Path) -> None:
    """ai-edge-quantizer refused a file in which a transposed convolution and a part of it had one name."""
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,5,5] x) => (float y)
    { y = ConvTranspose<strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]>(x, w) }""")
    weights = np.random.default_rng(0).normal(0, 1, (4, 4, 3, 3)).astype(np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weights, "w"))
    made = zp.quantize(model, None, target="litert", recipe=[{"regex": ".*", "quantize": False}])
    made.export(tmp_path / "m.tflite", layout=channels)
    file = schema.ModelT.InitFromObj(schema.Model.GetRootAs((tmp_path / "m.tflite").read_bytes(), 0))
    names = [tensor.name for tensor in file.subgraphs[0].tensors]
    assert len(names) == len(set(names))


def test_rescales_of_inputs_are_named_after_them(tmp_path: Path) -> None:
    """Imported and exported again, a file for OpenVINO had a cast 'quant.region_quantized'."""
    first, second = (tmp_path / f"{which}.onnx" for which in ("first", "second"))
    model, samples = text_network(
        "(float[1,3,4,4] a, float[1,3,4,4] b) => (float[1,11,4,4] y, float[1,4,4,4] f)",
        {"w": (4, 3, 1, 1)},
        "c = Conv(a, w)  d = Conv(b, w)  e = Add(c, d)  g = Add(e, e)  f = Add(g, g)  y = Concat <axis = 1> (f, a, c)",
    )
    zp.quantize(model, samples, target="openvino", effort="none").export(first)
    zp.quantize(first, target="openvino").export(second)
    assert first.read_bytes() == second.read_bytes()

"""Linear resizes in .tflite files are one operator, without transposes, and their integers are predicted."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser

from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.frontend.litert.reader import read_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.pipeline import Options, quantize

RESIZED = """<ir_version: 8, opset_import: ["" : 17]> g (float[1,3,5,7] x) => (float[1,2,10,10] y)
    <int64[4] size = {1, 4, 10, 10}> {
        c = Conv(x, w)
        r = Resize<mode = "linear", coordinate_transformation_mode = "%s">(c, , , size)
        y = Conv<pads = [1, 1, 1, 1]>(r, v)
    }"""


@pytest.mark.parametrize("placed", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize(("target", "profile"), [("litert", None), ("litert", "xnnpack"), ("litert-16x8", None)])
def test_a_linear_resize_is_one_operator_whose_integers_are_predicted(
    target: str, profile: str | None, placed: str, tmp_path: Path
) -> None:
    """It was two matrix products in the file, between three transposes."""
    random = np.random.default_rng(0)
    proto = parser.parse_model(RESIZED % placed)
    for name, shape in (("w", (4, 3, 1, 1)), ("v", (2, 4, 3, 3))):
        weights = random.normal(0, 0.5, shape).astype(np.float32)
        proto.graph.initializer.append(numpy_helper.from_array(weights, name))
    samples = [{"x": random.normal(0, 1, (1, 3, 5, 7)).astype(np.float32)} for _ in range(2)]
    result = quantize(load_onnx_model(proto, {}), samples, Options(target=target, profile=profile, effort="none"))
    path = tmp_path / "m.tflite"
    export_program(result.propagated, path, ExportOptions())
    found = Counter(operator.name for operator in read_model(path.read_bytes()).operators)
    assert found == {"QUANTIZE": 1, "CONV_2D": 2, "RESIZE_BILINEAR": 1, "DEQUANTIZE": 1}
    file = LiteRTFile(path, reference=profile is None)
    for sample in samples:
        np.testing.assert_array_equal(Interpreter(result.quantized)(sample)["y"], file(sample)["y"])

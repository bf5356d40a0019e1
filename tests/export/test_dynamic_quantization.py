"""Files of dynamic quantization, quantized and exported: integer convolutions and products in the runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import zeropoint as zp
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile

RUNTIMES = {"onnxruntime": OnnxFile, "openvino": OpenVinoFile}
CONVOLUTIONS = {
    "plain": "ConvInteger(q, w, z, p)",
    "padded, with strides": "ConvInteger<pads=[1,1,1,1], strides=[2,2]>(q, w, z, p)",
    "in groups": "ConvInteger<group=2, pads=[1,1,1,1]>(q, g, z, p)",
    "without a zero point of the weights": "ConvInteger<pads=[1,0,1,0]>(q, w, z)",
}


def model(convolution: str, dtype: type[np.generic]) -> onnx.ModelProto:
    made = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1,4,6,6] x) => (float[1,N] y)
    <float t = {{0.01}}, int64[2] flat = {{1, -1}}> {{
    q, s, z = DynamicQuantizeLinear(x)  i = {convolution}  f = Cast<to=1>(i)  u = Mul(s, t)  c = Mul(f, u)
    r = Relu(c)  m = GlobalAveragePool(r)  e = Reshape(m, flat)
    q2, s2, z2 = DynamicQuantizeLinear(e)  i2 = MatMulInteger(q2, v, z2, p)  f2 = Cast<to=1>(i2)  y = Mul(f2, s2) }}""")
    random, limits = np.random.default_rng(0), np.iinfo(dtype)
    rows = 6 if "group" in convolution else 5
    for name, shape in (("w", (5, 4, 3, 3)), ("g", (6, 2, 3, 3)), ("v", (rows, 3))):
        array = random.integers(limits.min, limits.max + 1, shape).astype(dtype)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    made.graph.initializer.append(numpy_helper.from_array(np.array(3, dtype), "p"))
    return made


@pytest.mark.parametrize("target", RUNTIMES)
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_an_integer_convolution_is_one_in_the_file(
    name: str, dtype: type[np.generic], target: str, tmp_path: Path
) -> None:
    """It was refused: 'a convolution of integers, expected one of floats'."""
    pytest.importorskip(target)
    random, paths = np.random.default_rng(1), [tmp_path / f"{which}.onnx" for which in ("first", "second")]
    data = {"x": random.normal(0, 1, (8, 1, 4, 6, 6)).astype(np.float32)}
    first = zp.quantize(model(CONVOLUTIONS[name], dtype), data, target=target, effort="none")
    first.export(paths[0])
    again = zp.quantize(paths[0], data, target=target, effort="none")
    again.export(paths[1])
    for path, program in zip(paths, (first, again), strict=True):
        file = RUNTIMES[target](path)
        assert "ConvInteger" in [node.op_type for node in onnx.load(path).graph.node]
        for x in data["x"]:
            np.testing.assert_array_equal(file({"x": x})["y"], program(x=x)["y"])

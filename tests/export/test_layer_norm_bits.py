"""Layer norms in floats have the predicted bits in every runtime: their sums are of integers (`exact_sums`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.ir.tensors import Array

ROWS = 64


def _model(terms: int, epsilon: float, *, beta: bool = True) -> onnx.ModelProto:
    """A layer norm of a product, returned as floats and read by a product."""
    random = np.random.default_rng(terms)
    held = {"gamma": random.normal(1, 0.3, terms), "w": random.normal(0, 0.2, (terms, 8)), "one": np.eye(terms)}
    if beta:
        held["beta"] = random.normal(0, 0.5, terms)
    nodes = [
        helper.make_node("MatMul", ["x", "one"], ["r"]),
        helper.make_node("LayerNormalization", ["r", "gamma", *(["beta"] if beta else [])], ["n"], epsilon=epsilon),
        helper.make_node("MatMul", ["n", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS, terms])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("n", "y")],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _samples(terms: int) -> list[dict[str, Array]]:
    """Rows of small and large deviations and means, and rows of one number."""
    random = np.random.default_rng(1)
    spread = np.exp(random.uniform(-3, 0.5, (1, ROWS, 1)))
    x = random.normal(random.uniform(0, 3, (1, ROWS, 1)), spread, (1, ROWS, terms))
    x[:, :4] = np.array([0, 1.5, 2.9, 3.3])[:, None]
    return [{"x": x.astype(np.float32)}, {"x": random.normal(1, 1, x.shape).astype(np.float32)}]


RUNTIMES: Mapping[
    str, tuple[str, str | None, str, Callable[[Path], Callable[[Mapping[str, Array]], Mapping[str, Array]]]]
]
RUNTIMES = {
    "LiteRT's reference kernels": ("litert", None, "m.tflite", lambda path: LiteRTFile(path, reference=True)),
    "XNNPACK": ("litert", "xnnpack", "m.tflite", LiteRTFile),
    "onnxruntime": ("onnxruntime", None, "m.onnx", OnnxFile),
    "OpenVINO": ("openvino", None, "m.onnx", OpenVinoFile),
}


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("terms", "epsilon"), [(12, 1e-5), (32, 1e-12), (100, 1e-3), (256, 1e-5), (384, 1e-6), (768, 1e-5)]
)
def test_a_layer_norm_has_the_predicted_bits(runtime: str, terms: int, epsilon: float, tmp_path: Path) -> None:
    target, profile, name, load = RUNTIMES[runtime]
    if runtime == "OpenVINO":
        pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    samples = _samples(terms)
    made = zp.quantize(_model(terms, epsilon), samples, target=target, profile=profile, effort="none")
    made.export(tmp_path / name)
    file, predict, native = load(tmp_path / name), made.interpreted(), made.native()
    for sample in samples:
        expected, found = predict(**sample), file(sample)
        for output in ("n", "y"):
            np.testing.assert_array_equal(found[output], expected[output])
            np.testing.assert_array_equal(native(**sample)[output], expected[output])


@pytest.mark.parametrize("terms", [7, 96, 768])
@pytest.mark.parametrize("target", ["litert", "openvino"])
def test_the_form_is_as_exact_as_f32(target: str, terms: int) -> None:
    """Compared with rational sums of the rounded operand: errors of a few units in the last place."""
    samples, model = _samples(terms), _model(terms, 1e-5, beta=False)
    model.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, None))
    made = zp.quantize(model, samples, target=target, effort="none").interpreted()(**samples[0])
    gamma = np.random.default_rng(terms).normal(1, 0.3, terms).astype(np.float32).astype(float)
    values = np.unique(made["r"])
    scale = Fraction(float(np.diff(values).min()))
    for real, found in zip(made["r"][0, :8], made["n"][0], strict=False):
        integers = [round(Fraction(float(x)) / scale) for x in real]
        mean = Fraction(sum(integers), terms)
        variance = float(sum((u - mean) ** 2 for u in integers) / terms * scale**2) + 1e-5
        wanted = np.array([float((u - mean) * scale) for u in integers]) / variance**0.5 * gamma
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)

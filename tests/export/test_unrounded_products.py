"""Fully connected layers that return floats are integer kernels of runtimes, with the predicted bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import zeropoint as zp
from oracle.qdq import optimized
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.regions import regions_of

ROWS, WIDTH, WIDE, LARGE = 48, 96, 160, 6
TARGETS = ["onnxruntime", "openvino", "openvino-vnni"]


def _model(*, bias: bool) -> onnx.ModelProto:
    """A GELU of a product, some of whose channels are much larger than the others: 8 bits are too coarse for erf.

    'a' is the product's absolute value, which no target has a kernel for. 'y' is what the layer after the GELU gives.
    """
    random = np.random.default_rng(5)
    held = {"gamma": random.normal(1, 0.3, WIDTH), "w": random.normal(0, 0.25, (WIDTH, WIDE))}
    held |= {"b": random.normal(-1, 1, WIDE), "u": random.normal(0, 0.1, (WIDE, WIDTH))}
    held |= {"half": np.array(0.5), "one": np.array(1.0), "root": np.array(2**-0.5)}
    held["w"][:, :LARGE] *= 12
    held["u"][:LARGE] *= 0.02
    steps = [
        ("LayerNormalization", ["x", "gamma"], ["n"]),
        ("MatMul", ["n", "w"], ["p"]),
        *([("Add", ["p", "b"], ["g"])] if bias else [("Identity", ["p"], ["g"])]),
        ("Abs", ["g"], ["a"]),
        ("Mul", ["g", "root"], ["s"]),
        ("Erf", ["s"], ["e"]),
        ("Add", ["e", "one"], ["f"]),
        ("Mul", ["g", "f"], ["h"]),
        ("Mul", ["h", "half"], ["i"]),
        ("MatMul", ["i", "u"], ["o"]),
        ("Add", ["o", "x"], ["y"]),
    ]
    graph = helper.make_graph(
        [helper.make_node(*step) for step in steps],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, ROWS, WIDTH])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("a", "y")],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in held.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


SAMPLES = [{"x": np.random.default_rng(seed).normal(0, 1, (1, ROWS, WIDTH)).astype(np.float32)} for seed in range(8)]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("target", TARGETS)
def test_a_product_that_is_not_rounded_has_the_predicted_bits(target: str, bias: bool, tmp_path: Path) -> None:
    if target != "onnxruntime":
        pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    model, samples = _model(bias=bias), SAMPLES
    made = zp.quantize(model, samples, target=target, corrections=["integer_products"])
    assert made.quantization is not None
    products = made.quantization.corrections.products
    assert products is not None
    assert products.kept
    made.export(path := tmp_path / "m.onnx")
    file = OnnxFile(path) if target == "onnxruntime" else OpenVinoFile(path)
    predict, native = made.interpreted(), made.native()
    for sample in samples[:3]:
        expected, found, compiled = predict(**sample), file(sample), native(**sample)
        for name in ("a", "y"):
            np.testing.assert_array_equal(found[name], expected[name])
            np.testing.assert_array_equal(compiled[name], expected[name])


@pytest.mark.parametrize("bias", [True, False])
def test_the_file_is_imported_with_its_integer_products(bias: bool, tmp_path: Path) -> None:
    made = zp.quantize(_model(bias=bias), SAMPLES, target="onnxruntime", corrections=["integer_products"])
    made.export(path := tmp_path / "m.onnx")
    imported = zp.quantize(path, target="onnxruntime")
    assert imported.quantization is not None
    kinds = [op.output_specs.data[0] for op in regions_of(imported.quantization.decided) if op.is_quantized]
    assert sum(isinstance(kind, UniformQuantizedType) and kind.storage.type.width == 32 for kind in kinds) == 1
    expected, found = made.interpreted()(**SAMPLES[0]), imported.interpreted()(**SAMPLES[0])
    for name in ("a", "y"):
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("bias", [True, False])
def test_onnxruntime_computes_it_in_integers(bias: bool, tmp_path: Path) -> None:
    made = zp.quantize(_model(bias=bias), SAMPLES, target="onnxruntime", corrections=["integer_products"])
    made.export(path := tmp_path / "m.onnx")
    kinds = optimized(onnx.load(path)).ops
    assert ("QGemm" if bias else "MatMulIntegerToFloat") in kinds
    assert not {"MatMul", "Gemm"} & {*kinds}

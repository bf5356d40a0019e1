"""Layer and RMS norms in floats have the predicted bits in every runtime: their sums are of integers (`exact_sums`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.tensors import Array

ROWS = 64


Nodes = Sequence[onnx.NodeProto]


def _graph(nodes: Nodes, shape: Sequence[int], held: Mapping[str, Array]) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("n", "y")],
        [
            numpy_helper.from_array(array if array.dtype == np.int64 else array.astype(np.float32), name)
            for name, array in held.items()
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)


def _rows(terms: int, norm: Nodes, **held: Array) -> onnx.ModelProto:
    """A norm 'n' of the product 'r', returned as floats and read by a product."""
    random = np.random.default_rng(terms)
    held |= {"gamma": random.normal(1, 0.3, terms), "w": random.normal(0, 0.2, (terms, 8)), "one": np.eye(terms)}
    held["beta"] = random.normal(0, 0.5, terms)
    first, last = helper.make_node("MatMul", ["x", "one"], ["r"]), helper.make_node("MatMul", ["n", "w"], ["y"])
    return _graph([first, *norm, last], [1, ROWS, terms], held)


def _model(terms: int, epsilon: float, *, beta: bool = True) -> onnx.ModelProto:
    """A layer norm of a product."""
    operands = ["r", "gamma", *(["beta"] if beta else [])]
    return _rows(terms, [helper.make_node("LayerNormalization", operands, ["n"], epsilon=epsilon)])


def _rms_norm(terms: int, form: str) -> onnx.ModelProto:
    """An RMS norm of a product, as exporters decompose it."""
    inverse = [("Reciprocal", ["rms"], ["i"]), ("Mul", ["r", "i"], ["z"])]
    steps = [
        ("Mul", ["r", "r"], ["squares"]),
        ("ReduceMean", ["squares", "last"], ["mean"]),
        ("Add", ["mean", "epsilon"], ["sum"]),
        ("Sqrt", ["sum"], ["rms"]),
        *([("Div", ["r", "rms"], ["z"])] if form == "Div" else inverse),
        ("Mul", ["gamma", "z"], ["n"]),
    ]
    return _rows(terms, [helper.make_node(*step) for step in steps], epsilon=np.array(1e-6), last=np.array([-1]))


def _image_norm(kind: str, channels: int, size: int) -> onnx.ModelProto:
    """A norm of a convolution, over several dimensions."""
    random = np.random.default_rng(channels)
    identity = (np.eye(channels) + random.normal(0, 0.1, (channels, channels)))[..., None, None]
    held: dict[str, Array] = {"w": identity, "u": random.normal(0, 0.2, (8, channels, 1, 1))}
    of = (channels, size, size) if kind == "LayerNormalization" else channels
    held |= {"gamma": random.normal(1, 0.3, of), "beta": random.normal(0, 0.5, of)}
    attributes = {"axis": 1} if kind == "LayerNormalization" else {}
    norm = [helper.make_node(kind, ["r", "gamma", "beta"], ["n"], epsilon=1e-5, **attributes)]
    if kind == "GroupNormalization":
        held |= {"groups": np.array([0, 3, -1]), "all": np.array([1, channels, size, size])}
        held |= {"gamma": np.ones(3), "beta": np.zeros(3)}
        norm = [
            helper.make_node("Reshape", ["r", "groups"], ["g"]),
            helper.make_node("InstanceNormalization", ["g", "gamma", "beta"], ["m"], epsilon=1e-5),
            helper.make_node("Reshape", ["m", "all"], ["n"]),
        ]
    nodes = [helper.make_node("Conv", ["x", "w"], ["r"]), *norm, helper.make_node("Conv", ["n", "u"], ["y"])]
    return _graph(nodes, [1, channels, size, size], held)


def _images(channels: int, size: int) -> list[dict[str, Array]]:
    random = np.random.default_rng(2)
    shape, means = (1, channels, size, size), random.normal(0, 1, (1, channels, 1, 1))
    return [{"x": random.normal(means, deviation, shape).astype(np.float32)} for deviation in (1, 0.2)]


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
WIDE = {
    "LiteRT's reference kernels, 16 bits": (
        "litert-16x8", None, "m.tflite", lambda path: LiteRTFile(path, reference=True),
    ),
}  # fmt: skip


def _check(runtime: str, model: onnx.ModelProto, samples: list[dict[str, Array]], folder: Path) -> None:
    """The floats of the norm, and what is computed from them: in the file, the interpreter and native code."""
    target, profile, name, load = {**RUNTIMES, **WIDE}[runtime]
    if runtime == "OpenVINO":
        pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    made = zp.quantize(model, samples, target=target, profile=profile, effort="none")
    made.export(folder / name)
    file, predict, native = load(folder / name), made.interpreted(), made.native()
    for sample in samples:
        expected, found = predict(**sample), file(sample)
        for output in ("n", "y"):
            np.testing.assert_array_equal(found[output], expected[output])
            np.testing.assert_array_equal(native(**sample)[output], expected[output])


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("terms", "epsilon"), [(12, 1e-5), (32, 1e-12), (100, 1e-3), (256, 1e-5), (384, 1e-6), (768, 1e-5), (2100, 1e-5)]
)
def test_a_layer_norm_has_the_predicted_bits(runtime: str, terms: int, epsilon: float, tmp_path: Path) -> None:
    _check(runtime, _model(terms, epsilon), _samples(terms), tmp_path)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(("terms", "form"), [(7, "Div"), (96, "Reciprocal"), (768, "Div")])
def test_an_rms_norm_has_the_predicted_bits(runtime: str, terms: int, form: str, tmp_path: Path) -> None:
    _check(runtime, _rms_norm(terms, form), _samples(terms), tmp_path)


@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize(
    ("kind", "channels", "size"),
    [
        ("InstanceNormalization", 12, 8),
        ("InstanceNormalization", 4, 56),
        ("GroupNormalization", 12, 14),
        ("LayerNormalization", 12, 8),
        ("LayerNormalization", 4, 28),
    ],
)
def test_a_norm_over_several_dimensions_has_the_predicted_bits(
    runtime: str, kind: str, channels: int, size: int, tmp_path: Path
) -> None:
    _check(runtime, _image_norm(kind, channels, size), _images(channels, size), tmp_path)


@pytest.mark.parametrize(
    ("model", "samples"),
    [
        pytest.param(_model(96, 1e-5), _samples(96), id="rows"),
        pytest.param(_model(768, 1e-5), _samples(768), id="long rows"),
        pytest.param(_rms_norm(768, "Div"), _samples(768), id="RMS"),
        pytest.param(_image_norm("InstanceNormalization", 4, 56), _images(4, 56), id="images"),
    ],
)
def test_a_norm_of_16_bit_values_has_the_predicted_bits(
    model: onnx.ModelProto, samples: list[dict[str, Array]], tmp_path: Path
) -> None:
    """Their squares are summed in bytes."""
    _check("LiteRT's reference kernels, 16 bits", model, samples, tmp_path)


@pytest.mark.parametrize("terms", [7, 96, 768])
@pytest.mark.parametrize("target", ["litert", "litert-16x8", "openvino"])
def test_the_form_is_as_exact_as_f32(target: str, terms: int) -> None:
    """Compared with rational sums of the rounded operand: errors of a few units in the last place."""
    samples, model = _samples(terms), _model(terms, 1e-5, beta=False)
    model.graph.output.append(helper.make_tensor_value_info("r", TensorProto.FLOAT, None))
    quantized = zp.quantize(model, samples, target=target, effort="none")
    assert quantized.quantization is not None
    ops = quantized.quantization.decided.entry.ops
    kind = next(op for op in ops if isinstance(op, QuantizeRegionOp)).output_specs.data[0]
    assert isinstance(kind, UniformQuantizedType)
    scale = Fraction(float(np.float32(kind.scale)))
    made = quantized.interpreted()(**samples[0])
    gamma = np.random.default_rng(terms).normal(1, 0.3, terms).astype(np.float32).astype(float)
    for real, found in zip(made["r"][0, :8], made["n"][0], strict=False):
        integers = [round(Fraction(float(x)) / scale) for x in real]
        mean = Fraction(sum(integers), terms)
        variance = float(sum((u - mean) ** 2 for u in integers) / terms * scale**2) + 1e-5
        wanted = np.array([float((u - mean) * scale) for u in integers]) / variance**0.5 * gamma
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)

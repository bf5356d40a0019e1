"""Average pools with padding: runtimes compute what we predict, whatever part of the padding the divisors count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from zeropoint.export import ExportOptions, export_program
from zeropoint.export.litert.runtime import LiteRTFile
from zeropoint.export.onnx.openvino import OpenVinoFile
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.regions import regions_of
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize

SHAPE = (1, 4, 10, 7)
Feed = dict[str, Array]
POOLS: dict[str, dict[str, Any]] = {
    "counted": {"pads": [1, 1, 1, 1], "strides": [1, 1], "count_include_pad": 1},
    "counted above": {"pads": [1, 0, 0, 0], "strides": [1, 1], "count_include_pad": 1},
    "not counted": {"pads": [1, 1, 1, 1], "strides": [2, 2]},
    "counted but for ceil mode's": {"pads": [1, 0, 0, 1], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1},
}
OPEN: dict[str, tuple[str, ExportOptions, Callable[[Path], Callable[[Feed], Feed]]]] = {
    "litert": (".tflite", ExportOptions(), lambda path: LiteRTFile(path, reference=True)),
    "litert by default": (".tflite", ExportOptions(), LiteRTFile),
    "onnxruntime": (".onnx", ExportOptions(), OnnxFile),
    "onnxruntime qoperator": (".onnx", ExportOptions(onnx_format="qoperator"), OnnxFile),
    "openvino": (".onnx", ExportOptions(), OpenVinoFile),
}


def quantized(
    node: onnx.NodeProto, constants: list[onnx.TensorProto], target: str, profile: str | None = None
) -> tuple[Quantization, Feed]:
    """A convolution, whose result has a zero point, and the node. The sample has other values than the calibration."""
    random = np.random.default_rng(0)
    weight = numpy_helper.from_array(random.normal(0, 1, (4, 4, 1, 1)).astype(np.float32), "w")
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", SHAPE), ("y", [None] * 4))]
    nodes = [helper.make_node("Conv", ["x", "w"], ["a"]), node]
    graph = helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight, *constants])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)
    samples = [{"x": random.normal(0, 1, SHAPE).astype(np.float32)} for _ in range(3)]
    return quantize(
        load_onnx_model(model, {}), samples[:2], Options(target=target, profile=profile, effort="none")
    ), samples[2]


def check(result: Quantization, sample: Feed, runtime: str, folder: Path) -> None:
    if runtime == "openvino":
        pytest.importorskip("openvino", reason="OpenVINO runs the exported models")
    suffix, options, opened = OPEN[runtime]
    path = folder / f"model{suffix}"
    export_program(result.propagated, path, options)
    np.testing.assert_array_equal(opened(path)(sample)["y"], Interpreter(result.quantized)(sample)["y"])


@pytest.mark.parametrize("name", POOLS)
@pytest.mark.parametrize("runtime", [name for name in OPEN if name != "litert by default"])
def test_means_of_padded_windows_are_predicted(name: str, runtime: str, tmp_path: Path) -> None:
    """OpenVINO pads integers with 0 if padding counts; onnxruntime's integer kernels count what ceil mode adds."""
    node = helper.make_node("AveragePool", ["a"], ["y"], kernel_shape=[3, 3], **POOLS[name])
    result, sample = quantized(node, [], runtime.partition(" ")[0])
    check(result, sample, runtime, tmp_path)


def test_a_constant_around_one_dimension_is_predicted_for_openvino(tmp_path: Path) -> None:
    """OpenVINO makes an integer kernel of such a Pad, which pads with 0."""
    constants = [
        numpy_helper.from_array(np.array([0, 0, 1, 0, 0, 0, 0, 0]), "pads"),
        numpy_helper.from_array(np.float32(0.5), "value"),
    ]
    result, sample = quantized(helper.make_node("Pad", ["a", "pads", "value"], ["y"]), constants, "openvino")
    check(result, sample, "openvino", tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [3, 3], "pads": [0, 0, 2, 0]},
        {"kernel_shape": [3, 3], "strides": [3, 3], "ceil_mode": 1},
        {"kernel_shape": [4, 3], "strides": [4, 2], "pads": [3, 2, 3, 2], "ceil_mode": 1},
        {"kernel_shape": [5, 9], "strides": [3, 1], "pads": [0, 8, 4, 3]},
        {"kernel_shape": [12, 12], "strides": [1, 2], "pads": [3, 6, 6, 7]},
    ],
)
@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_padding_of_most_of_a_window_that_does_not_count_is_predicted_for_litert(
    attributes: dict[str, Any], profile: str | None, tmp_path: Path
) -> None:
    """SAME has at most half a window of padding."""
    result, sample = quantized(helper.make_node("AveragePool", ["a"], ["y"], **attributes), [], "litert", profile)
    check(result, sample, "litert" if profile is None else "litert by default", tmp_path)


@pytest.mark.parametrize(
    "attributes",
    [
        {"kernel_shape": [2, 3], "dilations": [3, 2]},
        {"kernel_shape": [3, 3], "dilations": [2, 1], "strides": [2, 3], "pads": [2, 1, 1, 1], "ceil_mode": 1},
    ],
)
@pytest.mark.parametrize("profile", [None, "xnnpack"])
def test_maxima_of_dilated_windows_are_predicted_for_litert(
    attributes: dict[str, Any], profile: str | None, tmp_path: Path
) -> None:
    result, sample = quantized(helper.make_node("MaxPool", ["a"], ["y"], **attributes), [], "litert", profile)
    check(result, sample, "litert" if profile is None else "litert by default", tmp_path)


LAST = """func.func @main(%x: tensor<{0}xf32> {{zeropoint.name = "x"}}) -> (tensor<{1}xf32> {{zeropoint.name = "y"}}) {{
  %i = stablehlo.constant dense<{2}> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%x, %i) ({{
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.{3} %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }}) {{window_dimensions = array<i64: {4}>, window_strides = array<i64: {4}>,
    padding = dense<{5}> : tensor<{6}x2xi64>}} : (tensor<{0}xf32>, tensor<f32>) -> tensor<{1}xf32>
  {7}
}}"""
DIVIDED = "%n = stablehlo.constant dense<6.0> : tensor<{0}xf32>\n  %1 = stablehlo.divide %0, %n : tensor<{0}xf32>"
IMAGES = {
    "channels last": ("1x6x6x4", "1x3x2x4", "1, 2, 3, 1", "[[0, 0], [0, 0], [0, 0], [0, 0]]", "4"),
    "channels last with padding": ("2x7x5x4", "2x4x2x4", "1, 2, 3, 1", "[[0, 0], [0, 1], [1, 0], [0, 0]]", "4"),
    "channels between": ("2x6x3x6", "2x3x3x2", "1, 2, 1, 3", "[[0, 0], [0, 0], [0, 0], [0, 0]]", "4"),
}


@pytest.mark.parametrize("image", IMAGES)
@pytest.mark.parametrize("runtime", [name for name in OPEN if name != "litert by default"])
@pytest.mark.parametrize("op", ["maximum", "add"])
def test_pools_of_dimensions_that_are_not_last_are_predicted(op: str, image: str, runtime: str, tmp_path: Path) -> None:
    """Images of JAX have channels last; their max pools were refused in .onnx files."""
    given, made, window, padding, rank = IMAGES[image]
    start, end = ("0xFF800000", "return %0 : tensor<{0}xf32>") if op == "maximum" else ("0.0", DIVIDED)
    end = end.format(made) + ("" if op == "maximum" else f"\n  return %1 : tensor<{made}xf32>")
    program = parse_program(LAST.format(given, made, start, op, window, padding, rank, end.format(made)))
    random, shape = np.random.default_rng(0), tuple(map(int, given.split("x")))
    samples = [{"x": random.normal(0.3, 1, shape).astype(np.float32)} for _ in range(3)]
    target = runtime.partition(" ")[0]
    result = quantize(program, samples[:2], Options(target=target, effort="none"))
    (region,) = (each for each in regions_of(result.propagated) if each.logical_kernel.data.endswith("pool"))
    if target == "litert" and image == "channels between":
        pytest.skip("LiteRT's pools have channels last")
    assert region.is_quantized
    check(result, samples[2], runtime, tmp_path)

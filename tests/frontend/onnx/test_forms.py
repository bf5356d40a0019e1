"""The StableHLO that converters write, literally: the solver matches these forms."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx.parser

import zeropoint as zp
from frontend.onnx.models import load, one_op, random
from zeropoint.frontend import load_model
from zeropoint.ir.constants import constant_array
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.simplify import simplify


def body(text: str, folder: Path, locations: bool = False) -> list[str]:
    """The lines of `@main` for a graph in ONNX's text form."""
    header = '<ir_version: 8, opset_import: ["" : 17]>\n'
    program = load(onnx.parser.parse_model(header + text), folder)
    program.module.verify()
    lines = print_program(program, locations=locations).splitlines()
    return [line.strip() for line in lines[2:-2]]


def test_convolution_with_bias(tmp_path: Path) -> None:
    text = """g (float[1,1,6,6] x, float[2,1,3,3] w) => (float[N,C,H,W] y) <float[2] b = {1.0, 2.0}>
    { y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w, b) }"""
    assert body(text, tmp_path) == [
        "%2 = stablehlo.convolution(%0, %1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], "
        "window = {stride = [2, 2], pad = [[1, 1], [1, 1]]} "
        "{batch_group_count = 1 : i64, feature_group_count = 1 : i64} : "
        "(tensor<1x1x6x6xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x3x3xf32>",
        "%3 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>",
        "%4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<2xf32>) -> tensor<1x2x3x3xf32>",
        "%5 = stablehlo.add %2, %4 : tensor<1x2x3x3xf32>",
        "func.return %5 : tensor<1x2x3x3xf32>",
    ]


def test_fully_connected_with_bias(tmp_path: Path) -> None:
    text = """g (float[1,3] x, float[2,3] w) => (float[N,C] y) <float[2] b = {1.0, 2.0}>
    { y = Gemm<transB = 1>(x, w, b) }"""
    assert body(text, tmp_path) == [
        "%2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [1] : "
        "(tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>",
        "%3 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>",
        "%4 = stablehlo.broadcast_in_dim %3, dims = [1] : (tensor<2xf32>) -> tensor<1x2xf32>",
        "%5 = stablehlo.add %2, %4 : tensor<1x2xf32>",
        "func.return %5 : tensor<1x2xf32>",
    ]


def test_batch_normalization_is_one_multiply_and_one_add(tmp_path: Path) -> None:
    text = """g (float[1,2,3] x) => (float[N,C,H] y)
    <float[2] s = {2.0, 3.0}, float[2] b = {1.0, 1.0}, float[2] m = {0.5, 1.0}, float[2] v = {4.0, 9.0}>
    { y = BatchNormalization<epsilon = 0.0>(x, s, b, m, v) }"""
    assert body(text, tmp_path) == [
        "%1 = stablehlo.constant dense<1.000000e+00> : tensor<2xf32>",
        "%2 = stablehlo.constant dense<[5.000000e-01, 0.000000e+00]> : tensor<2xf32>",
        "%3 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<2xf32>) -> tensor<1x2x3xf32>",
        "%4 = stablehlo.multiply %0, %3 : tensor<1x2x3xf32>",
        "%5 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<2xf32>) -> tensor<1x2x3xf32>",
        "%6 = stablehlo.add %4, %5 : tensor<1x2x3xf32>",
        "func.return %6 : tensor<1x2x3xf32>",
    ]


def test_a_batch_normalization_of_weights_is_folded() -> None:
    """As PyTorch exports a normalization in training mode: NFNet standardizes the weights of each convolution."""
    header = '<ir_version: 8, opset_import: ["" : 17]>'
    proto = onnx.parser.parse_model(f"""{header} g (float[1,4,5,5] x) => (float[N,C,H,W] y)
    <int64[3] rows = {{1, 6, -1}}, int64[4] shape = {{6, 4, 3, 3}}> {{
      r = Reshape(w, rows)
      m = ReduceMean<axes = [0, 2], keepdims = 0>(r)
      k = ReduceMean<axes = [0, 2]>(r)
      d = Sub(r, k)
      q = Mul(d, d)
      v = ReduceMean<axes = [0, 2], keepdims = 0>(q)
      n = BatchNormalization(r, scale, bias, m, v)
      f = Reshape(n, shape)
      y = Conv(x, f)
    }}""")
    weights = {"w": random(6, 4, 3, 3), "scale": random(6, low=0.5), "bias": random(6, seed=2)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    network = zp.load(proto)
    rows = weights["w"].reshape(6, -1).astype(np.float64)
    wanted = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    wanted = (wanted * weights["scale"][:, None] + weights["bias"][:, None]).reshape(weights["w"].shape)
    folded = simplify(network.program)
    (convolution,) = (op for op in folded.entry.ops if isinstance(op, ConvolutionOp))
    found = constant_array(convolution.rhs, folded.weights)
    assert found is not None
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_relu_and_relu6(tmp_path: Path) -> None:
    text = """g (float[4] x) => (float[N] y) <float low = {0.0}, float high = {6.0}>
    { a = Relu(x)  y = Clip(a, low, high) }"""
    assert body(text, tmp_path) == [
        "%1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>",
        "%2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<4xf32>",
        "%3 = stablehlo.maximum %0, %2 : tensor<4xf32>",
        "%4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>",
        "%5 = stablehlo.constant dense<6.000000e+00> : tensor<f32>",
        "%6 = stablehlo.clamp %4, %3, %5 : (tensor<f32>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>",
        "func.return %6 : tensor<4xf32>",
    ]


def test_global_average_pool_keeps_its_dimensions_before_the_division(tmp_path: Path) -> None:
    text = "g (float[1,2,3,4] x) => (float[N,C,H,W] y) { y = GlobalAveragePool(x) }"
    assert body(text, tmp_path) == [
        "%1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>",
        "%2 = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [2, 3] : "
        "(tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2xf32>",
        "%3 = stablehlo.reshape %2 : (tensor<1x2xf32>) -> tensor<1x2x1x1xf32>",
        "%4 = stablehlo.constant dense<1.200000e+01> : tensor<f32>",
        "%5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<1x2x1x1xf32>",
        "%6 = stablehlo.divide %3, %5 : tensor<1x2x1x1xf32>",
        "func.return %6 : tensor<1x2x1x1xf32>",
    ]


def test_average_pool_divides_by_a_number_or_by_counts(tmp_path: Path) -> None:
    text = "g (float[1,1,4] x) => (float[N,C,H] y) {{ y = AveragePool<kernel_shape = [3], pads = {}>(x) }}"
    assert body(text.format([0, 0]), tmp_path)[-4:] == [
        "%6 = stablehlo.constant dense<3.000000e+00> : tensor<f32>",
        "%7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<1x1x2xf32>",
        "%8 = stablehlo.divide %2, %7 : tensor<1x1x2xf32>",
        "func.return %8 : tensor<1x1x2xf32>",
    ]
    assert body(text.format([1, 1]), tmp_path)[-3:] == [
        "%6 = stablehlo.constant dense<[[[2.000000e+00, 3.000000e+00, 3.000000e+00, 2.000000e+00]]]> : "
        "tensor<1x1x4xf32>",
        "%7 = stablehlo.divide %2, %6 : tensor<1x1x4xf32>",
        "func.return %7 : tensor<1x1x4xf32>",
    ]


def test_softmax(tmp_path: Path) -> None:
    text = "g (float[2,3] x) => (float[N,C] y) { y = Softmax(x) }"
    assert body(text, tmp_path) == [
        "%1 = stablehlo.constant dense<0xFF800000> : tensor<f32>",
        "%2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
        "%3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>",
        "%4 = stablehlo.subtract %0, %3 : tensor<2x3xf32>",
        "%5 = stablehlo.exponential %4 : tensor<2x3xf32>",
        "%6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>",
        "%7 = stablehlo.reduce(%5 init: %6) applies stablehlo.add across dimensions = [1] : "
        "(tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>",
        "%8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>",
        "%9 = stablehlo.divide %5, %8 : tensor<2x3xf32>",
        "func.return %9 : tensor<2x3xf32>",
    ]


def test_a_bias_has_one_form_however_it_is_spelled(tmp_path: Path) -> None:
    forms = {
        tuple(body(f"g (float[1,2,3] x) => (float[N,C,H] y) <float{shape} b = {{1.0, 2.0}}> {order}", tmp_path)[:2])
        for shape in ("[1,2,1]", "[2,1]")
        for order in ("{ y = Add(x, b) }", "{ y = Add(b, x) }")
    }
    assert forms == {
        (
            "%1 = stablehlo.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>",
            "%2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<2xf32>) -> tensor<1x2x3xf32>",
        )
    }


def test_names_of_nodes_inputs_and_outputs_are_kept(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] image) => (float[N] probabilities) <float[2] offset = {1.0, 2.0}>
        { [sum] a = Add(image, offset)  probabilities = Tanh(a) }"""
    )
    proto.graph.node[0].name = "features/add"
    program = load(proto, tmp_path)
    text = print_program(program, locations=True)
    assert 'zeropoint.name = "image"' in text
    assert 'zeropoint.name = "probabilities"' in text
    assert [line.partition(" loc(")[2] for line in text.splitlines()[2:5]] == [
        '"offset")',
        '"features/add")',
        '"probabilities")',
    ]
    assert print_program(parse_program(text), locations=True) == text
    assert [port.name for port in program.inputs] == ["image"]


def test_large_constants_are_handles_and_equal_ones_are_one(tmp_path: Path) -> None:
    weight = np.arange(65, dtype=np.float32)
    proto = one_op("Sum", {"x": (65,)}, {"a": weight, "b": weight.copy()})
    program = load(proto, tmp_path)
    assert len(program.weights) == 1
    assert print_program(program).count("dense_resource<") == 2


def test_import_is_deterministic(tmp_path: Path) -> None:
    proto = one_op("Sum", {"x": (65,)}, {"a": np.arange(65, dtype=np.float32)})
    load(proto, tmp_path)
    path = tmp_path / "model.onnx"
    assert print_program(load_model(path), locations=True) == print_program(load_model(path), locations=True)


def test_top_k_of_equal_elements_has_the_lower_position_first_and_negative_zero_equals_zero(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1,6] x) => (float[N,C] y, int64[N,C] i) <int64[1] k = {4}> { y, i = TopK(x, k) }"""
    )
    found = zp.load(model)
    for row in ([-0.0, 0.0, -0.0, 0.0, -1, -2], [0.0, -0.0, np.nan, -0.0, 0.0, -0.0], [1, 1, 0, 1, 0, 1]):
        x = np.array([row], np.float32)
        expected = [2, 0, 1, 3] if np.isnan(x).any() else [0, 1, 3, 5] if row[0] else [0, 1, 2, 3]
        for made in (found.interpreted()(x=x), found.native()(x=x)):
            assert made["i"].tolist() == [expected]
            np.testing.assert_array_equal(made["y"].view(np.int32), x[:, expected].view(np.int32))

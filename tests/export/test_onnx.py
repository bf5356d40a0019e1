"""Programs as .onnx files compute in onnxruntime what we predict, every byte of it, by one integer kernel a region."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from xdsl.dialects.builtin import TensorType, f32

import zeropoint as zp
from digits import DIGITS, quantized_digits
from digits import images as samples_of
from networks import Network, channels_last
from oracle.qdq import optimized
from random_networks import Case, cases
from zeropoint.cli import main
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.onnx.graph import files_of
from zeropoint.export.onnx.model import onnx_model
from zeropoint.export.onnx.runtime import OnnxFile
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import QuantizeRegionOp, UniformQuantizedType
from zeropoint.ir.stablehlo import ConvolutionOp
from zeropoint.ir.text import parse_program
from zeropoint.pipeline import Options, Quantization, quantize

FORMS = pytest.mark.parametrize("qoperators", [False, True], ids=["qdq", "qoperator"])


@pytest.fixture(scope="module")
def digits() -> Quantization:
    return quantized_digits("onnxruntime")


def images(count: int) -> list[dict[str, np.ndarray]]:
    return [dict(sample) for sample in samples_of("test", count)]


def checked(program: Program, **options: Any) -> onnx.ModelProto:
    """The model, which ONNX's own checker takes."""
    model = onnx_model(program, **options)
    onnx.checker.check_model(model, full_check=True)
    return model


@FORMS
def test_the_demo_in_onnxruntime_gives_our_bytes(digits: Quantization, qoperators: bool) -> None:
    session = optimized(checked(digits.propagated, qoperators=qoperators), signed=False)
    predict = Interpreter(digits.quantized)
    for image in images(12):
        np.testing.assert_array_equal(session.run(image)[0], predict(image)["probabilities"])


@FORMS
def test_every_region_is_one_integer_kernel(digits: Quantization, qoperators: bool) -> None:
    regions = [op for op in digits.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
    found = Counter(optimized(checked(digits.propagated, qoperators=qoperators), signed=False).inner)
    assert found == {
        "QLinearConv": 7,
        "NhwcMaxPool": 1,
        "QLinearAdd": 1,
        "QLinearGlobalAveragePool": 1,
        "Reshape": 1,
        "QGemm": 1,
        "QLinearSoftmax": 1,
    }
    assert sum(found.values()) == len(regions)


def test_names_are_the_model_s(digits: Quantization) -> None:
    model, original = checked(digits.propagated), onnx.load(DIGITS / "digits.onnx")
    assert [port.name for port in model.graph.input] == [port.name for port in original.graph.input]
    assert [port.name for port in model.graph.output] == [port.name for port in original.graph.output]
    named = {node.name for node in original.graph.node}
    ops = [node.name for node in model.graph.node if "QuantizeLinear" not in node.op_type.replace("De", "")]
    ops = [name for name in ops if not name.endswith(("quantized", "dequantized"))]
    assert len(ops) > 8
    assert set(ops) <= named


def test_quantization_of_an_input_has_its_name(digits: Quantization) -> None:
    graph = checked(digits.propagated).graph
    (node,) = [node for node in graph.node if "image" in node.input]
    assert (node.name, list(node.input)) == ("image_quantized", ["image", "image_scale", "image_zero_point"])


def test_the_opset_is_the_least_that_holds_the_model(digits: Quantization) -> None:
    model = checked(digits.propagated)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", 13)]
    model = checked(digits.propagated, qoperators=True)
    assert {(entry.domain, entry.version) for entry in model.opset_import} == {("", 13), ("com.microsoft", 1)}


def test_random_networks_are_equal_in_every_byte() -> None:
    """Where a region stayed float, up to the order of f32 sums, which is onnxruntime's own."""
    messages: set[str] = set()

    @settings(max_examples=10, suppress_health_check=list(HealthCheck))
    @given(case=cases())
    def check(case: Case) -> None:
        result = quantize(case.program, case.calibration, Options(target="onnxruntime"))
        try:
            sessions = [
                optimized(checked(result.propagated, qoperators=qoperators), signed=False)
                for qoperators in (False, True)
            ]
        except ExportError as error:
            messages.add(str(error))
            return
        regions = [op for op in result.propagated.entry.ops if isinstance(op, QuantizeRegionOp)]
        exact = all(isinstance(op.output_specs.data[0], UniformQuantizedType) for op in regions)
        predict, integers = Interpreter(result.quantized), Interpreter(result.integer)
        for sample in case.samples[:2]:
            expected = predict(sample)
            for name, array in integers(sample).items():
                np.testing.assert_array_equal(array, expected[name])
            for session in sessions:
                for found, prediction in zip(session.run(sample), expected.values(), strict=True):
                    np.testing.assert_allclose(found, prediction, rtol=0 if exact else 1e-5, atol=0 if exact else 1e-5)

    check()
    assert all("found" in text and "expected" in text for text in messages)


def test_integers_at_inputs_and_outputs(digits: Quantization) -> None:
    session = optimized(checked(digits.propagated, integer_io=True), signed=False).session
    assert [port.type for port in (*session.get_inputs(), *session.get_outputs())] == ["tensor(uint8)"] * 2
    output = next(op for op in reversed(list(digits.propagated.entry.ops)) if isinstance(op, QuantizeRegionOp))
    given, wanted = digits.propagated.entry.args[0], output.output_specs.data[0]
    reader = next(iter(given.uses)).operation
    assert isinstance(reader, QuantizeRegionOp)
    read = reader.input_specs.data[0]
    assert isinstance(read, UniformQuantizedType)
    assert isinstance(wanted, UniformQuantizedType)
    for image in images(5):
        stored = np.rint(image["image"] / np.float32(read.scale)).astype(np.uint8)
        (found,) = session.run(None, {"image": stored})
        expected = Interpreter(digits.quantized)(image)["probabilities"]
        np.testing.assert_array_equal(found.astype(np.float32) * np.float32(wanted.scale), expected)


def test_convolutions_with_channels_last_are_transposed() -> None:
    net = Network([(1, 6, 5, 3)])
    random = np.random.default_rng(0)
    kernel = net.constant(random.normal(0, 0.2, (3, 3, 3, 4)))
    op = ConvolutionOp(net.values[0], kernel, TensorType(f32, [1, 6, 5, 4]), channels_last(2), padding=[(1, 1), (1, 1)])
    program = net.finish([net.insert(op)])
    name = program.inputs[0].name
    data = [{name: random.normal(0, 1, (1, 6, 5, 3)).astype(np.float32)} for _ in range(4)]
    result = quantize(program, data, Options(target="onnxruntime"))
    session = optimized(checked(result.propagated), signed=False)
    assert set(session.inner) == {"QLinearConv"}
    for sample in data:
        (expected,) = Interpreter(result.quantized)(sample).values()
        np.testing.assert_array_equal(session.run(sample)[0], expected)


CONSTANTS_ALIKE = """func.func @main(%x: tensor<1x4x8xf32> {zeropoint.name = "x"}) -> tensor<1x4x8xf32> {
  %one = stablehlo.constant dense<1.0> : tensor<1x4x8xf32>
  %half = stablehlo.constant dense<0.5> : tensor<1x4x8xf32>
  %0 = stablehlo.add %x, %one : tensor<1x4x8xf32>
  %1 = stablehlo.multiply %0, %half : tensor<1x4x8xf32>
  return %1 : tensor<1x4x8xf32>
}"""


@FORMS
def test_constants_of_the_same_integers_keep_their_scales(qoperators: bool) -> None:
    """Both are stored as 255: half of a GELU was read with the scale of its 1."""
    random = np.random.default_rng(0)
    data = [{"x": random.normal(0, 1, (1, 4, 8)).astype(np.float32)} for _ in range(4)]
    result = quantize(parse_program(CONSTANTS_ALIKE), data, Options(target="onnxruntime"))
    session = optimized(checked(result.propagated, qoperators=qoperators), signed=False)
    for sample in data:
        (expected,) = Interpreter(result.quantized)(sample).values()
        np.testing.assert_array_equal(session.run(sample)[0], expected)


def _between_integers(kind: str) -> onnx.ModelProto:
    """A float product between two quantized ones."""
    random = np.random.default_rng(0)
    outer = "Gemm" if kind == "Gemm" else "Conv"
    window, shape = ((), [5, 8]) if kind == "Gemm" else ((1, 1), [1, 8, 5, 5])
    strides = {"strides": [2, 2]} if kind == "ConvTranspose" else {}
    arrays = {name: random.normal(0, 0.5, (8, 8, *window)) for name in "abc"} | {"bias": random.normal(0, 0.1, 8)}
    nodes = [
        onnx.helper.make_node(outer, ["x", "a", "bias"], ["u"], name="first"),
        onnx.helper.make_node(kind, ["u", "b", "bias"], ["v"], name="middle", **strides),
        onnx.helper.make_node("Relu", ["v"], ["w"], name="relu"),
        onnx.helper.make_node(outer, ["w", "c", "bias"], ["y"], name="last"),
    ]
    made = [1, 8, 9, 9] if strides else shape
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, size)
        for name, size in (("x", shape), ("y", made))
    ]
    constants = [onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()]
    graph = onnx.helper.make_graph(nodes, "between", ports[:1], ports[1:], constants)
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose", "Gemm"])
def test_float_weights_between_integers_stay_float(kind: str) -> None:
    """onnxruntime quantizes such weights to 8 bits per tensor, whether or not the file asks for it."""
    source = _between_integers(kind)
    shape = [size.dim_value for size in source.graph.input[0].type.tensor_type.shape.dim]
    data = np.random.default_rng(1).normal(size=(6, *shape)).astype(np.float32)
    rules = [] if kind == "ConvTranspose" else [{"name": "middle", "quantize": False}]
    made = zp.quantize(source, data, target="onnxruntime", effort="none", recipe=rules or None)
    assert made.quantization is not None
    model = checked(made.quantization.propagated)
    again = zp.quantize(model, None, target="onnxruntime", recipe=rules or None).program
    session = optimized(model, signed=False)
    assert Counter(session.inner)["DequantizeLinear"] == 1  # of the data, not of the weights
    differing: list[np.ndarray] = []
    for sample in data:
        (expected,) = Interpreter(made.quantization.quantized)({"x": sample}).values()
        differing.append(session.run({"x": sample})[0] != expected)
        np.testing.assert_array_equal(Interpreter(again)({"x": sample})["y"], expected)
    assert np.mean(differing) < 0.01  # the order of float sums


def test_large_constants_go_to_a_file_beside_the_model(digits: Quantization, tmp_path: Path) -> None:
    files = files_of(onnx_model(digits.propagated), "digits.onnx", limit=1000)
    assert list(files) == ["digits.onnx.data", "digits.onnx"]
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    assert len(files["digits.onnx"]) < len(files["digits.onnx.data"])
    onnx.checker.check_model(str(tmp_path / "digits.onnx"), full_check=True)
    session = optimized(onnx.load(tmp_path / "digits.onnx"), signed=False)
    image = images(1)[0]
    np.testing.assert_array_equal(session.run(image)[0], Interpreter(digits.quantized)(image)["probabilities"])


FLOATS = """func.func @main(%x: tensor<2x3xf32> {zeropoint.name = "x"}) -> (tensor<2x3xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.exponential %x : tensor<2x3xf32>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.divide %1, %3 : tensor<2x3xf32>
  %5 = stablehlo.constant dense<3.000000e-01> : tensor<f32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %7 = stablehlo.compare GT, %4, %6 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %8 = stablehlo.transpose %4, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %9 = stablehlo.reshape %8 : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %10 = stablehlo.select %7, %4, %9 : tensor<2x3xi1>, tensor<2x3xf32>
  %11 = stablehlo.clamp %0, %10, %5 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %12 = stablehlo.reverse %11, dims = [1] : tensor<2x3xf32>
  %13 = stablehlo.rsqrt %12 : tensor<2x3xf32>
  %14 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %15 = stablehlo.concatenate %13, %14, dim = 0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %16 = stablehlo.slice %15 [1:4:2, 0:3] : (tensor<4x3xf32>) -> tensor<2x3xf32>
  return %16 : tensor<2x3xf32>
}"""


def test_float_ops_become_float_operators() -> None:
    program = parse_program(FLOATS)
    x = np.random.default_rng(0).normal(0, 2, (2, 3)).astype(np.float32)
    found = optimized(checked(program)).run({"x": x})[0]
    np.testing.assert_allclose(found, Interpreter(program)({"x": x})["y"], rtol=1e-6)


@pytest.mark.parametrize("terms", [1, 2, 7, 100])
def test_probabilities_that_are_nearly_equal_do_not_overflow_in_softmax(terms: int) -> None:
    random = np.random.default_rng(terms)
    weight = onnx.numpy_helper.from_array(random.normal(0, 0.005, (4, terms)).astype(np.float32), "w")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["s"]),
        onnx.helper.make_node("Softmax", ["s"], ["y"], axis=-1),
    ]
    ports = [onnx.helper.make_tensor_value_info(name, 1, (1, size)) for name, size in (("x", 4), ("y", terms))]
    graph = onnx.helper.make_graph(nodes, "softmax", ports[:1], ports[1:], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=10)
    data = {"x": random.normal(size=(16, 4)).astype(np.float32)}
    found = zp.quantize(model, data, target="onnxruntime", effort="none").quantization
    sample = {"x": data["x"][:1]}
    (probabilities,) = optimized(checked(found.propagated), signed=False).run(sample)
    np.testing.assert_array_equal(probabilities, Interpreter(found.quantized)(sample)["y"])
    np.testing.assert_allclose(probabilities, 1 / terms, rtol=0.05)


EMBEDDING = """func.func @main(%i: tensor<4xi32> {zeropoint.name = "i"}) -> (tensor<4x3xf32> {zeropoint.name = "y"}) {
  %t = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>
    : (tensor<2x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""


def test_rows_are_gathered_by_clamped_indices() -> None:
    program = parse_program(EMBEDDING)
    indices = np.array([0, 1, 7, -3], np.int32)
    np.testing.assert_array_equal(
        optimized(checked(program)).run({"i": indices})[0], Interpreter(program)({"i": indices})["y"]
    )


CONSTANT_INDICES = """
func.func @main(%t: tensor<2x3xf32> {zeropoint.name = "t"}) -> (tensor<4x3xf32> {zeropoint.name = "y"}) {
  %i = stablehlo.constant dense<[0, 1, 7, -3]> : tensor<4xi32>
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>
    : (tensor<2x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}"""


def test_an_output_with_the_name_of_an_input_is_refused() -> None:
    text = """func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "x"}) {
      %0 = stablehlo.add %x, %x : tensor<1x4xf32>
      return %0 : tensor<1x4xf32>
    }"""
    samples = [{"x": np.ones((1, 4), np.float32)}]
    made = quantize(parse_program(text), samples, Options(target="onnxruntime", effort="none"))
    with pytest.raises(ExportError, match="found 'x' as an input and as an output, expected names of their own"):
        onnx_model(made.propagated)


def test_constant_indices_out_of_range_are_clamped() -> None:
    program = parse_program(CONSTANT_INDICES)
    table = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(optimized(checked(program)).run({"t": table})[0], table[[0, 1, 1, 0]])


VECTORS = """
func.func @main(%t: tensor<2x3x4xf32> {{zeropoint.name = "t"}}, %i: tensor<5x2xi64> {{zeropoint.name = "i"}})
    -> (tensor<5x4xf32> {{zeropoint.name = "y"}}) {{
  %c = stablehlo.constant dense<[[0, 0], [1, 2], [-3, 1], [1, 9], [5, -1]]> : tensor<5x2xi64>
  %0 = "stablehlo.gather"(%t, {indices}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1, 4>}}> : (tensor<2x3x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}}"""


@pytest.mark.parametrize("indices", ["%i", "%c"])
def test_slices_are_gathered_by_clamped_vectors_of_indices(indices: str) -> None:
    """The positions of a BERT: GatherElements with a constant table."""
    program = parse_program(VECTORS.format(indices=indices))
    table = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    given = {"t": table, "i": np.array([[1, -4], [0, 1], [7, 2], [1, 1], [-1, 3]])}
    model = checked(program)
    assert "GatherND" in [node.op_type for node in model.graph.node]
    (found,) = optimized(model).run({port.name: given[port.name] for port in model.graph.input})
    np.testing.assert_array_equal(found, Interpreter(program)(given)["y"])


@pytest.mark.parametrize(
    "op",
    [f"chlo.{name}" for name in ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cosh", "sinh")]
    + ["stablehlo.tan"],
)
def test_functions_of_one_float(op: str) -> None:
    program = parse_program(
        'func.func @main(%x: tensor<9xf32> {zeropoint.name = "x"}) -> (tensor<9xf32> {zeropoint.name = "y"}) {\n'
        f"  %0 = {op} %x : tensor<9xf32>{' -> tensor<9xf32>' if 'chlo' in op else ''}\n  return %0 : tensor<9xf32>\n}}"
    )
    x = (
        np.linspace(1.1, 3, 9, dtype=np.float32)
        if op.endswith("acosh")
        else np.linspace(-0.9, 0.9, 9, dtype=np.float32)
    )
    found = optimized(checked(program)).run({"x": x})[0]
    np.testing.assert_allclose(found, Interpreter(program)({"x": x})["y"], rtol=1e-5)


COMPUTED_WEIGHTS = """func.func @main(%x: tensor<2x7x6x4xf32> {zeropoint.name = "x"},
    %w: tensor<3x2x2x8xf32> {zeropoint.name = "w"}) -> (tensor<2x4x5x8xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {stride = [2, 1], pad = [[1, 1], [0, 1]], rhs_dilate = [1, 2]}
    {batch_group_count = 1 : i64, feature_group_count = 2 : i64}
    : (tensor<2x7x6x4xf32>, tensor<3x2x2x8xf32>) -> tensor<2x4x5x8xf32>
  return %0 : tensor<2x4x5x8xf32>
}"""


def test_a_convolution_with_computed_weights_is_a_conv_of_floats() -> None:
    program, random = parse_program(COMPUTED_WEIGHTS), np.random.default_rng(0)
    inputs = {
        "x": random.normal(0, 1, (2, 7, 6, 4)).astype(np.float32),
        "w": random.normal(0, 1, (3, 2, 2, 8)).astype(np.float32),
    }
    found = optimized(checked(program)).run(inputs)[0]
    np.testing.assert_allclose(found, Interpreter(program)(inputs)["y"], rtol=1e-4, atol=1e-6)


def test_computed_weights_that_conv_cannot_express_are_refused() -> None:
    program = parse_program(
        COMPUTED_WEIGHTS.replace("rhs_dilate = [1, 2]", "rhs_dilate = [1, 2], reverse = [true, true]")
    )
    with pytest.raises(ExportError, match=r"found computed weights of a convolution with .* a reversed window"):
        onnx_model(program)


def test_a_float_op_that_onnx_lacks_is_named() -> None:
    text = FLOATS.replace("stablehlo.exponential %x :", "chlo.lgamma %x : tensor<2x3xf32> ->")
    with pytest.raises(
        ExportError, match=r"chlo\.lgamma, expected an op that ONNX has in float; replace it in the model"
    ):
        onnx_model(parse_program(text))


def test_a_program_of_another_target_is_refused(digits: Quantization, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="found a program for target 'onnxruntime', expected one for litert"):
        export_program(digits.propagated, tmp_path / "x.tflite", ExportOptions())
    assert not list(tmp_path.iterdir())


def test_the_command_writes_a_file_that_compare_runs_in_onnxruntime(digits: Quantization, tmp_path: Path) -> None:
    path, data = tmp_path / "digits.onnx", str(tmp_path / "images.npz")
    np.savez(data, image=np.concatenate([sample["image"] for sample in images(12)]))
    arguments = ["quantize", str(DIGITS / "digits.onnx"), "--data", data, "--effort", "none"]
    answer = CliRunner().invoke(main, [*arguments, "--target", "onnxruntime", "-o", str(path)])
    assert answer.exit_code == 0, answer.output
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(path), "--data", data, "--json"]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    assert '"top1": 1.0' in answer.output


def test_onnxruntime_runs_i8_activations_in_integer_kernels(tmp_path: Path) -> None:
    """Its optimizer needs an option for this on x64; without it, sums and some convolutions are float between casts."""
    found = quantized_digits("onnxruntime")
    export_program(found.propagated, tmp_path / "digits.onnx")
    options = OnnxFile(tmp_path / "digits.onnx")._session.get_session_options()
    assert options.get_session_config_entry("session.qdqisint8allowed") == "1"

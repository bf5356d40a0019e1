"""Programs as .tflite files compute in LiteRT's reference kernels what we predict, every byte of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from hypothesis import given

import zeropoint as zp
from digits import DIGITS, quantized_digits
from digits import images as samples_of
from oracle.litert import evaluate, evaluate_by_default, operators
from property_cases import some
from random_networks import Case, cases
from zeropoint.cli import main
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.litert.model import litert_model
from zeropoint.frontend.onnx import load_onnx_model
from zeropoint.interp import Interpreter
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.litert_schema import schema
from zeropoint.pipeline import Options, Quantization, quantize


@pytest.fixture(scope="module")
def digits() -> Quantization:
    return quantized_digits("litert")


def tensor_names(content: bytes) -> list[str]:
    graph = schema().Model.GetRootAs(content).Subgraphs(0)
    return [graph.Tensors(index).Name().decode() for index in range(graph.TensorsLength())]


def images(count: int) -> list[Array]:
    return [sample["image"] for sample in samples_of("test", count)]


def test_the_demo_in_litert_gives_our_bytes(digits: Quantization) -> None:
    content = litert_model(digits.propagated)
    predict = Interpreter(digits.quantized)
    for image in images(12):
        (found,) = evaluate(content, image.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


def test_contractions_that_a_recipe_keeps_float_are_exported() -> None:
    """The demand itself was taken for the element type of the operands."""
    weight = onnx.numpy_helper.from_array(np.random.default_rng(0).normal(0, 1, (8, 8)).astype(np.float32), "w")
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], name="a"),
        onnx.helper.make_node("Transpose", ["a"], ["b"], perm=[0, 2, 1], name="b"),
        onnx.helper.make_node("MatMul", ["a", "b"], ["y"], name="y"),
    ]
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", [1, 4, 8]), ("y", [1, 4, 4]))
    ]
    model = onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight]), ir_version=10)
    samples = [{"x": np.random.default_rng(seed).normal(0, 1, (1, 4, 8)).astype(np.float32)} for seed in range(4)]
    recipe = [{"name": name, "quantize": False} for name in "ay"]
    result = zp.quantize(model, samples, target="litert", recipe=recipe, effort="none").quantization
    assert result is not None
    (found,) = evaluate(litert_model(result.propagated), samples[0]["x"])
    np.testing.assert_allclose(found, zp.load(model)(**samples[0])["y"], rtol=1e-5, atol=1e-5)


def test_operations_on_booleans_are_logical_operators() -> None:
    program = parse_program("""
    func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %0 = stablehlo.constant dense<0.0> : tensor<2x3xf32>
      %1 = stablehlo.compare GT, %x, %0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
      %2 = stablehlo.compare GT, %y, %0 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
      %3 = stablehlo.and %1, %2 : tensor<2x3xi1>
      %4 = stablehlo.xor %1, %2 : tensor<2x3xi1>
      %5 = stablehlo.not %4 : tensor<2x3xi1>
      %6 = stablehlo.or %3, %5 : tensor<2x3xi1>
      %7 = stablehlo.select %6, %x, %y : tensor<2x3xi1>, tensor<2x3xf32>
      return %7 : tensor<2x3xf32>
    }""")
    x, y = np.random.default_rng(0).normal(0, 1, (2, 2, 3)).astype(np.float32)
    (found,) = evaluate(litert_model(program), x, y)
    np.testing.assert_array_equal(found, np.where((x > 0) == (y > 0), x, y))


def test_bits_of_integers_beyond_32_bits_are_refused() -> None:
    program = parse_program("""
    func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> {
      %0 = stablehlo.not %x : tensor<2xi64>
      return %0 : tensor<2xi64>
    }""")
    with pytest.raises(
        ExportError, match=r"found stablehlo\.not of i64, expected booleans, or integers that i32 holds"
    ):
        litert_model(program)


def test_functions_of_words_give_our_bytes() -> None:
    random = np.random.default_rng(0)
    weights = [
        onnx.numpy_helper.from_array(random.normal(0, spread, shape).astype(np.float32), name)
        for name, spread, shape in (("w", 1, (8, 40)), ("v", 2, (40, 30)))
    ]
    ops = ["Tanh", "LeakyRelu", "Gelu", "Exp", "Abs", "Sigmoid"]
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["0"])]
    nodes += [onnx.helper.make_node(op, [str(index)], [str(index + 1)]) for index, op in enumerate(ops)]
    nodes += [onnx.helper.make_node("MatMul", ["6", "v"], ["7"]), onnx.helper.make_node("Softmax", ["7"], ["y"])]
    ports = [onnx.helper.make_tensor_value_info(name, 1, (60, size)) for name, size in (("x", 8), ("y", 30))]
    graph = onnx.helper.make_graph(nodes, "words", ports[:1], ports[1:], weights)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    data = [{"x": random.normal(size=(60, 8)).astype(np.float32)} for _ in range(4)]
    result = quantize(load_onnx_model(model, {}), data, Options(target="litert-16x8"))
    (found,) = evaluate(litert_model(result.propagated), data[0]["x"])
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(data[0])["y"])
    np.testing.assert_array_equal(found, NativeProgram(result.integer)(data[0])["y"])


def test_the_model_s_own_layout_takes_the_model_s_own_images(digits: Quantization) -> None:
    content = litert_model(digits.propagated, channels_last=False)
    predict = Interpreter(digits.quantized)
    for image in images(5):
        (found,) = evaluate(content, image)
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


def test_every_tensor_has_a_name_of_the_model(digits: Quantization) -> None:
    network = onnx.load(DIGITS / "digits.onnx").graph
    known = {*(node.name for node in network.node), *(value.name for value in (*network.input, *network.output))}
    found = tensor_names(litert_model(digits.propagated))
    assert len(set(found)) == len(found) > 30
    assert not [name for name in found if name.split("/")[0].removesuffix("_1") not in known]
    assert {"image_1", "stem.conv", "stem.conv/weights", "stem.conv/bias", "mean/axes"} <= set(found)


def test_prelu_with_a_slope_per_channel_is_one_operator_with_our_bytes() -> None:
    random = np.random.default_rng(5)
    slopes = ", ".join(str(slope) for slope in random.uniform(-0.5, 2.0, 3).round(3))
    program = parse_program(f"""func.func @main(%x: tensor<1x6x5x3xf32>) -> tensor<1x6x5x3xf32> {{
      %s = stablehlo.constant dense<[{slopes}]> : tensor<3xf32>
      %b = stablehlo.broadcast_in_dim %s, dims = [3] : (tensor<3xf32>) -> tensor<1x6x5x3xf32>
      %z = stablehlo.constant dense<0.0> : tensor<1x6x5x3xf32>
      %c = stablehlo.compare GE, %x, %z : (tensor<1x6x5x3xf32>, tensor<1x6x5x3xf32>) -> tensor<1x6x5x3xi1>
      %m = stablehlo.multiply %x, %b : tensor<1x6x5x3xf32>
      %y = stablehlo.select %c, %x, %m : tensor<1x6x5x3xi1>, tensor<1x6x5x3xf32>
      return %y : tensor<1x6x5x3xf32>
    }}""")
    samples = [{"arg0": random.normal(0, 1, (1, 6, 5, 3)).astype(np.float32)} for _ in range(8)]
    result = quantize(program, samples, Options(target="litert"))
    content = litert_model(result.propagated)
    predict = Interpreter(result.quantized)
    for sample in samples:
        (found,) = evaluate(content, sample["arg0"])
        (expected,) = predict(sample).values()
        np.testing.assert_array_equal(found, expected)


def test_integers_at_inputs_and_outputs(digits: Quantization) -> None:
    content = litert_model(digits.propagated, integer_io=True)
    predict = Interpreter(digits.quantized)
    for image in images(5):
        stored = (np.rint(image / np.float32(1 / 255)) - 128).astype(np.int8)
        (found,) = evaluate(content, stored.transpose(0, 2, 3, 1))
        assert found.dtype == np.int8
        expected = predict({"image": image})["probabilities"]
        np.testing.assert_array_equal((found.astype(np.float32) + 128) / 256, expected)


@pytest.mark.parametrize("profile", ["fixed32-double", "xnnpack"])
def test_random_networks_are_equal_in_every_byte(profile: str) -> None:
    """Prediction, integer program and runtime; `xnnpack` is what the runtime computes by default."""

    messages: set[str] = set()

    @some(6)
    @given(case=cases())
    def check(case: Case) -> None:
        result = quantize(case.program, case.calibration, Options(target="litert", profile=profile))
        try:
            content = litert_model(result.propagated, channels_last=False)
        except ExportError as error:
            messages.add(str(error))
            return
        predict, integers = Interpreter(result.quantized), Interpreter(result.integer)
        for sample in case.samples[:2]:
            expected = predict(sample)
            for name, array in integers(sample).items():
                np.testing.assert_array_equal(array, expected[name])
            values = [sample[port.name] for port in case.program.inputs]
            found = evaluate(content, *values) if profile == "fixed32-double" else evaluate_by_default(content, *values)
            for array, prediction in zip(found, expected.values(), strict=True):
                np.testing.assert_array_equal(array, prediction)

    check()
    assert all("found" in text and "expected" in text for text in messages)


def test_the_demo_with_xnnpack_gives_our_bytes() -> None:
    result = quantized_digits("litert", "xnnpack")
    content = litert_model(result.propagated)
    predict = Interpreter(result.quantized)
    for image in images(12):
        (found,) = evaluate_by_default(content, image.transpose(0, 2, 3, 1))
        np.testing.assert_array_equal(found, predict({"image": image})["probabilities"])


def test_means_of_16_bits_with_xnnpack_are_litert_s() -> None:
    """XNNPACK has no kernels of 16 bits. The input holds multiples of its scale: its quantization rounds nothing."""
    program = parse_program("""func.func @main(%x: tensor<1x120x16xf32>) -> tensor<1x120xf32> {
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [2]
        : (tensor<1x120x16xf32>, tensor<f32>) -> tensor<1x120xf32>
      %n = stablehlo.constant dense<16.0> : tensor<f32>
      %b = stablehlo.broadcast_in_dim %n, dims = [] : (tensor<f32>) -> tensor<1x120xf32>
      %y = stablehlo.divide %s, %b : tensor<1x120xf32>
      return %y : tensor<1x120xf32>
    }""")
    stored = np.random.default_rng(3).integers(-32767, 32768, (1, 120, 16))
    stored[0, 0, 0] = 32767
    sample = {"arg0": stored.astype(np.float32) * np.float32(2**-14)}
    result = quantize(program, [sample], Options(target="litert-16x8", profile="xnnpack"))
    (found,) = evaluate_by_default(litert_model(result.propagated), sample["arg0"])
    (expected,) = Interpreter(result.quantized)(sample).values()
    np.testing.assert_array_equal(found, expected)


def test_fully_connected_layers_of_16_bits_with_xnnpack_round_once_as_litert_s() -> None:
    """The row of LiteRT's kernel has its own profile, also where the user chose XNNPACK's for the program."""
    random = np.random.default_rng(5)
    weight = onnx.numpy_helper.from_array(random.normal(size=(24, 32)).astype(np.float32), "w")
    node = onnx.helper.make_node("Gemm", ["x", "w"], ["y"], name="y")
    ports = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in (("x", (64, 24)), ("y", (64, 32)))
    ]
    graph = onnx.helper.make_graph([node], "layer", ports[:1], ports[1:], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    stored = random.integers(-32767, 32768, (64, 24))
    stored[0, 0] = 32767
    sample = {"x": stored.astype(np.float32) * np.float32(2**-14)}
    result = quantize(load_onnx_model(model, {}), [sample], Options(target="litert-16x8", profile="xnnpack"))
    (found,) = evaluate_by_default(litert_model(result.propagated), sample["x"])
    (expected,) = Interpreter(result.quantized)(sample).values()
    np.testing.assert_array_equal(found, expected)


def test_a_program_of_another_target_is_refused(tmp_path: Path) -> None:
    result = quantized_digits("cpu")
    with pytest.raises(ExportError, match="found a program for target 'cpu', expected one for litert or litert-16x8"):
        export_program(result.propagated, tmp_path / "x.tflite", ExportOptions())
    with pytest.raises(ExportError, match=r"found suffix .\.foo., expected one of: \.mlirbc, \.onnx, "):
        export_program(result.propagated, tmp_path / "x.foo")
    assert not list(tmp_path.iterdir())


def test_an_integer_program_is_refused(digits: Quantization, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match="found a program without quantized kernels, expected at least one"):
        export_program(digits.integer, tmp_path / "x.tflite")


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
  return %11 : tensor<2x3xf32>
}"""


def test_float_ops_become_float_operators() -> None:
    program = parse_program(FLOATS)
    x = np.random.default_rng(0).normal(0, 2, (2, 3)).astype(np.float32)
    (found,) = evaluate(litert_model(program), x)
    np.testing.assert_allclose(found, Interpreter(program)({"x": x})["y"], rtol=1e-6)


QUOTIENT = """func.func @main(%a: tensor<3x4xf32> {zeropoint.name = "a"}, %b: tensor<3x4xf32> {zeropoint.name = "b"})
    -> (tensor<3x4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.divide %a, %b : tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}"""


@pytest.mark.parametrize(("least", "expected"), [(3.0, ["DIV"]), (0.05, ["DEQUANTIZE", "DIV", "QUANTIZE"])])
def test_quotients_are_integers_if_the_runtime_can_divide_by_their_scales(least: float, expected: list[str]) -> None:
    made = np.random.default_rng(0)
    divisors = np.linspace(least, 4, 12, dtype=np.float32).reshape(3, 4)
    samples = [{"a": made.uniform(-1, 1, (3, 4)).astype(np.float32), "b": divisors} for _ in range(4)]
    result = quantize(parse_program(QUOTIENT), samples, Options(target="litert"))
    content = litert_model(result.propagated)
    assert between_casts(content) == expected
    for sample in samples:
        (found,) = evaluate(content, sample["a"], sample["b"])
        np.testing.assert_array_equal(found, Interpreter(result.integer)(sample)["y"])


def between_casts(content: bytes) -> list[str]:
    """The operators without the casts of two inputs and that of the output, each once."""
    found = operators(content)[:-1]
    for _ in range(2):
        found.remove("QUANTIZE")
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("op", ["add", "subtract"])
@pytest.mark.parametrize(("apart", "inner"), [(1.0, []), (2.0**-17, ["DEQUANTIZE", "QUANTIZE"])])
def test_sums_are_floats_if_the_runtime_refuses_the_scales_that_a_model_pins(
    op: str, apart: float, inner: list[str]
) -> None:
    """Operands of a scale of more than 2^14 times that of the result end LiteRT's process."""
    name, floats = "ADD" if op == "add" else "SUB", "tensor<3x4xf32>"
    lines = [f"func.func @main(%a: {floats}, %b: {floats}) -> {floats} {{"]
    for value, made, scale in (("%a", "%c", 2.0**-15), ("%b", "%d", 2.0**-15), ("%s", "%r", 2.0**-15 * apart)):
        if value == "%s":
            lines.append(f"%s = stablehlo.{op} %c, %d : {floats}")
        stored = f"tensor<3x4x!quant.uniform<i16:f32, {scale!r}>>"
        lines.append(f"{made}q = quant.qcast {value} : {floats} to {stored}")
        lines.append(f"{made} = quant.dcast {made}q : {stored} to {floats}")
    program = parse_program("\n".join([*lines, f"return %r : {floats}", "}"]))
    result = quantize(program, None, Options(target="litert-16x8"))
    content = litert_model(result.propagated)
    assert between_casts(content) == [*inner[:1], name, *inner[1:]]
    random = np.random.default_rng(0)
    a, moved = (random.uniform(-0.5, 0.5, (3, 4)).astype(np.float32) for _ in range(2))
    given = [a, (-a if op == "add" else a) + moved * np.float32(apart)]
    (found,) = evaluate(content, *given)
    np.testing.assert_array_equal(found, *Interpreter(result.integer).run_values(given))


EMBEDDING = """func.func @main(%i: tensor<4xi32> {zeropoint.name = "i"}) -> (tensor<4x3xf32> {zeropoint.name = "y"}) {
  %t = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %0 = "stablehlo.gather"(%t, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0],
    start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>
    : (tensor<2x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  %1 = stablehlo.reverse %0, dims = [1] : tensor<4x3xf32>
  %2 = stablehlo.iota dim = 0 : tensor<4x3xf32>
  %3 = stablehlo.add %1, %2 : tensor<4x3xf32>
  return %3 : tensor<4x3xf32>
}"""


@pytest.mark.parametrize("target", ["litert", "litert-16x8"])
@pytest.mark.parametrize("quietest", [0.0, 0.05])
def test_quotients_by_zero_stay_float(target: str, quietest: float) -> None:
    """LiteRT's DIV ends the run at a divisor that is stored as 0, even if a select takes another number there.

    The root of a small sum of squares is not small, but the sum itself is rounded to 0.
    """
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"], name="a"),
        onnx.helper.make_node("LpNormalization", ["a"], ["b"], axis=-1, name="b"),
        onnx.helper.make_node("MatMul", ["b", "w"], ["y"], name="y"),
    ]
    random = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(random.normal(0, 1, (8, 8)).astype(np.float32), "w")
    ports = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [4, 8]) for name in "xy"]
    graph = onnx.helper.make_graph(nodes, "g", ports[:1], ports[1:], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
    data = [{"x": (random.normal(size=(4, 8)) * [[1], [1], [quietest], [1]]).astype(np.float32)} for _ in range(8)]
    network = zp.load(model)
    result = quantize(network.program, data, Options(target, effort="none"))
    content = litert_model(result.propagated)
    for sample in data:
        (found,) = evaluate(content, sample["x"])
        assert np.abs(found - network(**sample)["y"]).max() < 0.2


def test_rows_are_gathered_by_clamped_indices() -> None:
    program = parse_program(EMBEDDING)
    indices = np.array([0, 1, 7, -3], np.int32)
    (found,) = evaluate(litert_model(program), indices)
    np.testing.assert_array_equal(found, Interpreter(program)({"i": indices})["y"])


@pytest.mark.parametrize("indices", ["%i", "%c"])
def test_slices_are_gathered_by_clamped_vectors_of_indices(indices: str) -> None:
    program = parse_program(f"""
func.func @main(%t: tensor<2x3x4xf32>, %i: tensor<5x2xi64>) -> tensor<5x4xf32> {{
  %c = stablehlo.constant dense<[[0, 0], [1, 2], [-3, 1], [1, 9], [5, -1]]> : tensor<5x2xi64>
  %0 = "stablehlo.gather"(%t, {indices}) <{{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>,
    slice_sizes = array<i64: 1, 1, 4>}}> : (tensor<2x3x4xf32>, tensor<5x2xi64>) -> tensor<5x4xf32>
  return %0 : tensor<5x4xf32>
}}""")
    given = [np.arange(24, dtype=np.float32).reshape(2, 3, 4), np.array([[1, -4], [0, 1], [7, 2], [1, 1], [-1, 3]])]
    (found,) = evaluate(litert_model(program), *given)
    np.testing.assert_array_equal(found, *Interpreter(program).run_values(given))


def test_an_input_that_the_model_transposes_keeps_its_order() -> None:
    """The exported LSTM took time before batch."""
    program = parse_program("""
func.func @main(%x: tensor<1x5x3xf32>) -> tensor<5x1x3xf32> {
  %0 = stablehlo.transpose %x, dims = [1, 0, 2] : (tensor<1x5x3xf32>) -> tensor<5x1x3xf32>
  %1 = stablehlo.tanh %0 : tensor<5x1x3xf32>
  return %1 : tensor<5x1x3xf32>
}""")
    content = litert_model(program)
    x = np.arange(15, dtype=np.float32).reshape(1, 5, 3) / 8
    (found,) = evaluate(content, x)
    np.testing.assert_allclose(found, *Interpreter(program).run_values([x]), rtol=1e-6)


@pytest.mark.parametrize("ports", [True, False])
def test_a_model_s_own_transpose_to_channels_last_is_no_operator(ports: bool) -> None:
    """SSD's heads and ConvNeXt have one behind a convolution."""
    random = np.random.default_rng(0)
    weights = ", ".join(str(w) for w in random.normal(0, 1, 12).round(3))
    program = parse_program(f"""func.func @main(%x: tensor<1x3x5x6xf32>) -> tensor<1x5x6x4xf32> {{
      %f = stablehlo.constant dense<[{weights}]> : tensor<12xf32>
      %w = stablehlo.reshape %f : (tensor<12xf32>) -> tensor<4x3x1x1xf32>
      %c = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : (tensor<1x3x5x6xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x5x6xf32>
      %t = stablehlo.transpose %c, dims = [0, 2, 3, 1] : (tensor<1x4x5x6xf32>) -> tensor<1x5x6x4xf32>
      %y = stablehlo.logistic %t : tensor<1x5x6x4xf32>
      return %y : tensor<1x5x6x4xf32>
    }}""")
    samples = [{"arg0": random.normal(0, 1, (1, 3, 5, 6)).astype(np.float32)} for _ in range(4)]
    result = quantize(program, samples, Options(target="litert"))
    content = litert_model(result.propagated, channels_last=ports)
    assert operators(content)[-3:] == ["CONV_2D", "LOGISTIC", "DEQUANTIZE"]
    predict = Interpreter(result.quantized)
    for sample in samples:
        x = sample["arg0"]
        (found,) = evaluate(content, x.transpose(0, 2, 3, 1) if ports else x)
        (expected,) = predict(sample).values()
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("target", ["litert", "litert-16x8"])
@pytest.mark.parametrize("over", [1, 2, 3])
def test_a_softmax_over_another_dimension_is_transposed(target: str, over: int) -> None:
    """YOLO's boxes are means over a softmax in the middle."""
    shape = (1, 2, 5, 3)
    full, rest = ("x".join(map(str, s)) for s in (shape, [n for d, n in enumerate(shape) if d != over]))
    kept = [d for d in range(4) if d != over]
    program = parse_program(f"""func.func @main(%x: tensor<{full}xf32>) -> tensor<{full}xf32> {{
      %n = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %m = stablehlo.reduce(%x init: %n) applies stablehlo.maximum across dimensions = [{over}]
        : (tensor<{full}xf32>, tensor<f32>) -> tensor<{rest}xf32>
      %b = stablehlo.broadcast_in_dim %m, dims = {kept} : (tensor<{rest}xf32>) -> tensor<{full}xf32>
      %d = stablehlo.subtract %x, %b : tensor<{full}xf32>
      %e = stablehlo.exponential %d : tensor<{full}xf32>
      %s = stablehlo.reduce(%e init: %z) applies stablehlo.add across dimensions = [{over}]
        : (tensor<{full}xf32>, tensor<f32>) -> tensor<{rest}xf32>
      %c = stablehlo.broadcast_in_dim %s, dims = {kept} : (tensor<{rest}xf32>) -> tensor<{full}xf32>
      %y = stablehlo.divide %e, %c : tensor<{full}xf32>
      return %y : tensor<{full}xf32>
    }}""")
    random = np.random.default_rng(0)
    samples = [{"arg0": random.normal(0, 2, shape).astype(np.float32)} for _ in range(4)]
    result = quantize(program, samples, Options(target=target))
    content = litert_model(result.propagated)
    assert operators(content)[1:-1] == (["SOFTMAX"] if over == 3 else ["TRANSPOSE", "SOFTMAX", "TRANSPOSE"])
    predict = Interpreter(result.quantized)
    for sample in samples:
        (found,) = evaluate(content, sample["arg0"])
        (expected,) = predict(sample).values()
        np.testing.assert_array_equal(found, expected)


def test_a_float_op_that_litert_lacks_is_named() -> None:
    text = FLOATS.replace("stablehlo.exponential %x :", "chlo.lgamma %x : tensor<2x3xf32> ->")
    with pytest.raises(
        ExportError, match=r"chlo\.lgamma, expected an op that LiteRT has in float; replace it in the model"
    ):
        litert_model(parse_program(text))


def test_a_convolution_with_computed_weights_is_refused_with_the_format_that_has_it() -> None:
    program = parse_program("""func.func @main(
      %x: tensor<1x5x5x2xf32>, %w: tensor<3x3x2x4xf32>) -> tensor<1x3x3x4xf32> {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {}
        {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<1x5x5x2xf32>, tensor<3x3x2x4xf32>) -> tensor<1x3x3x4xf32>
      return %0 : tensor<1x3x3x4xf32>
    }""")
    expected = "found computed weights of a convolution, expected constant ones for LiteRT; use --target onnxruntime -o"
    with pytest.raises(ExportError, match=expected):
        litert_model(program)


def test_compare_runs_an_exported_file_in_its_runtime(digits: Quantization, tmp_path: Path) -> None:
    path = tmp_path / "digits.tflite"
    export_program(digits.propagated, path)
    data = tmp_path / "images.npz"
    np.savez(data, image=np.concatenate(images(12)))
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(path), "--data", str(data), "--json"]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    assert '"top1": 1.0' in answer.output


def test_a_file_that_is_no_model_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "broken.tflite"
    path.write_bytes(b"\0" * 64)
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(path), "--data", str(DIGITS / "calib.npz")]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 2
    assert "without the identifier 'TFL3', expected a .tflite file" in answer.output


EDGE = """
func.func @main(%x: tensor<1x3x6x5xf32>) -> tensor<1x3x6x5xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = "stablehlo.reduce_window"(%x, %z) <{padding = dense<[[0, 0], [0, 0], [0, 0], [0, 1]]> : tensor<4x2xi64>,
    window_dimensions = array<i64: 1, 1, 1, 2>, window_strides = array<i64: 1, 1, 1, 1>}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %c = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %c : tensor<f32>
  }) : (tensor<1x3x6x5xf32>, tensor<f32>) -> tensor<1x3x6x5xf32>
  %n = stablehlo.constant dense<[2.0, 2.0, 2.0, 2.0, 1.0]> : tensor<5xf32>
  %m = stablehlo.broadcast_in_dim %n, dims = [3] : (tensor<5xf32>) -> tensor<1x3x6x5xf32>
  %r = stablehlo.divide %s, %m : tensor<1x3x6x5xf32>
  func.return %r : tensor<1x3x6x5xf32>
}
"""


def test_means_of_fewer_values_at_an_edge_are_within_their_storage() -> None:
    """The range of a window's sum is that of a whole window, at the edges too."""
    samples = np.random.default_rng(0).normal(size=(8, 1, 3, 6, 5)).astype(np.float32)
    integer = quantize(
        parse_program(EDGE), [{"arg0": each} for each in samples], Options(target="litert", profile="fixed32-double")
    ).integer
    (found,) = Interpreter(integer)({"arg0": samples[0]}).values()
    expected = samples[0].copy()
    expected[..., :4] = (samples[0][..., :4] + samples[0][..., 1:]) / 2
    assert np.abs(found - expected).max() < 0.05


@pytest.mark.parametrize("point", [0, 5])
def test_products_of_activations_are_predicted_with_xnnpack(point: int) -> None:
    """XNNPACK has a kernel for them if the right operand has zero point 0. In steps of powers of two, many are ties."""
    zeros = {"zx": 3, "zw": point, "zy": 7}
    constants = [onnx.numpy_helper.from_array(np.int8(zero), name) for name, zero in zeros.items()]
    scales = {"sx": 2.0**-6, "sw": 2.0**-7, "sy": 2.0**-4}
    constants += [onnx.numpy_helper.from_array(np.float32(scale), name) for name, scale in scales.items()]
    nodes = []
    for name in "xw":
        nodes.append(onnx.helper.make_node("QuantizeLinear", [name, f"s{name}", f"z{name}"], [f"q{name}"]))
        nodes.append(onnx.helper.make_node("DequantizeLinear", [f"q{name}", f"s{name}", f"z{name}"], [f"d{name}"]))
    nodes.append(onnx.helper.make_node("MatMul", ["dx", "dw"], ["p"]))
    nodes.append(onnx.helper.make_node("QuantizeLinear", ["p", "sy", "zy"], ["q"]))
    nodes.append(onnx.helper.make_node("DequantizeLinear", ["q", "sy", "zy"], ["y"]))
    shapes = {"x": (3, 40, 4), "w": (3, 4, 60), "y": (3, 40, 60)}
    ports = [onnx.helper.make_tensor_value_info(name, 1, shape) for name, shape in shapes.items()]
    graph = onnx.helper.make_graph(nodes, "products", ports[:2], ports[2:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=10)
    random = np.random.default_rng(0)
    sample = {name: random.uniform(-1, 1, shapes[name]).astype(np.float32) for name in "xw"}
    result = quantize(load_onnx_model(model, {}), None, Options(target="litert", profile="xnnpack"))
    (found,) = evaluate_by_default(litert_model(result.propagated), *sample.values())
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(sample)["y"])


@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_sums_of_words_in_steps_of_powers_of_two_are_predicted(op: str) -> None:
    """LiteRT's default for such scales is a kernel of shifts, which refuses operands that both need one."""
    steps = {"x": 2.0**-15, "w": 2.0**-13, "y": 2.0**-12}
    constants = [onnx.numpy_helper.from_array(np.float32(step), f"s{name}") for name, step in steps.items()]
    constants.append(onnx.numpy_helper.from_array(np.int16(0), "z"))
    nodes = [onnx.helper.make_node(op, ["dx", "dw"], ["ry"])]
    for name, real, found in (("x", "x", "dx"), ("w", "w", "dw"), ("y", "ry", "y")):
        nodes.append(onnx.helper.make_node("QuantizeLinear", [real, f"s{name}", "z"], [f"q{name}"]))
        nodes.append(onnx.helper.make_node("DequantizeLinear", [f"q{name}", f"s{name}", "z"], [found]))
    ports = [onnx.helper.make_tensor_value_info(name, 1, (1, 5000)) for name in steps]
    graph = onnx.helper.make_graph([*nodes[1:5], nodes[0], *nodes[5:]], "sums", ports[:2], ports[2:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    random = np.random.default_rng(0)
    sample = {name: random.uniform(-0.9, 0.9, (1, 5000)).astype(np.float32) for name in "xw"}
    result = quantize(load_onnx_model(model, {}), None, Options(target="litert-16x8"))
    (found,) = evaluate(litert_model(result.propagated), *sample.values())
    np.testing.assert_array_equal(found, Interpreter(result.quantized)(sample)["y"])


def test_16_bit_values_with_a_zero_point_are_refused(tmp_path: Path) -> None:
    """LiteRT refused the file: 'input->params.zero_point != 0 (-2768 != 0)'."""
    model = zp.load("""func.func @main(%x: tensor<2x8xf32> {zeropoint.name = "x"})
        -> (tensor<2x8xf32> {zeropoint.name = "y"}) {
      %0 = quant.qcast %x : tensor<2x8xf32> to tensor<2x8x!quant.uniform<u16:f32, 0.0002:30000>>
      %1 = quant.dcast %0 : tensor<2x8x!quant.uniform<u16:f32, 0.0002:30000>> to tensor<2x8xf32>
      %2 = stablehlo.logistic %1 : tensor<2x8xf32>
      %3 = quant.qcast %2 : tensor<2x8xf32> to tensor<2x8x!quant.uniform<u16:f32, 1.6e-05>>
      %4 = quant.dcast %3 : tensor<2x8x!quant.uniform<u16:f32, 1.6e-05>> to tensor<2x8xf32>
      return %4 : tensor<2x8xf32>
    }""")
    made = zp.quantize(model, target="litert", effort="none")
    with pytest.raises(zp.ExportError, match="found 16-bit values with zero point -2768, expected 0"):
        made.export(tmp_path / "m.tflite")
    assert not list(tmp_path.iterdir())

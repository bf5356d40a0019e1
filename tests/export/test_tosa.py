"""Programs as TOSA text: valid TOSA 1.0, and in the reference model every integer that we predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from onnx import numpy_helper

import zeropoint as zp
from digits import DIGITS, quantized_digits
from digits import images as samples_of
from export.text_networks import text_network
from property_cases import some
from random_networks import Case, cases
from zeropoint.cli import main
from zeropoint.export import ExportError, ExportOptions, export_program
from zeropoint.export.tosa.builder import HEADER, FunctionBuilder
from zeropoint.export.tosa.model import tosa_text
from zeropoint.export.tosa.runtime import TosaFile, tools
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.numerics.multiplier import tosa_reciprocal
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.report.counts import count_ops

EMPTY_HEADER = b'{"inputs": [], "outputs": [], "orders": {"inputs": {}, "outputs": {}}, "quantization": {}}\n'
runs = pytest.mark.skipif(
    tools() is None, reason="tosa-tools (in the environment that ZEROPOINT_TOSA names) are missing"
)


@pytest.fixture(scope="module")
def digits() -> Quantization:
    return quantized_digits("tosa")


@runs
def test_the_demo_in_the_reference_model_gives_our_results(digits: Quantization, tmp_path: Path) -> None:
    export_program(digits.propagated, tmp_path / "digits.tosa.mlir")
    run, predict = TosaFile(tmp_path / "digits.tosa.mlir"), Interpreter(digits.integer)
    for sample in samples_of("test", 5):
        # The softmax is left in float, where TOSA's reciprocal rounds once more.
        np.testing.assert_allclose(run(sample)["probabilities"], predict(sample)["probabilities"], rtol=0, atol=1e-6)


@runs
def test_the_model_s_own_layout(digits: Quantization, tmp_path: Path) -> None:
    path = tmp_path / "digits.tosa.mlir"
    export_program(digits.propagated, path, ExportOptions(channels_last=False))
    assert "func.func @main(%arg0: tensor<1x1x28x28xf32>" in path.read_text()
    run, predict = TosaFile(path), Interpreter(digits.integer)
    (sample,) = samples_of("test", 1)
    np.testing.assert_allclose(run(sample)["probabilities"], predict(sample)["probabilities"], rtol=0, atol=1e-6)


@runs
def test_integer_inputs_and_outputs(tmp_path: Path) -> None:
    ports = "(float[1,4,6,6] x) => (float[1,4,6,6] y)"
    network, samples = text_network(ports, {"w": (4, 4, 1, 1)}, "c = Conv(x, w) y = Relu(c)")
    model = zp.quantize(network, samples, target="tosa", effort="none")
    assert model.quantization is not None
    path = tmp_path / "m.tosa.mlir"
    export_program(model.quantization.propagated, path, ExportOptions(integer_io=True, channels_last=False))
    assert "func.func @main(%arg0: tensor<1x4x6x6xi8>" in path.read_text()
    run, predict = TosaFile(path), model.interpreted()
    for sample in samples:
        np.testing.assert_array_equal(run(sample)["y"], predict(**sample)["y"])


def test_values_without_elements_are_left_out_because_tosa_has_none(tmp_path: Path) -> None:
    body = "a = Relu(x) z = Slice(a, two, two, one) y = Concat<axis = 1>(a, z, x)"
    network, samples = text_network("(float[1,4,8] x) => (float[1,8,8] y)", {}, body)
    bounds = {"one": np.array([1]), "two": np.array([2])}
    network.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in bounds.items())
    path = tmp_path / "m.tosa.mlir"
    zp.quantize(network, samples, target="tosa", effort="none").export(path)
    text = path.read_text()
    assert "tosa.concat" in text
    assert "x0x" not in text


def test_convolutions_have_zero_points_and_padding_of_their_own(digits: Quantization) -> None:
    text = tosa_text(digits.propagated)
    assert text.count("tosa.conv2d") == 6
    assert text.count("tosa.depthwise_conv2d") == 2
    assert "tosa.pad" not in text
    assert text.count("tosa.transpose") == 0
    assert 'loc("block.project.conv")' in text


@runs
def test_random_networks_are_equal_in_every_byte(tmp_path: Path) -> None:
    messages: set[str] = set()
    compared = [0]

    @some(5)
    @given(case=cases())
    def check(case: Case) -> None:
        result = quantize(case.program, case.calibration, Options(target="tosa"))
        if count_ops(result.integer).floats:
            return
        path = tmp_path / "case.tosa.mlir"
        try:
            path.write_text(tosa_text(result.propagated))
        except ExportError as error:
            messages.add(str(error))
            return
        found, expected = TosaFile(path)(case.samples[0]), Interpreter(result.integer)(case.samples[0])
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array)
        compared[0] += 1

    check()
    assert all("found" in text and "expected" in text for text in messages)
    assert compared[0] > 2


FLOATS = """func.func @main(%x: tensor<2x3xf32> {zeropoint.name = "x"}, %i: tensor<4xi32> {zeropoint.name = "i"})
    -> (tensor<2x3xf32> {zeropoint.name = "y"}, tensor<4x3xf32> {zeropoint.name = "rows \\"of\\" x"}) {
  %0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
  %1 = stablehlo.exponential %x : tensor<2x3xf32>
  %2 = stablehlo.reduce(%1 init: %0) applies stablehlo.add across dimensions = [1]
    : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
  %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<2xf32>) -> tensor<2x3xf32>
  %4 = stablehlo.divide %1, %3 : tensor<2x3xf32>
  %5 = stablehlo.constant dense<3.000000e-01> : tensor<f32>
  %6 = stablehlo.broadcast_in_dim %5, dims = [] : (tensor<f32>) -> tensor<2x3xf32>
  %7 = stablehlo.compare NE, %4, %6 : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xi1>
  %8 = stablehlo.transpose %4, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %9 = stablehlo.reshape %8 : (tensor<3x2xf32>) -> tensor<2x3xf32>
  %10 = stablehlo.select %7, %4, %9 : tensor<2x3xi1>, tensor<2x3xf32>
  %11 = stablehlo.clamp %0, %10, %5 : (tensor<f32>, tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %12 = stablehlo.sqrt %11 : tensor<2x3xf32>
  %13 = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<offset_dims = [1],
    collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 3>}>
    : (tensor<2x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  return %12, %13 : tensor<2x3xf32>, tensor<4x3xf32>
}"""


def floats(text: str = FLOATS) -> str:
    return tosa_text(parse_program(f'module attributes {{zeropoint.profile = "tosa-double"}} {{\n{text}\n}}'))


@runs
def test_float_ops_become_float_operators_and_rows_are_gathered_by_clamped_indices(tmp_path: Path) -> None:
    path = tmp_path / "floats.tosa.mlir"
    path.write_text(floats())
    inputs = {
        "x": np.random.default_rng(0).normal(0, 2, (2, 3)).astype(np.float32),
        "i": np.array([0, 1, 7, -3], np.int32),
    }
    found, expected = TosaFile(path)(inputs), Interpreter(parse_program(FLOATS))(inputs)
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6)
    np.testing.assert_array_equal(found['rows "of" x'], expected['rows "of" x'])


def test_a_float_op_that_tosa_lacks_is_named() -> None:
    text = FLOATS.replace("stablehlo.exponential %x :", "chlo.lgamma %x : tensor<2x3xf32> ->")
    with pytest.raises(
        ExportError, match=r"chlo\.lgamma, expected an op that TOSA has in float; replace it in the model"
    ):
        floats(text)


def test_another_profile_is_refused() -> None:
    with pytest.raises(ExportError, match="found profile 'None', expected 'tosa-double', whose arithmetic TOSA has"):
        tosa_text(parse_program(FLOATS))


def test_upstream_parses_and_verifies_the_text(digits: Quantization) -> None:
    pytest.importorskip("torch_mlir", reason="torch-mlir carries upstream MLIR")
    from torch_mlir import ir, passmanager

    context = ir.Context()
    module = ir.Module.parse(tosa_text(digits.propagated), context)
    passes = "tosa-attach-target{profiles=pro_int,pro_fp extensions=doubleround level=8k},tosa-validate"
    passmanager.PassManager.parse(f"builtin.module({passes})", context).run(module.operation)


def test_constants_are_shared_and_readable() -> None:
    f = FunctionBuilder()
    first = f.constant(np.array([1, -2], np.int8))
    assert f.constant(np.array([1, -2], np.int8)) is first
    f.constant(np.array([np.inf], np.float32))
    f.constant(np.array([0.5, 1.5], np.float32))
    f.constant(np.array([True, False]))
    assert [line.partition("values = ")[2].partition(" :")[0] for line in f.lines] == [
        "dense<[1, -2]>",
        "dense<0x7F800000>",
        'dense<"0x0000003F0000C03F">',
        "dense<[true, false]>",
    ]


def test_more_dimensions_than_tosa_has_are_refused() -> None:
    f = FunctionBuilder(location="tile")
    value = f.argument("x", (2, 3), "f32")
    with pytest.raises(ExportError, match="tile: found a tensor of 7 dimensions, expected at most 6: TOSA's level 8K"):
        f.op("reshape", [value, f.sizes([1] * 5 + [2, 3])], [1] * 5 + [2, 3], "f32")


def test_reciprocals_are_those_of_the_specification() -> None:
    for count in (1, 2, 3, 7, 9, 49, 64, 65, 12345):
        k = (count - 1).bit_length()
        multiplier, shift = tosa_reciprocal(count)
        assert (int(multiplier), int(shift)) == (((1 << 30) + 1 << k) // count, 30 + k)
    with pytest.raises(ValueError, match="found a count of 0; expected at least 1"):
        tosa_reciprocal([3, 0])


@runs
def test_compare_runs_a_file_in_the_reference_model(digits: Quantization, tmp_path: Path) -> None:
    path = tmp_path / "digits.tosa.mlir"
    export_program(digits.propagated, path)
    (sample,) = samples_of("calib", 1)
    np.savez(tmp_path / "one.npz", **{name: value[None] for name, value in sample.items()})
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(path), "--data", str(tmp_path / "one.npz"), "--json"]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 0, answer.output
    assert '"top1": 1.0' in answer.output


@runs
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "found no first line"),
        (b"module {}", "found no first line"),
        (b"\xff\xfe", "unreadable"),
        (HEADER.encode() + b'{"inputs": 3, "outputs": [], "orders": {}, "quantization": {}}\n', "unreadable"),
        (HEADER.encode() + EMPTY_HEADER + b"module {", "tosa-opt: "),
    ],
)
def test_a_broken_or_foreign_file_is_refused_in_one_line(content: bytes, expected: str, tmp_path: Path) -> None:
    path = tmp_path / "theirs.tosa.mlir"
    path.write_bytes(content)
    arguments = ["compare", str(DIGITS / "digits.onnx"), str(path), "--data", str(DIGITS / "calib.npz")]
    answer = CliRunner().invoke(main, arguments)
    assert answer.exit_code == 2
    assert expected in answer.output

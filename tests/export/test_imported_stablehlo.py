"""A StableHLO file that is imported without data is the program that was exported, and is exported again as it was."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from digits import DIGITS, quantized_digits
from export.convolutional_networks import network
from recurrent_layers import recurrent
from zeropoint.cli import main
from zeropoint.export import ExportError, export_program
from zeropoint.frontend import load_model
from zeropoint.frontend.exported import Origin, origin_in
from zeropoint.frontend.stablehlo import stablehlo_of_text
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.model import Model
from zeropoint.pipeline import Options, Quantization, quantize
from zeropoint.recipe import recipe_of
from zeropoint.report.counts import count_ops

SUFFIXES = (".stablehlo.mlir", ".mlirbc")
NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    **{f"convolutions {seed}": (lambda seed=seed: network(seed)[0]) for seed in (1, 2, 4, 5, 7)},
    "LSTM": lambda: recurrent("LSTM", 3),
}
LEFT_FLOAT = [{"op": "convolution", "quantize": False}]
"""Convolutions of floats, beside other kernels."""
STORED = [{"op": "convolution", "activations": "float", "weight_bits": 4}]
"""The same with weights of 4 bits."""


def quantized(name: str, folder: Path, target: str, **options: Any) -> tuple[Quantization, list[dict[str, Array]]]:
    onnx.save(NETWORKS[name](), folder / "model.onnx")
    program = load_model(folder / "model.onnx")
    (port,) = program.inputs
    random = np.random.default_rng(4)
    data = [{port.name: random.normal(0, 1, port.type.get_shape()).astype(np.float32)} for _ in range(6)]
    return quantize(program, data, Options(target=target, effort="none", **options)), data


def assert_same(one: Program, other: Program, samples: list[dict[str, Array]]) -> None:
    for sample in samples:
        for name, array in Interpreter(one)(sample).items():
            np.testing.assert_array_equal(Interpreter(other)(sample)[name], array)


def answer(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("rules", [None, LEFT_FLOAT, STORED], ids=["all", "left float", "stored weights"])
@pytest.mark.parametrize("target", ["stablehlo", "cpu", "cpu-wide"])
@pytest.mark.parametrize("name", NETWORKS)
def test_a_file_is_imported_as_the_program_and_exported_as_the_file(
    name: str, target: str, rules: Any, tmp_path: Path
) -> None:
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    if rules is not None and name == "LSTM":
        pytest.skip("the network has no convolution")
    result, data = quantized(name, tmp_path, target, recipe=None if rules is None else recipe_of(rules))
    for suffix in SUFFIXES:
        export_program(result.propagated, tmp_path / f"m{suffix}")
        imported = quantize(load_model(tmp_path / f"m{suffix}"), None, Options(target=target, effort="none"))
        assert_same(result.integer, imported.integer, data[:2])
        ours, theirs = count_ops(result.integer), count_ops(imported.integer)
        assert (ours.integer, ours.floats) == (theirs.integer, theirs.floats)
        export_program(imported.propagated, tmp_path / f"again{suffix}")
        assert (tmp_path / f"again{suffix}").read_bytes() == (tmp_path / f"m{suffix}").read_bytes()


def test_a_file_of_wide_kernels_keeps_their_storage(tmp_path: Path) -> None:
    """Of operands of 8 and of 16 bits, the file has one storage. No rescale between the two is computed."""
    rules = recipe_of([{"op": "convolution", "bits": 16}])
    result, data = quantized("convolutions 2", tmp_path, "cpu-wide", recipe=rules)
    export_program(result.propagated, tmp_path / "m.stablehlo.mlir")
    imported = quantize(load_model(tmp_path / "m.stablehlo.mlir"), None, Options(target="cpu-wide", effort="none"))
    assert_same(result.integer, imported.integer, data[:2])
    assert count_ops(imported.integer) == count_ops(result.integer)


A, B, C = (f"tensor<1x4x!quant.uniform<{kind}>>" for kind in ("i8:f32, 0.05:3", "i16:f32, 0.001", "i8:f32, 0.03:3"))


def quantized_twice(op: str, first: str, second: str) -> Program:
    return stablehlo_of_text(
        f"""func.func @main(%x: tensor<1x4xf32> {{zeropoint.name = "x"}}) -> (tensor<1x4xf32>, tensor<1x4xf32>) {{
  %f = stablehlo.{op} : tensor<1x4xf32>
  %0 = stablehlo.uniform_quantize %f : (tensor<1x4xf32>) -> {first}
  %1 = stablehlo.uniform_quantize %f : (tensor<1x4xf32>) -> {second}
  %2 = stablehlo.add %0, %0 : {first}
  %3 = stablehlo.add %1, %1 : {second}
  %4 = stablehlo.uniform_dequantize %2 : ({first}) -> tensor<1x4xf32>
  %5 = stablehlo.uniform_dequantize %3 : ({second}) -> tensor<1x4xf32>
  return %4, %5 : tensor<1x4xf32>, tensor<1x4xf32>
}}""",
        {},
    )


@pytest.mark.parametrize("with_data", [False, True], ids=["without data", "with data"])
@pytest.mark.parametrize("second", [B, C], ids=["i16", "i8"])
@pytest.mark.parametrize("op", ["exponential %x", "add %x, %x"])
def test_a_float_that_is_quantized_twice_stays_float(op: str, second: str, with_data: bool) -> None:
    program, random = quantized_twice(op, A, second), np.random.default_rng(2)
    samples = [{"x": random.normal(0, 1, (1, 4)).astype(np.float32)} for _ in range(4)]
    result = quantize(program, samples if with_data else None, Options(target="stablehlo", effort="none"))
    assert_same(program, result.integer, samples)
    assert count_ops(result.integer).floats


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo as files."""
    pytest.importorskip("torch_mlir", reason="C++ StableHLO comes with torch-mlir")
    made = tmp_path_factory.mktemp("exported")
    for suffix in SUFFIXES:
        export_program(quantized_digits("cpu").propagated, made / f"d{suffix}")
    return made


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_says_what_it_was_quantized_for(folder: Path, suffix: str) -> None:
    assert origin_in(load_model(folder / f"d{suffix}")) == Origin("cpu", "fixed16")
    assert origin_in(load_model(DIGITS / "digits.onnx")) is None


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_explain_shows_types_and_kernels_of_a_file(folder: Path, suffix: str) -> None:
    found = answer("explain", folder / f"d{suffix}")
    assert found.exit_code == 0, found.output
    for kernel in ("depthwise_convolution", "max_pool", "add", "mean", "fully_connected"):
        assert f" {kernel} " in found.output
    assert "!quant.uniform<i8:f32" in found.output
    assert "the model computes it in floats" in found.output  # softmax
    one = answer("explain", folder / f"d{suffix}", "block.add")
    assert one.exit_code == 0, one.output
    assert "!quant.uniform<i8:f32" in one.output
    bounds = answer("explain", folder / f"d{suffix}", "--ranges")
    assert bounds.exit_code == 0, bounds.output
    assert "block.expand.conv" in bounds.output


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_report_of_a_file_is_that_of_its_program(folder: Path, suffix: str, tmp_path: Path) -> None:
    found = answer("report", folder / f"d{suffix}", "-o", tmp_path / "r.json", "--no-timing")
    assert found.exit_code == 0, found.output
    text = (tmp_path / "r.json").read_text()
    assert '"block.project.conv"' in text
    assert '"depthwise_convolution"' in text


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_the_command_exports_a_file_again(folder: Path, suffix: str, tmp_path: Path) -> None:
    found = answer("export", folder / f"d{suffix}", "-o", tmp_path / f"again{suffix}")
    assert found.exit_code == 0, found.output
    assert (tmp_path / f"again{suffix}").read_bytes() == (folder / f"d{suffix}").read_bytes()


def test_formats_of_kernels_are_refused(folder: Path, tmp_path: Path) -> None:
    again = quantize(load_model(folder / "d.stablehlo.mlir"), None, Options(target="litert", effort="none"))
    with pytest.raises(ExportError, match=r"found a program of quantized StableHLO, expected kernels"):
        export_program(again.propagated, tmp_path / "d.tflite")


def test_a_rescale_of_a_file_is_a_rescale(tmp_path: Path) -> None:
    text = f"""func.func @main(%x: {A} {{zeropoint.name = "x"}}) -> ({C}) {{
  %0 = stablehlo.add %x, %x : {A}
  %1 = stablehlo.uniform_quantize %0 : ({A}) -> {C} loc("second")
  return %1 : {C}
}}"""
    (tmp_path / "m.mlir").write_text(text)
    result = quantize(load_model(tmp_path / "m.mlir"), None, Options(target="stablehlo", effort="none"))
    (rescale,) = Model(result.integer).explain().rescales
    assert (rescale.value, rescale.has, rescale.required) == ("second", "the model", "the model")
    assert "5.000000e-02:3" in rescale.why_has
    assert "3.000000e-02:3" in rescale.why_required
    assert count_ops(result.integer).rescales == 1


@pytest.mark.parametrize("function", ["logistic", "tanh", "exponential"])
def test_a_function_between_casts_has_its_name(function: str) -> None:
    program = stablehlo_of_text(
        f"""func.func @main(%x: {A} {{zeropoint.name = "x"}}) -> {A} {{
  %0 = stablehlo.add %x, %x : {A}
  %1 = stablehlo.uniform_dequantize %0 : ({A}) -> tensor<1x4xf32>
  %2 = stablehlo.{function} %1 : tensor<1x4xf32>
  %3 = stablehlo.uniform_quantize %2 : (tensor<1x4xf32>) -> {A}
  return %3 : {A}
}}""",
        {},
    )
    result = quantize(program, None, Options(target="cpu", effort="none"))
    kernels = [value.kind for value in Model(result.integer).explain().values]
    assert kernels[-1] == {"exponential": "exp"}.get(function, function)
    assert not count_ops(result.integer).floats

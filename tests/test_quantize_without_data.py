"""A model that says its ranges or parameters itself is quantized without data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.calibrate import collect, instrument, state_ranges
from zeropoint.cli import main
from zeropoint.ir.text import parse_program, print_program
from zeropoint.options import Options
from zeropoint.pipeline import quantize
from zeropoint.solve import MissingStatistics

STATED = """
func.func @main(%x: tensor<1x4xf32> {zeropoint.name = "x"}) -> (tensor<1x3xf32> {zeropoint.name = "y"}) {
  %w = stablehlo.constant dense<[[0.5, -1.0, 0.25], [1.0, 0.5, -0.5], [-0.75, 0.5, 1.0], [0.1, 0.2, 0.3]]>
       : tensor<4x3xf32>
  %s = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %0 = stablehlo.dot_general %s, %w, contracting_dims = [1] x [0]
       : (tensor<1x4xf32>, tensor<4x3xf32>) -> tensor<1x3xf32>
  %1 = "quant.stats"(%0) {layerStats = dense<[-2.35, 2.35]> : tensor<2xf32>} : (tensor<1x3xf32>) -> tensor<1x3xf32>
  return %1 : tensor<1x3xf32>
}
"""
TRAINED = STATED.replace(
    '%s = "quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<1x4xf32>) -> tensor<1x4xf32>',
    "%q = quant.qcast %x : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.0078125>>\n"
    "  %s = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, 0.0078125>> to tensor<1x4xf32>",
)
IN_TYPES = """
func.func @main(%x: tensor<1x4xIN> {zeropoint.name = "x"}) -> (tensor<1x4xf32> {zeropoint.name = "y"}) {
  %0 = stablehlo.tanh %x : (tensor<1x4xIN>) -> tensor<1x4xTANH>
  %1 = stablehlo.multiply %0, %0 : (tensor<1x4xTANH>, tensor<1x4xTANH>) -> tensor<1x4xSQUARE>
  %2 = stablehlo.abs %1 : (tensor<1x4xSQUARE>) -> tensor<1x4xABS>
  %3 = stablehlo.add %2, %0 : (tensor<1x4xABS>, tensor<1x4xTANH>) -> tensor<1x4xSUM>
  %4 = quant.dcast %3 : tensor<1x4xSUM> to tensor<1x4xf32>
  return %4 : tensor<1x4xf32>
}
"""
for name, element in {
    "IN": "!quant.calibrated<f32<-2.0:3.0>>",
    "TANH": "!quant.uniform<i8:f32, 0.0078125>",
    "SQUARE": "!quant.calibrated<f32<-1.0:1.0>>",
    "ABS": "!quant.calibrated<f32<0.0:1.0>>",
    "SUM": "!quant.uniform<i8:f32, 0.03125:5>",
}.items():
    IN_TYPES = IN_TYPES.replace(f"x{name}>", f"x{element}>")
# Element types state everything. abs reads one of the ranges: with data, it would be judged on the values in it.
OPEN = "\n".join(line for line in STATED.splitlines() if '"quant.stats"(%0)' not in line).replace("%1 :", "%0 :")
X = np.array([[0.5, -0.25, 0.75, 1.0]], np.float32)


@pytest.mark.parametrize("text", [STATED, TRAINED, IN_TYPES])
def test_the_command_needs_no_data(tmp_path: Path, text: str) -> None:
    (tmp_path / "model.mlir").write_text(text)
    out = tmp_path / "out.mlir"
    result = CliRunner().invoke(main, ["quantize", str(tmp_path / "model.mlir"), "-o", str(out)])
    assert result.exit_code == 0, result.output
    expected = zp.load(tmp_path / "model.mlir")(x=X)["y"]
    np.testing.assert_allclose(zp.load(out)(x=X)["y"], expected, atol=0.03)


def test_the_library_needs_no_data(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(TRAINED)
    made = zp.quantize(zp.load(tmp_path / "model.mlir"))
    assert "0.0078125" in str(made.quantization.propagated) or "7.812500e-03" in str(made.explain("x"))


DIVIDED = STATED.replace(
    "  return %1",
    "  %r = stablehlo.reverse %1, dims = [1] : tensor<1x3xf32>\n"
    "  %d = stablehlo.divide %1, %r : tensor<1x3xf32>\n  return %d",
)


@pytest.mark.parametrize("target", ["onnxruntime", "tosa"])
def test_a_quotient_that_stays_float_needs_no_data(target: str) -> None:
    """It is observed only to judge its operands; without data they keep what the model states."""
    made = quantize(parse_program(DIVIDED), None, Options(target))
    assert "stablehlo.divide" in print_program(made.integer)


def test_values_that_nobody_stated_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(OPEN)
    with pytest.raises(MissingStatistics, match=r"found no data, and no range in the model for what"):
        zp.quantize(zp.load(path))
    result = CliRunner().invoke(main, ["quantize", str(path), "-o", str(tmp_path / "out.mlir")])
    assert result.exit_code == 2
    assert "('fully_connected'), expected calibration data (--data)" in result.stderr
    assert not (tmp_path / "out.mlir").exists()


def test_corrections_run_on_the_data_of_a_model_that_states_all_its_ranges() -> None:
    """The result is that of the model without statistics."""
    plain = parse_program(
        "\n".join(line for line in STATED.splitlines() if "quant.stats" not in line)
        .replace("%s,", "%x,")
        .replace("return %1", "return %0")
    )
    random = np.random.default_rng(0)
    data = [{"x": random.normal(0.5, 1, (1, 4)).astype(np.float32)} for _ in range(12)]
    asked = instrument(plain, every_result=True)
    stated = state_ranges(asked, collect(asked, data, observer="minmax"))
    first = quantize(plain, data, Options(observer="minmax", effort="balanced"))
    second = quantize(stated, data, Options(effort="balanced"))
    assert not second.calibration.observations
    assert second.corrections.attempts
    assert second.corrections == first.corrections
    runs = [zp.Model(one.integer) for one in (first, second)]
    for sample in data:
        np.testing.assert_array_equal(runs[0](**sample)["y"], runs[1](**sample)["y"])


@pytest.mark.parametrize(
    ("flag", "name", "value", "message"),
    [
        ("--effort", "effort", "best", "found effort 'best' (--effort) without data, expected samples to fit"),
        ("--correct", "corrections", "empirical_bias", "found corrections empirical_bias (--correct) without data"),
        ("--observer", "observer", "mse", "found observer 'mse' (--observer) without data, expected values to observe"),
        ("--least-sqnr", "least_sqnr", "30", "found least_sqnr without data, expected samples to measure"),
        ("--budget", "budget", "quality=30", "found a budget without data, expected samples to measure"),
        ("--validation", "validation", "x.npz", "found validation samples (--validation) without data, expected"),
    ],
)
def test_an_option_that_needs_data_is_refused_without_it(
    tmp_path: Path, flag: str, name: str, value: str, message: str
) -> None:
    """By the command and by the library, in the same words."""
    path, out = tmp_path / "model.mlir", tmp_path / "out.mlir"
    path.write_text(STATED)
    np.savez(tmp_path / "x.npz", x=X[None])
    given = str(tmp_path / value) if value.endswith(".npz") else value
    said = CliRunner().invoke(main, ["quantize", str(path), "-o", str(out), flag, given])
    assert said.exit_code == 2
    assert message in said.stderr
    argument = {"corrections": [value], "least_sqnr": 30.0}.get(name, given)
    with pytest.raises(zp.Error) as raised:
        zp.quantize(path, **{name: argument})
    assert message in str(raised.value)


def test_no_effort_needs_no_data(tmp_path: Path) -> None:
    path, out = tmp_path / "model.mlir", tmp_path / "out.mlir"
    path.write_text(STATED)
    assert CliRunner().invoke(main, ["quantize", str(path), "-o", str(out), "--effort", "none"]).exit_code == 0
    first, second = (print_program(made.program) for made in (zp.quantize(path, effort="none"), zp.quantize(path)))
    assert first == second


def test_a_cast_that_clamps_is_part_of_the_model_that_corrections_are_judged_against() -> None:
    """Zero point -128 clamps at 0, so exporters leave out the relu before it."""
    text = """
    func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
      %w = stablehlo.constant dense<[[0.5, -1.0, 0.25, 1.0], [1.0, 0.5, -0.5, -1.0], [-0.75, 0.5, 1.0, 0.25],
        [0.1, 0.2, 0.3, -0.4]]> : tensor<4x4xf32>
      %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
      %q = quant.qcast %a : tensor<1x4xf32> to tensor<1x4x!quant.uniform<i8:f32, 0.02:-128>>
      %d = quant.dcast %q : tensor<1x4x!quant.uniform<i8:f32, 0.02:-128>> to tensor<1x4xf32>
      %b = stablehlo.dot_general %d, %w, contracting_dims = [1] x [0]
         : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
      return %b : tensor<1x4xf32>
    }
    """
    random = np.random.default_rng(5)
    data = [{"arg0": random.normal(size=(1, 4)).astype(np.float32)} for _ in range(16)]
    made = quantize(parse_program(text), data, Options(effort="balanced"))
    assert made.corrections.before is not None
    assert made.corrections.before.held > 25

"""A model that says its ranges or parameters itself is quantized without data."""

from __future__ import annotations

import re
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
    with pytest.raises(MissingStatistics, match=r"found no data, and no range in the model for values"):
        zp.quantize(zp.load(path))
    result = CliRunner().invoke(main, ["quantize", str(path), "-o", str(tmp_path / "out.mlir")])
    assert result.exit_code == 2
    assert "('fully_connected'), expected calibration data (--data)" in result.stderr
    assert not (tmp_path / "out.mlir").exists()


TENSOR = "tensor<1x4xf32>"


def _two_stated(body: str, *, state: str = "stats") -> str:
    """A program with the ranges [-1, 1] and [-2, 2] of %b and %d; nothing is stated about `body`, which makes %c."""
    stated = {
        "stats": lambda low, high: (
            f'"quant.stats"({{}}) {{{{layerStats = dense<[{low}, {high}]> : tensor<2xf32>}}}} : ({TENSOR}) -> {TENSOR}'
        ),
        "fake": lambda low, high: (
            f'"quant.const_fake_quant"({{}}) {{{{min = {low} : f32, max = {high} : f32, num_bits = 8 : i64, '
            f"is_signed = true}}}} : ({TENSOR}) -> {TENSOR}"
        ),
        "requested": lambda low, high: f'"quant.stats_ref"({{}}) {{{{statsKey = "{low}"}}}} : ({TENSOR}) -> {TENSOR}',
    }[state]
    return f"""
    func.func @main(%x: {TENSOR} {{zeropoint.name = "x"}}, %y: {TENSOR} {{zeropoint.name = "y"}}) -> {TENSOR} {{
      %zero = stablehlo.constant dense<0.0> : {TENSOR}
      %half = stablehlo.constant dense<0.5> : {TENSOR}
      %pad = stablehlo.constant dense<4.0> : tensor<f32>
      %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %b = {stated(-1.0, 1.0).format("%x")}
      %d = {stated(-2.0, 2.0).format("%y")}
      {body}
      return %c : {TENSOR}
    }}"""


FOLLOW = {
    "maximum of one value": (f"%c = stablehlo.maximum %b, %b : {TENSOR}", (-1, 1)),
    "maximum": (f"%c = stablehlo.maximum %b, %d : {TENSOR}", (-1, 2)),
    "minimum": (f"%c = stablehlo.minimum %b, %d : {TENSOR}", (-2, 1)),
    "a constant": (f"%c = stablehlo.maximum %b, %half : {TENSOR}", (0.5, 1)),
    "relu": (f"%c = stablehlo.maximum %d, %zero : {TENSOR}", (0, 2)),
    "clamp": (f"%c = stablehlo.clamp %zero, %d, %half : {TENSOR}", (0, 0.5)),
    "absolute value": (f"%c = stablehlo.abs %d : {TENSOR}", (0, 2)),
    "select": (
        f"%p = stablehlo.compare GT, %b, %d : ({TENSOR}, {TENSOR}) -> tensor<1x4xi1>\n"
        f"%c = stablehlo.select %p, %b, %d : tensor<1x4xi1>, {TENSOR}",
        (-2, 2),
    ),
    "select by a constant": (
        f"%p = stablehlo.constant dense<[[true, false, true, false]]> : tensor<1x4xi1>\n"
        f"%c = stablehlo.select %p, %b, %d : tensor<1x4xi1>, {TENSOR}",
        (-2, 2),
    ),
    "concatenate": (
        f"%e = stablehlo.concatenate %b, %d, dim = 1 : ({TENSOR}, {TENSOR}) -> tensor<1x8xf32>\n"
        f"%c = stablehlo.slice %e [0:1, 2:6] : (tensor<1x8xf32>) -> {TENSOR}",
        (-2, 2),
    ),
    "pad": (
        f"%e = stablehlo.slice %b [0:1, 1:4] : ({TENSOR}) -> tensor<1x3xf32>\n"
        "%c = stablehlo.pad %e, %pad, low = [0, 1], high = [0, 0], interior = [0, 0] "
        f": (tensor<1x3xf32>, tensor<f32>) -> {TENSOR}",
        (-1, 4),
    ),
    "reduction": (
        "%e = stablehlo.reduce(%d init: %least) applies stablehlo.maximum across dimensions = [1] "
        f": ({TENSOR}, tensor<f32>) -> tensor<1xf32>\n"
        f"%c = stablehlo.broadcast_in_dim %e, dims = [0] : (tensor<1xf32>) -> {TENSOR}",
        (-2, 2),
    ),
    "chain": (
        f"%e = stablehlo.maximum %b, %d : {TENSOR}\n%f = stablehlo.abs %e : {TENSOR}\n"
        f"%c = stablehlo.minimum %f, %b : {TENSOR}",
        (-1, 1),
    ),
}
"""Programs whose ranges follow from those of their operands, and the range of the result."""


@pytest.mark.parametrize("name", FOLLOW)
@pytest.mark.parametrize("target", ["cpu", "litert", "onnxruntime", "tosa"])
def test_a_range_that_follows_from_those_of_the_operands_needs_no_data(name: str, target: str) -> None:
    body, (low, high) = FOLLOW[name]
    random = np.random.default_rng(0)
    sample = {"x": random.uniform(-1, 1, (1, 4)), "y": random.uniform(-2, 2, (1, 4))}
    sample = {key: value.astype(np.float32) for key, value in sample.items()}
    for state in ("stats", "fake"):
        program = parse_program(_two_stated(body, state=state))
        made = zp.Model(quantize(program, None, Options(target)).integer)(**sample)
        expected = zp.Model(program)(**sample)
        ((result, wanted),) = zip(made.values(), expected.values(), strict=True)
        # Two steps of the coarsest operand's scale; the constant of `pad` widens it.
        np.testing.assert_allclose(result, wanted, atol=2 * (max(high, 2) - min(low, -2)) / 255)
        assert low - 0.05 <= result.min() <= result.max() <= high + 0.05


@pytest.mark.parametrize(
    ("body", "state", "named"),
    [
        (f"%s = stablehlo.add %b, %d : {TENSOR}\n%c = stablehlo.maximum %s, %b : {TENSOR}", "stats", "('s')"),
        (f"%c = stablehlo.multiply %b, %d : {TENSOR}", "fake", "('c')"),
        (f"%c = stablehlo.maximum %b, %d : {TENSOR}", "requested", "('-2.0', '-1.0')"),
        # A pole: no range is wide enough.
        (
            f"%e = stablehlo.subtract %b, %half : {TENSOR}\n%g = stablehlo.divide %half, %e : {TENSOR}"
            f"\n%c = stablehlo.add %g, %d : {TENSOR}",
            "stats",
            "('g', 'c')",
        ),
    ],
)
def test_only_values_that_need_a_range_are_named(body: str, state: str, named: str) -> None:
    with pytest.raises(MissingStatistics, match=re.escape(named)):
        quantize(parse_program(_two_stated(body, state=state)), None)


def test_explain_says_that_a_range_follows(tmp_path: Path) -> None:
    (tmp_path / "model.mlir").write_text(_two_stated(FOLLOW["absolute value"][0]))
    made = zp.quantize(tmp_path / "model.mlir")
    assert "derived from the ranges of the operands" in str(made.explain("c"))


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
        (
            "--least-sqnr",
            "least_sqnr",
            "30",
            "found least_sqnr (--least-sqnr) without data, expected samples to measure",
        ),
        ("--budget", "budget", "quality=30", "found a budget (--budget) without data, expected samples to measure"),
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

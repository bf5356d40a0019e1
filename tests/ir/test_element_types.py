"""Model constraints that are set as element types of StableHLO ops inside a program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

import zeropoint as zp
from zeropoint.fuse import fuse
from zeropoint.interp import Interpreter
from zeropoint.ir.annotations import FLOAT_REASON
from zeropoint.ir.program import Program
from zeropoint.ir.regions import regions_of
from zeropoint.ir.text import parse_program
from zeropoint.materialize import materialize
from zeropoint.report.counts import float_ops
from zeropoint.solve import propagate
from zeropoint.targets import target

RANGE, PIN = "!quant.calibrated<f32<-2.0:2.0>>", "!quant.uniform<i8:f32, 0.5:3>"
TEXT = f"""func.func @main(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3x{RANGE}>) {{
  %0 = stablehlo.tanh %x : (tensor<2x3xf32>) -> tensor<2x3x{RANGE}>
  %1 = stablehlo.add %0, %0 : (tensor<2x3x{RANGE}>, tensor<2x3x{RANGE}>) -> tensor<2x3x{PIN}>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3x{PIN}>) -> tensor<3x2xf32>
  %3 = stablehlo.abs %2 : (tensor<3x2xf32>) -> tensor<3x2x!quant.none<f32>>
  %4 = stablehlo.negate %3 : (tensor<3x2x!quant.none<f32>>) -> tensor<3x2xf32>
  return %4, %0 : tensor<3x2xf32>, tensor<2x3x{RANGE}>
}}"""


STATS = '"quant.stats"(%x) {layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>} : (tensor<2x3xf32>) -> '


def solved(program: Program) -> Program:
    return propagate(fuse(program), target("cpu"))


def annotated() -> Program:
    first = f"%y = {STATS}tensor<2x3xf32>\n  %0 = stablehlo.multiply %y, %y : (tensor<2x3xf32>, tensor<2x3xf32>) ->"
    text = TEXT.replace("%0 = stablehlo.tanh %x : (tensor<2x3xf32>) ->", first)
    return parse_program(text, annotated=True)


def test_element_types_of_ops_decide_their_values() -> None:
    program = annotated()
    product, total, moved = regions_of(solved(program))[:3]
    assert "0.015686274509803921" in str(product.output_specs.data[0])  # 4 / 255, for [-2, 2]
    assert str(total.output_specs.data[0]) == "!quant.uniform<i8:f32, 5.000000e-01:3>"
    assert set(moved.input_specs) == set(total.output_specs)
    kept = [op for op in materialize(solved(program)).entry.ops if FLOAT_REASON in op.attributes]
    assert [op.name for op in kept] == ["stablehlo.abs", "stablehlo.negate"]


def test_the_ops_compute_on_floats_until_then() -> None:
    x = np.array([[0.5, -1.0, 0.0], [0.25, 1.0, -0.5]], np.float32)
    found, product = Interpreter(materialize(solved(annotated()))).run_values([x])
    expected = -np.abs(np.round(2 * x * x / 0.5) * 0.5).T
    np.testing.assert_allclose(found, expected, atol=0.5)
    np.testing.assert_allclose(product, x * x, atol=0.02)


def test_a_file_may_have_them_and_quantized_ops_stay(tmp_path: Path) -> None:
    path = tmp_path / "annotated.mlir"
    path.write_text(TEXT)
    names = [op.name for op in zp.load(path).program.entry.ops]
    assert names.count("stablehlo.add") == 1
    assert names.count("quant.qcast") == 3
    whole = f"""func.func @main(%x: tensor<4x{PIN}>) -> tensor<4x{PIN}> {{
      %0 = stablehlo.add %x, %x : tensor<4x{PIN}>
      return %0 : tensor<4x{PIN}>
    }}"""
    assert [op.name for op in parse_program(whole, annotated=True).entry.ops] == ["stablehlo.add", "func.return"]


def test_without_passes_upstream_decides() -> None:
    with pytest.raises(VerifyException, match="must be ranked tensor of"):
        parse_program(
            TEXT.replace("tanh %x : (tensor<2x3xf32>) ->", f"tanh %z : (tensor<2x3x{RANGE}>) ->").replace(
                "%x:", f"%z: tensor<2x3x{RANGE}>, %x:"
            )
        )


LAYER = """func.func @main(%x: tensor<1x4xIN>) -> tensor<1x3xOUT> {
  %w = stablehlo.constant dense<[[0.1,0.2,-0.3],[0.4,0.5,0.6],[0.7,-0.8,0.9],[1.0,1.1,1.2]]> : tensor<4x3xf32>
  %b = stablehlo.constant dense<[0.1,0.2,-0.3]> : tensor<3xf32>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x4xIN>, tensor<4x3xf32>) -> tensor<1x3xMID>
  %1 = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xf32>) -> tensor<1x3xMID>
  %2 = stablehlo.add %0, %1 : tensor<1x3xMID>
  %z = stablehlo.constant dense<0.0> : tensor<1x3xf32>
  %3 = stablehlo.maximum %2, %z : (tensor<1x3xMID>, tensor<1x3xf32>) -> tensor<1x3xOUT>
  return %3 : tensor<1x3xOUT>
}"""


def layer(given: str, middle: str, made: str) -> Program:
    text = LAYER.replace("IN", given).replace("MID", middle).replace("OUT", made)
    return parse_program(
        text.replace(
            f"%2 = stablehlo.add %0, %1 : tensor<1x3x{middle}>",
            f"""
      %2 = stablehlo.add %0, %1 : (tensor<1x3x{middle}>, tensor<1x3x{middle}>) -> tensor<1x3x{middle}>""",
        ),
        annotated=True,
    )


def test_ranges_as_element_types_block_no_fusion_and_are_the_edges_of_a_program() -> None:
    """Inside a kernel they decide nothing, as in the RFC; arguments and results are floats to a caller."""
    calibrated = "!quant.calibrated<f32<{}>>".format
    program = layer(calibrated("-1.0:1.0"), calibrated("-9.0:9.0"), calibrated("-0.0:3.0"))
    assert [str(port.type) for port in (*program.inputs, *program.outputs)] == ["tensor<1x4xf32>", "tensor<1x3xf32>"]
    (region,) = regions_of(solved(program))
    assert region.logical_kernel.data == "fully_connected"
    assert [str(spec) for spec in (region.input_specs.data[0], region.output_specs.data[0])] == [
        "!quant.uniform<i8:f32, 0.0078431372549019607:-1>",
        "!quant.uniform<i8:f32, 0.011764705882352941:-128>",
    ]
    x = np.array([[0.5, -1.0, 0.25, 1.0]], np.float32)
    plain = Interpreter(layer("f32", "f32", "f32")).run_values([x])[0]
    np.testing.assert_array_equal(Interpreter(program).run_values([x])[0], plain)
    quantized = zp.quantize(zp.Model(program))
    assert float_ops(quantized.program) == []
    np.testing.assert_allclose(quantized(x)["result0"], plain, atol=0.02)


def test_ranges_hold_across_calls_and_inside_of_regions_mean_nothing() -> None:
    kind = "!quant.calibrated<f32<-2.0:2.0>>"
    rows = f"tensor<4x{kind}>"
    text = f"""func.func @main(%x: tensor<4x{kind}>) -> tensor<{kind}> {{
      %0 = func.call @f(%x) : (tensor<4x{kind}>) -> tensor<4x{kind}>
      %1 = "quant.stats"(%0) {{layerStats = dense<[-1.0, 1.0]> : tensor<2xf32>}} : ({rows}) -> {rows}
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %2 = "stablehlo.reduce"(%1, %z) <{{dimensions = array<i64: 0>}}> ({{
        ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>):
          %s = stablehlo.add %a, %b : tensor<{kind}>
          stablehlo.return %s : tensor<{kind}>
      }}) : (tensor<4x{kind}>, tensor<f32>) -> tensor<{kind}>
      return %2 : tensor<{kind}>
    }}
    func.func private @f(%x: tensor<4x{kind}>) -> tensor<4x{kind}> {{
      %0 = stablehlo.cosine %x : tensor<4x{kind}>
      return %0 : tensor<4x{kind}>
    }}"""
    program = parse_program(text, annotated=True)
    x = np.array([0.5, -1.0, 0.25, 1.0], np.float32)
    plain = Interpreter(program).run_values([x])[0]
    np.testing.assert_allclose(plain, np.cos(x).sum(), rtol=1e-6)
    quantized = zp.quantize(zp.Model(program))
    assert float_ops(quantized.program) == []
    np.testing.assert_allclose(quantized(x)["result0"], plain.clip(-2, 2), atol=0.05)


def test_what_is_open_beside_ops_without_a_kernel_says_nothing() -> None:
    kind = "!quant.calibrated<f32<-2.0:2.0>>"
    text = f"""func.func @main(%x: tensor<4x{kind}>) -> tensor<4x{kind}> {{
      %0 = stablehlo.remainder %x, %x : tensor<4x{kind}>
      return %0 : tensor<4x{kind}>
    }}"""
    quantized = zp.quantize(zp.Model(parse_program(text, annotated=True)))
    assert quantized(np.ones(4, np.float32))["result0"].tolist() == [0.0] * 4


def test_a_contraction_of_floats_with_a_quantized_result_is_a_constraint() -> None:
    """Also with quantized weights, which alone StableHLO accepts in a contraction of floats."""
    pin, by = "!quant.uniform<i8:f32, 0.05:3>", "contracting_dims = [1] x [0]"
    bounded, stored = "!quant.calibrated<f32<-1.0:1.0>>", "tensor<2x2x!quant.uniform<i8:f32:1, {0.01,0.02}>>"
    text = f"""func.func @main(%x: tensor<1x2x{bounded}>) -> tensor<1x2x{bounded}> {{
      %w = "stablehlo.constant"() {{value = dense<[[50, -25], [30, -100]]> : tensor<2x2xi8>}} : () -> {stored}
      %f = stablehlo.abs %x : (tensor<1x2x{bounded}>) -> tensor<1x2xf32>
      %s = "quant.stats"(%f) {{layerStats = dense<[0.0, 1.0]> : tensor<2xf32>}} : (tensor<1x2xf32>) -> tensor<1x2xf32>
      %0 = stablehlo.dot_general %s, %w, {by} : (tensor<1x2xf32>, {stored}) -> tensor<1x2x{pin}>
      %1 = stablehlo.dot_general %0, %w, {by} : (tensor<1x2x{pin}>, {stored}) -> tensor<1x2xf32>
      %2 = stablehlo.tanh %1 : (tensor<1x2xf32>) -> tensor<1x2x{bounded}>
      return %2 : tensor<1x2x{bounded}>
    }}"""
    integer = zp.quantize(
        zp.Model(parse_program(text, annotated=True)), np.linspace(-1, 1, 64).reshape(32, 1, 2).astype(np.float32)
    )
    assert float_ops(integer.program) == []
    x, real = np.array([[0.5, -0.75]], np.float32), np.array([[50, -25], [30, -100]]) * [0.01, 0.02]
    np.testing.assert_allclose(integer(x)["result0"], np.tanh(np.abs(x) @ real @ real), atol=0.06)


def test_a_convolution_of_floats_with_a_quantized_result_is_a_constraint() -> None:
    given, made = "tensor<1x1x4x4x!quant.uniform<i8:f32, 0.01>>", "tensor<1x1x3x3x!quant.uniform<i8:f32, 0.05:3>>"
    text = f"""func.func @main(%x: {given}) -> {made} {{
      %w = stablehlo.constant dense<0.5> : tensor<1x1x2x2xf32>
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}}
        : ({given}, tensor<1x1x2x2xf32>) -> {made}
      return %0 : {made}
    }}"""
    integer = zp.quantize(zp.Model(parse_program(text, annotated=True)))
    assert float_ops(integer.program) == []
    x = np.arange(-80, 80, 10, dtype=np.int8).reshape(1, 1, 4, 4)
    real = 0.005 * sum(x[:, :, i : i + 3, j : j + 3].astype(float) for i in (0, 1) for j in (0, 1))
    np.testing.assert_allclose(integer(x)["result0"], real / 0.05 + 3, atol=0.51)


def test_quantized_types_beside_floats_are_constraints_across_calls_in_loops_and_of_reductions() -> None:
    pin = "!quant.uniform<i8:f32, 0.05:3>"
    text = f"""func.func private @f(%x: tensor<4x{pin}>) -> tensor<4x!quant.calibrated<f32<-2.0:3.0>>> {{
      %0 = stablehlo.tanh %x : (tensor<4x{pin}>) -> tensor<4x!quant.calibrated<f32<-2.0:3.0>>>
      return %0 : tensor<4x!quant.calibrated<f32<-2.0:3.0>>>
    }}
    func.func @main(%x: tensor<4x{pin}>) -> (tensor<{pin}>, tensor<4xf32>) {{
      %0 = call @f(%x) : (tensor<4x{pin}>) -> tensor<4x!quant.calibrated<f32<-2.0:3.0>>>
      %z = stablehlo.constant dense<0.0> : tensor<f32>
      %1 = "stablehlo.reduce"(%0, %z) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }}) {{dimensions = array<i64: 0>}} : (tensor<4x!quant.calibrated<f32<-2.0:3.0>>>, tensor<f32>) -> tensor<{pin}>
      %o = stablehlo.negate %0 : (tensor<4x!quant.calibrated<f32<-2.0:3.0>>>) -> tensor<4xf32>
      %y = "quant.stats"(%o) {{layerStats = dense<[-2.0, 3.0]> : tensor<2xf32>}} : (tensor<4xf32>) -> tensor<4xf32>
      %2 = "stablehlo.while"(%y) ({{
        ^bb0(%v: tensor<4xf32>):
          %m = stablehlo.slice %v [0:1] : (tensor<4xf32>) -> tensor<1xf32>
          %n = stablehlo.reshape %m : (tensor<1xf32>) -> tensor<f32>
          %p = stablehlo.compare LT, %n, %z : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %p : tensor<i1>
      }}, {{
        ^bb0(%v: tensor<4xf32>):
          %t = "stablehlo.sine"(%v) : (tensor<4xf32>) -> tensor<4x{pin}>
          %u = "stablehlo.abs"(%t) : (tensor<4x{pin}>) -> tensor<4xf32>
          stablehlo.return %u : tensor<4xf32>
      }}) : (tensor<4xf32>) -> tensor<4xf32>
      return %1, %2 : tensor<{pin}>, tensor<4xf32>
    }}"""
    integer = zp.quantize(zp.Model(parse_program(text, annotated=True)))
    found, looped = integer(x := np.array([13, 23, 3, -7], np.int8)).values()
    real = np.tanh((x - 3.0) * 0.05)
    np.testing.assert_allclose(found, real.sum() / 0.05 + 3, atol=1.5)
    np.testing.assert_allclose(looped, np.abs(np.round(np.sin(-real) / 0.05) * 0.05), atol=0.051)

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
from zeropoint.ir.text import parse_program
from zeropoint.materialize import materialize
from zeropoint.solve import propagate
from zeropoint.solve.check import regions_of
from zeropoint.targets import target

RANGE, PIN = "!quant.calibrated<f32<-2.0:2.0>>", "!quant.uniform<i8:f32, 0.5:3>"
TEXT = f"""func.func @main(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {{
  %0 = stablehlo.tanh %x : (tensor<2x3xf32>) -> tensor<2x3x{RANGE}>
  %1 = stablehlo.add %0, %0 : (tensor<2x3x{RANGE}>, tensor<2x3x{RANGE}>) -> tensor<2x3x{PIN}>
  %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3x{PIN}>) -> tensor<3x2xf32>
  %3 = stablehlo.abs %2 : (tensor<3x2xf32>) -> tensor<3x2x!quant.none<f32>>
  %4 = stablehlo.negate %3 : (tensor<3x2x!quant.none<f32>>) -> tensor<3x2xf32>
  return %4 : tensor<3x2xf32>
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
    (found,) = Interpreter(materialize(solved(annotated()))).run_values([x])
    expected = -np.abs(np.round(2 * x * x / 0.5) * 0.5).T
    np.testing.assert_allclose(found, expected, atol=0.5)


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

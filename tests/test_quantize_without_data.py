"""A model that says its ranges or parameters itself is quantized without data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import zeropoint as zp
from zeropoint.cli import main
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
OPEN = "\n".join(line for line in STATED.splitlines() if '"quant.stats"(%0)' not in line).replace("%1 :", "%0 :")
X = np.array([[0.5, -0.25, 0.75, 1.0]], np.float32)


@pytest.mark.parametrize("text", [STATED, TRAINED])
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


def test_values_that_nobody_stated_are_named(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(OPEN)
    with pytest.raises(MissingStatistics, match=r"found no data, and no range in the model for what"):
        zp.quantize(zp.load(path))
    result = CliRunner().invoke(main, ["quantize", str(path), "-o", str(tmp_path / "out.mlir")])
    assert result.exit_code == 2
    assert "('fully_connected'), expected calibration data (--data)" in result.stderr
    assert not (tmp_path / "out.mlir").exists()

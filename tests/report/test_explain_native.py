"""`explain --native`: which kernel takes which ops, and why a better one did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zeropoint.cli import main

PROGRAM = """
func.func @main(%x: tensor<2x16xi8>, %m: tensor<1xi32>) -> tensor<2x8xi8> {
  %w = stablehlo.constant dense<1> : tensor<16x8xi8>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x16xi8>, tensor<16x8xi8>) -> tensor<2x8xi32> loc("fc")
  %n = stablehlo.constant dense<5> : tensor<1xi32>
  %y = "fxpmath.requantize"(%a, MULTIPLIER, %n) <{behaviour = "fixed16", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<2x8xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x8xi8> loc("fc")
  return %y : tensor<2x8xi8>
}
"""


def explained(tmp_path: Path, multiplier: str, *arguments: str) -> tuple[int, str]:
    path = tmp_path / "program.mlir"
    constant = "  %k = stablehlo.constant dense<16384> : tensor<1xi32>\n  %n ="
    path.write_text(PROGRAM.replace("MULTIPLIER", multiplier).replace("  %n =", constant, 1))
    result = CliRunner().invoke(main, ["explain", str(path), *arguments, "--native"], prog_name="zeropoint")
    return result.exit_code, result.output


def test_a_kernel_is_listed_with_its_ops(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "%k", "--json")
    assert status == 0
    assert json.loads(text) == [
        {"kind": "contraction", "name": "fc", "ops": ["stablehlo.dot_general", "fxpmath.requantize"], "declined": []}
    ]


def test_what_declined_says_why(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "%m", "fc", "--json")
    assert status == 0
    (kernel,) = json.loads(text)
    reason = "requantize: fxpmath.requantize 'fc': found a multiplier that is computed, expected a constant"
    assert (kernel["kind"], kernel["declined"]) == ("nest", [reason])


@pytest.mark.parametrize("name", ["fc", None])
def test_people_get_a_table(tmp_path: Path, name: str | None) -> None:
    status, text = explained(tmp_path, "%k", *([name] if name else []))
    assert status == 0
    assert "contraction" in text
    assert "stablehlo.dot_general, fxpmath.requantize" in text


def test_a_name_of_no_kernel_is_refused(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "%k", "nobody")
    assert status == 2
    assert "found no kernel of an op called 'nobody'" in text

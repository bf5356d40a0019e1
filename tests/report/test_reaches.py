"""`zeropoint explain --ranges`: bounds, bits, headroom of each kernel and channel, and what grew a weight's scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from zeropoint.cli import main
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.report.explain import ExplanationError, reaches

TEXT = """func.func @main(%x: tensor<1x2xi8>) -> tensor<1x3xi8> {
  %w = stablehlo.constant dense<[[127, 2, 50], [-127, 1, 0]]> : tensor<2x3xi8>
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<1x2xi8>, tensor<2x3xi8>) -> tensor<1x3xi32> loc("fc")
  %b = stablehlo.constant dense<[5, 1073741000, -7]> : tensor<3xi32>
  %c = stablehlo.broadcast_in_dim %b, dims = [1] : (tensor<3xi32>) -> tensor<1x3xi32>
  %1 = stablehlo.add %0, %c : tensor<1x3xi32> loc("fc")
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %s = stablehlo.constant dense<50> : tensor<1xi32>
  %r = "fxpmath.requantize"(%1, %m, %s) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<1x3xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x3xi8> loc("fc")
  return %r : tensor<1x3xi8>
}"""


def test_bounds_are_those_of_the_weights() -> None:
    products, sums, multiplied = reaches(parse_program(TEXT))
    assert (products.name, products.op, products.width) == ("fc", "stablehlo.dot_general", 32)
    assert products.bound == (127 * 255, 3 * 128, 50 * 128)
    assert products.bits == (16, 10, 14)
    assert products.headroom == (16, 22, 18)
    assert products.grown == (1.0, 127 / 2, 127 / 50)
    assert products.grown_by == ("", "bias", "sums")
    assert sums.bound == (127 * 255 + 5, 1073741000 + 3 * 127, 50 * 128 + 7)
    assert sums.headroom[1] == 1
    assert (multiplied.what, multiplied.width) == ("products with the multiplier", 64)
    assert multiplied.bound[1] == (1073741000 + 3 * 127) * 2**30 + 2**49


def test_a_float_model_has_none() -> None:
    made: Program = parse_program("func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {\nreturn %x : tensor<1xf32>\n}")
    with pytest.raises(ExplanationError, match="found no integer arithmetic, expected an integer program"):
        reaches(made)


def explained(tmp_path: Path, *arguments: str) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    found = CliRunner().invoke(main, ["explain", str(path), "--ranges", *arguments])
    assert found.exit_code == 0, found.output
    return found.output


def test_the_command_prints_a_line_for_each_op(tmp_path: Path) -> None:
    lines = explained(tmp_path).splitlines()
    (line,) = (line for line in lines if "dot_general" in line)
    assert line.split()[:10] == ["fc", "dot_general", "sums", "of", "products", "3", "0", "32385", "16", "32"]
    assert "2 grown, up to 63.5x" in line


def test_the_command_prints_every_channel_of_a_value(tmp_path: Path) -> None:
    text = explained(tmp_path, "fc")
    assert "  channel 1: up to 384, 10 bits, headroom 22; weight scale grown 63.5 times by its bias" in text
    assert "  channel 2: up to 6400, 14 bits, headroom 18; weight scale grown 2.54 times by its sums" in text


def test_the_command_prints_json(tmp_path: Path) -> None:
    (products, *_) = json.loads(explained(tmp_path, "--json"))
    assert np.array(products["bound"]).tolist() == [127 * 255, 3 * 128, 50 * 128]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    found = CliRunner().invoke(main, ["explain", str(path), "conv7", "--ranges"])
    assert found.exit_code == 2
    assert "found no integer op 'conv7' in the program, expected a name as 'fc'" in found.output

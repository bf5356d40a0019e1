"""`explain --native`: which kernel takes which ops, and why a better one did not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from zeropoint.cli import main

PROGRAM = """
func.func @main(%x: tensor<2x16xi8>) -> tensor<2x8xELEMENT> {
  %w = stablehlo.constant dense<1> : tensor<16x8xi8>
  %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
    : (tensor<2x16xi8>, tensor<16x8xi8>) -> tensor<2x8xi32> loc("fc")
  %k = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %n = stablehlo.constant dense<33> : tensor<1xi32>
  %y = "fxpmath.requantize"(%a, %k, %n) <{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}> : (tensor<2x8xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<2x8xELEMENT> loc("fc")
  return %y : tensor<2x8xELEMENT>
}
"""


def explained(tmp_path: Path, element: str, *arguments: str) -> tuple[int, str]:
    """`explain --native` of a product with results of that type; kernels of products have 8 and 16 bits."""
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM.replace("ELEMENT", element))
    result = CliRunner().invoke(main, ["explain", str(path), *arguments, "--native"], prog_name="zeropoint")
    return result.exit_code, result.output


def test_a_kernel_is_listed_with_its_ops(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "i8", "--json")
    assert status == 0
    assert json.loads(text) == [
        {"kind": "contraction", "name": "fc", "ops": ["stablehlo.dot_general", "fxpmath.requantize"], "declined": []}
    ]


def test_what_declined_says_why(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "i32", "fc", "--json")
    assert status == 0
    (kernel,) = json.loads(text)
    reason = "requantize: fxpmath.requantize 'fc': found a result of i32, expected i8 or i16"
    assert (kernel["kind"], kernel["declined"]) == ("nest", [reason])


@pytest.mark.parametrize("name", ["fc", None])
def test_people_get_a_table(tmp_path: Path, name: str | None) -> None:
    status, text = explained(tmp_path, "i8", *([name] if name else []))
    assert status == 0
    assert "contraction" in text
    assert "stablehlo.dot_general, fxpmath.requantize" in text


def test_a_name_of_no_kernel_is_refused(tmp_path: Path) -> None:
    status, text = explained(tmp_path, "i8", "nobody")
    assert status == 2
    assert "found no kernel of an op called 'nobody'" in text


@pytest.mark.parametrize("passes", ["group{isa=avx2}", "group{isa=avx2},layout"])
def test_a_grouped_program_is_explained_as_it_is(tmp_path: Path, passes: str) -> None:
    path = tmp_path / "program.mlir"
    path.write_text(PROGRAM.replace("ELEMENT", "i32"))
    given, run = ["opt", str(path), "-p", passes, "-o", str(tmp_path / "grouped.mlir")], CliRunner()
    assert run.invoke(main, given, prog_name="zeropoint").exit_code == 0
    listed = ["explain", str(tmp_path / "grouped.mlir"), "--native", "--json"]
    result = run.invoke(main, listed, prog_name="zeropoint")
    assert [kernel["kind"] for kernel in json.loads(result.output)] == ["nest"]
    assert "found a result of i32" in result.output


def test_a_program_without_kernels_has_an_empty_list(tmp_path: Path) -> None:
    path = tmp_path / "program.mlir"
    path.write_text("func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {\n  return %x : tensor<2xi8>\n}\n")
    result = CliRunner().invoke(main, ["explain", str(path), "--native", "--json"], prog_name="zeropoint")
    assert (result.exit_code, json.loads(result.output)) == (0, [])


LONELY = {
    "a convolution whose sums are returned": (
        """
func.func @main(%x: tensor<1x4x6x6xi8>) -> tensor<1x8x4x4xi32> {
  %w = stablehlo.constant dense<1> : tensor<8x4x3x3xi8>
  %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {}
    {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
    : (tensor<1x4x6x6xi8>, tensor<8x4x3x3xi8>) -> tensor<1x8x4x4xi32> loc("conv")
  return %y : tensor<1x8x4x4xi32>
}""",
        "floats: stablehlo.convolution 'conv': found i8 times i8 to i32, expected f32, or sums that are requantized",
    ),
    "rows that are too short": (
        """
func.func @main(%x: tensor<4x5xf32>) -> tensor<4x5xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x5xf32>, tensor<f32>) -> tensor<4xf32> loc("sum")
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xf32>) -> tensor<4x5xf32>
  %y = stablehlo.divide %x, %b : tensor<4x5xf32> loc("share")
  return %y : tensor<4x5xf32>
}""",
        "rows: stablehlo.divide 'share': found rows of 5 elements, expected at least 8",
    ),
    "floats that are quantized after a kernel of rows": (
        """
module attributes {zeropoint.profile = "fixed16"} {
func.func @main(%x: tensor<4x16xf32>) -> (tensor<4x16xf32>, tensor<4x16xi8>) {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.reduce(%x init: %zero) applies stablehlo.add across dimensions = [1]
    : (tensor<4x16xf32>, tensor<f32>) -> tensor<4xf32> loc("sum")
  %b = stablehlo.broadcast_in_dim %s, dims = [0] : (tensor<4xf32>) -> tensor<4x16xf32>
  %y = stablehlo.divide %x, %b : tensor<4x16xf32> loc("share")
  %q = stablehlo.uniform_quantize %y : (tensor<4x16xf32>) -> tensor<4x16x!quant.uniform<i8:f32, 0.5>> loc("share")
  %i = quant.scast %q : tensor<4x16x!quant.uniform<i8:f32, 0.5>> to tensor<4x16xi8>
  return %y, %i : tensor<4x16xf32>, tensor<4x16xi8>
}}""",
        "quantize: stablehlo.uniform_quantize 'share': found floats that are not computed yet, expected computed ones",
    ),
    "a pool of maxima": (
        """
func.func @main(%x: tensor<1x4x6x6xi8>) -> tensor<1x4x3x3xi8> {
  %v = stablehlo.constant dense<-128> : tensor<i8>
  %y = "stablehlo.reduce_window"(%x, %v) ({
  ^bb0(%a: tensor<i8>, %b: tensor<i8>):
    %m = stablehlo.maximum %a, %b : tensor<i8>
    stablehlo.return %m : tensor<i8>
  }) {window_dimensions = array<i64: 1, 1, 2, 2>, window_strides = array<i64: 1, 1, 2, 2>}
    : (tensor<1x4x6x6xi8>, tensor<i8>) -> tensor<1x4x3x3xi8> loc("pool")
  return %y : tensor<1x4x3x3xi8>
}""",
        "pool: stablehlo.reduce_window 'pool': "
        "found i8 reduced by stablehlo.maximum, expected sums that are requantized",
    ),
    "ops without a reduction": (
        """
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %y = stablehlo.exponential %x : tensor<4x16xf32> loc("e")
  return %y : tensor<4x16xf32>
}""",
        "rows: stablehlo.exponential 'e': found no reduction along dimension 1 that the op depends on",
    ),
    "a product of integers without rows": (
        """
func.func @main(%x: tensor<4x16xi32>, %y: tensor<16x4xi32>) -> tensor<4x4xi32> {
  %z = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
    : (tensor<4x16xi32>, tensor<16x4xi32>) -> tensor<4x4xi32> loc("dot")
  return %z : tensor<4x4xi32>
}""",
        "floats: stablehlo.dot_general 'dot': found i32 times i32 to i32, expected f32, or sums that are requantized",
    ),
    "elements that are not side by side": (
        """
func.func @main(%x: tensor<16x2xi32>) -> tensor<16x2xi32> {
  %y = stablehlo.negate %x : tensor<16x2xi32> loc("n")
  return %y : tensor<16x2xi32>
}""",
        "rows: stablehlo.negate 'n': found no dimension with at least 8 elements side by side",
    ),
}
"""Programs in which a loop nest takes what a better kernel declined, and the reason."""


@pytest.mark.parametrize("case", LONELY)
def test_a_loop_nest_says_which_better_kernel_declined_and_why(case: str, tmp_path: Path) -> None:
    text, reason = LONELY[case]
    (path := tmp_path / "program.mlir").write_text(text)
    result = CliRunner().invoke(main, ["explain", str(path), "--native", "--json"], prog_name="zeropoint")
    assert result.exit_code == 0, result.output
    nests = [kernel for kernel in json.loads(result.output) if kernel["kind"] == "nest"]
    assert reason in [said for kernel in nests for said in kernel["declined"]]
    assert all(kernel["declined"] for kernel in nests)


def test_a_fold_says_why_a_loop_nest_did_not_take_it(tmp_path: Path) -> None:
    (path := tmp_path / "program.mlir").write_text(
        """
func.func @main(%x: tensor<4x6xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %v = stablehlo.constant dense<0> : tensor<i32>
  %y, %z = "stablehlo.reduce"(%x, %x, %v, %v) ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<i32>, %d: tensor<i32>):
    %s = stablehlo.add %a, %c : tensor<i32>
    %m = stablehlo.maximum %b, %d : tensor<i32>
    stablehlo.return %s, %m : tensor<i32>, tensor<i32>
  }) {dimensions = array<i64: 1>} : (tensor<4x6xi32>, tensor<4x6xi32>, tensor<i32>, tensor<i32>)
    -> (tensor<4xi32>, tensor<4xi32>) loc("both")
  return %y, %z : tensor<4xi32>, tensor<4xi32>
}"""
    )
    result = CliRunner().invoke(main, ["explain", str(path), "--native", "--json"], prog_name="zeropoint")
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads(result.output)
    assert (kernel["kind"], kernel["declined"]) == (
        "fold",
        ["single: stablehlo.reduce 'both': found 2 operands, expected 1"],
    )

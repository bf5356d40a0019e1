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


def test_a_maximum_is_no_sum() -> None:
    text = """func.func @main(%x: tensor<1x4xi8>) -> (tensor<1xi8>, tensor<1xi32>) {
      %least = stablehlo.constant dense<-128> : tensor<i8>
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.reduce(%x init: %least) applies stablehlo.maximum across dimensions = [1]
        : (tensor<1x4xi8>, tensor<i8>) -> tensor<1xi8> loc("max")
      %1 = stablehlo.convert %x : (tensor<1x4xi8>) -> tensor<1x4xi32>
      %2 = stablehlo.reduce(%1 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<1x4xi32>, tensor<i32>) -> tensor<1xi32> loc("sum")
      return %0, %2 : tensor<1xi8>, tensor<1xi32>
    }"""
    assert [(reach.name, reach.bound) for reach in reaches(parse_program(text))] == [("sum", (512,))]


def test_bounds_are_those_of_the_weights() -> None:
    products, sums, multiplied = reaches(parse_program(TEXT))
    assert (products.name, products.op, products.width) == ("fc", "stablehlo.dot_general", 32)
    assert products.bound == (127 * 255, 3 * 128, 50 * 128)
    assert products.bits == (16, 10, 14)
    assert products.headroom == (16, 22, 18)
    assert products.grown == (1.0, 127 / 2, 127 / 50)
    assert products.grown_by == ("", "bias", "")
    assert sums.bound == (127 * 255 + 5, 1073741000 + 3 * 127, 50 * 128 + 7)
    assert sums.headroom[1] == 1
    assert (multiplied.what, multiplied.width) == ("products with the multiplier", 64)
    assert multiplied.bound[1] == (1073741000 + 3 * 127) * 2**30 + 2**49


def test_a_float_model_has_none() -> None:
    made: Program = parse_program("func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> {\nreturn %x : tensor<1xf32>\n}")
    with pytest.raises(ExplanationError, match="found no integer arithmetic, expected an integer program"):
        reaches(made)


def test_a_weight_scale_is_grown_by_its_sums_only_if_they_would_not_fit_without() -> None:
    long = "tensor<1x65536xi16>", "tensor<65536x2xi8>"
    products, *_ = reaches(
        parse_program(f"""func.func @main(%x: {long[0]}) -> tensor<1x2xi32> {{
          %w = stablehlo.constant dense<1> : {long[1]}
          %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({", ".join(long)}) -> tensor<1x2xi32>
          return %0 : tensor<1x2xi32>
        }}""")
    )
    assert products.grown_by == ("sums", "sums")


def explained(tmp_path: Path, *arguments: str) -> str:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    found = CliRunner().invoke(main, ["explain", str(path), "--ranges", *arguments])
    assert found.exit_code == 0, found.output
    return found.output


def test_the_command_prints_a_line_for_each_op(tmp_path: Path) -> None:
    lines = explained(tmp_path).splitlines()
    at = next(i for i, line in enumerate(lines) if "dot_general" in line)
    line = lines[at]
    assert line.split()[:10] == ["fc", "dot_general", "sums", "of", "products", "3", "0", "32385", "16", "32"]
    assert line.strip().endswith("1 grown, up to 63.5x")
    assert lines[at + 1].strip() == "1 coarser, up to 2.54x"


def test_the_command_prints_every_channel_of_a_value(tmp_path: Path) -> None:
    text = explained(tmp_path, "fc")
    assert "  channel 1: up to 384, 10 bits, headroom 22; weight scale increased 63.5 times to fit its bias" in text
    assert (
        "  channel 2: up to 6400, 14 bits, headroom 18; weight scale 2.54 times what its weights and sums need" in text
    )


def test_one_bit_is_written_in_the_singular(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text("""
      func.func @main(%x: tensor<2xi8>) -> tensor<2xi8> {
        %zero = stablehlo.constant dense<0> : tensor<2xi8>
        %y = stablehlo.multiply %x, %zero : tensor<2xi8> loc("nothing")
        return %y : tensor<2xi8>
      }""")
    found = CliRunner().invoke(main, ["explain", str(path), "--ranges", "nothing"])
    assert "up to 0, 1 bit, headroom 7" in found.output, found.output


def test_the_command_prints_json(tmp_path: Path) -> None:
    (products, *_) = json.loads(explained(tmp_path, "--json"))
    assert np.array(products["bound"]).tolist() == [127 * 255, 3 * 128, 50 * 128]


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.mlir"
    path.write_text(TEXT)
    found = CliRunner().invoke(main, ["explain", str(path), "conv7", "--ranges"])
    assert found.exit_code == 2
    assert "found no integer op 'conv7' in the program, expected a name such as 'fc'" in found.output


LOOP = """func.func @main(%x: tensor<4xi8>, %p: tensor<i1>) -> (tensor<4xi32>, tensor<i32>, tensor<4xi32>) {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %z = stablehlo.constant dense<0> : tensor<4xi32>
  %0 = stablehlo.convert %x : (tensor<4xi8>) -> tensor<4xi32>
  %a, %b, %i = stablehlo.while(%s = %z, %t = %z, %k = %c) : tensor<4xi32>, tensor<4xi32>, tensor<i32>
  cond {
    %n = stablehlo.constant dense<5> : tensor<i32>
    %q = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %q : tensor<i1>
  } do {
    %one = stablehlo.constant dense<1> : tensor<i32>
    %k1 = stablehlo.add %k, %one : tensor<i32> loc("counter")
    %s1 = stablehlo.add %s, %0 : tensor<4xi32> loc("endless")
    %low = stablehlo.constant dense<-100> : tensor<i32>
    %high = stablehlo.constant dense<50> : tensor<i32>
    %t1 = stablehlo.add %t, %0 : tensor<4xi32> loc("clamped")
    %t2 = stablehlo.clamp %low, %t1, %high : (tensor<i32>, tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
    stablehlo.return %s1, %t2, %k1 : tensor<4xi32>, tensor<4xi32>, tensor<i32>
  }
  %r = "stablehlo.if"(%p) ({
    %u = stablehlo.add %b, %b : tensor<4xi32> loc("branch")
    stablehlo.return %u : tensor<4xi32>
  }, {
    stablehlo.return %0 : tensor<4xi32>
  }) : (tensor<i1>) -> tensor<4xi32>
  %v = stablehlo.add %r, %r : tensor<4xi32> loc("after")
  %j = stablehlo.add %i, %i : tensor<i32> loc("left")
  return %v, %j, %a : tensor<4xi32>, tensor<i32>, tensor<4xi32>
}"""


def test_ops_in_loops_and_branches_have_the_bounds_of_what_is_carried() -> None:
    bounds = {reach.name: (reach.bound[0], reach.headroom[0]) for reach in reaches(parse_program(LOOP))}
    assert bounds == {
        "counter": (5, 28),  # `cond` leaves 0..4
        "endless": (2**31 + 128, -1),  # nothing bounds the number of rounds: the type
        "clamped": (228, 23),  # -100..50 again and again
        "branch": (200, 23),
        "after": (400, 22),  # -200..100 or -128..127
        "left": (10, 27),  # the loop ends with 0..5
    }


def test_a_quantized_sum_in_a_loop_has_a_bound_in_the_bits_in_which_it_is_added() -> None:
    kind = "tensor<1x!quant.uniform<i32:f32, 1.0>>"
    text = f"""func.func @main(%x: {kind}, %y: {kind}, %p: tensor<i1>) -> {kind} {{
      %r = "stablehlo.if"(%p) ({{
        %u = stablehlo.add %x, %y : {kind} loc("sum")
        stablehlo.return %u : {kind}
      }}, {{
        stablehlo.return %x : {kind}
      }}) : (tensor<i1>) -> {kind}
      return %r : {kind}
    }}"""
    (reach,) = reaches(parse_program(text))
    assert (reach.name, reach.width, reach.bound, reach.headroom) == ("sum", 64, (2**32,), (31,))


@pytest.mark.parametrize(("form", "words"), [("after", "after"), ("inside", "inside of")])
def test_the_form_of_the_zero_point_correction_is_told(form: str, words: str, tmp_path: Path) -> None:
    x, w = "tensor<1x1x4x4x!quant.uniform<i8:f32, 0.5:-7>>", "tensor<2x1x3x3x!quant.uniform<i8:f32, 0.5:-128>>"
    y = "tensor<1x2x2x2x!quant.uniform<i32:f32, 0.25>>"
    path = tmp_path / "model.mlir"
    path.write_text(f"""func.func @main(%x: {x}) -> {y} {{
      %c = stablehlo.constant dense<100> : tensor<2x1x3x3xi8>
      %w = quant.scast %c : tensor<2x1x3x3xi8> to {w}
      %y = stablehlo.convolution(%x, %w) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {{}}
        {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({x}, {w}) -> {y} loc("conv")
      return %y : {y}
    }}""")
    lowered, run = str(tmp_path / "lowered.mlir"), CliRunner().invoke
    passes = f"integer-program{{zero_points={form}}}"
    assert run(main, ["opt", str(path), "-p", passes, "-o", lowered]).exit_code == 0
    table = run(main, ["explain", lowered, "--ranges"]).output
    assert f"contractions correct zero points {words} the sum in 1" in table
    assert "1 coarser" not in table  # the ones that add the windows
    assert f"zero points corrected {words} the sum" in run(main, ["explain", lowered, "conv", "--ranges"]).output

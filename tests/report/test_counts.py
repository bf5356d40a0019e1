"""Counts of integer and float ops, and the float ops with their reasons."""

from __future__ import annotations

from collections import Counter

import numpy as np

import zeropoint as zp
from zeropoint.ir.text import parse_program, print_program
from zeropoint.pipeline import Options, quantize
from zeropoint.report.counts import Counts, Ops, count_ops, float_kernels, float_ops
from zeropoint.report.document.graph import graph_of

QUANTIZED = "tensor<4x!quant.uniform<i8:f32, 0.5>>"
FLOAT_IN_THE_MIDDLE = f"""func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{
  %a = stablehlo.floor %x : tensor<4xf32>
  %0 = stablehlo.uniform_quantize %a : (tensor<4xf32>) -> {QUANTIZED}
  %1 = quant.scast %0 : {QUANTIZED} to tensor<4xi8>
  %2 = stablehlo.add %1, %1 : tensor<4xi8>
  %3 = quant.scast %2 : tensor<4xi8> to {QUANTIZED}
  %4 = stablehlo.uniform_dequantize %3 : ({QUANTIZED}) -> tensor<4xf32>
  %5 = stablehlo.exponential %4 {{zeropoint.float_reason = "no table yet"}} : tensor<4xf32> loc("curve")
  %6 = stablehlo.uniform_quantize %5 : (tensor<4xf32>) -> {QUANTIZED}
  %7 = quant.scast %6 : {QUANTIZED} to tensor<4xi8>
  %8 = stablehlo.maximum %7, %7 : tensor<4xi8>
  %9 = quant.scast %8 : tensor<4xi8> to {QUANTIZED}
  %10 = stablehlo.uniform_dequantize %9 : ({QUANTIZED}) -> tensor<4xf32>
  %11 = stablehlo.tanh %10 : tensor<4xf32> loc("last")
  return %11 : tensor<4xf32>
}}
"""


def test_float_ops_count_wherever_they_are() -> None:
    assert count_ops(parse_program(FLOAT_IN_THE_MIDDLE)) == Counts(integer=2, floats=3, edges=8, rescales=0)


def test_float_ops_are_listed_with_their_place_and_reason() -> None:
    assert float_ops(parse_program(FLOAT_IN_THE_MIDDLE)) == [
        ("stablehlo.floor", "no kernel covers it"),
        ("stablehlo.exponential 'curve'", "no table yet"),
        ("stablehlo.tanh 'last'", "no kernel covers it"),
    ]


LOOP = """func.func @main(%a: tensor<2xf32>) -> tensor<2xf32> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%c = %i, %y = %a) : tensor<i32>, tensor<2xf32>
  cond {
    %n = stablehlo.constant dense<3> : tensor<i32>
    %p = stablehlo.compare LT, %c, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  } do {
    %o = stablehlo.constant dense<1> : tensor<i32>
    %d = stablehlo.add %c, %o : tensor<i32>
    %s = stablehlo.add %y, %y : tensor<2xf32>
    %t = stablehlo.tanh %s : tensor<2xf32>
    stablehlo.return %d, %t : tensor<i32>, tensor<2xf32>
  }
  return %r#1 : tensor<2xf32>
}"""


def test_the_ops_in_the_body_of_a_loop_count() -> None:
    found = Ops.of(parse_program(LOOP))
    assert found.counts == Counts(integer=2, floats=3, edges=0, rescales=0)
    lines = "2 integer ops, 3 float ops, 0 rescales, 0 conversions\n  1 stablehlo.while (3 ops) stays float: no kernel"
    assert str(found).startswith(lines)


def test_float_ops_are_grouped_by_kernel_and_reason() -> None:
    softmax = '{zeropoint.float_reason = "none", zeropoint.kernel = "softmax"}'
    text = f"""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
      %0 = stablehlo.exponential %x {softmax} : tensor<4xf32> loc("a")
      %1 = stablehlo.log %0 {softmax} : tensor<4xf32> loc("a")
      %2 = stablehlo.floor %1 : tensor<4xf32> loc("down")
      %3 = stablehlo.exponential %2 {softmax} : tensor<4xf32> loc("b")
      return %0, %3 : tensor<4xf32>, tensor<4xf32>
    }}"""
    program = parse_program(text)
    assert [str(found) for found in float_kernels(program)] == [
        "2 softmax (3 ops) stay float at 'a', 'b': none",
        "1 stablehlo.floor (1 op) stays float at 'down': no kernel covers it",
    ]
    assert str(Ops.of(program)).startswith("0 integer ops, 4 float ops, 0 rescales, 0 conversions\n")


def test_kernels_of_one_kind_that_read_each_other_are_counted_one_by_one() -> None:
    """Two cosines in a row are one kernel; three residual adds are three."""
    text = """func.func @main(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %a = stablehlo.cosine %x : tensor<4x8xf32> loc("a")
      %b = stablehlo.cosine %a : tensor<4x8xf32> loc("b")
      %c = stablehlo.add %b, %y : tensor<4x8xf32> loc("c")
      %d = stablehlo.add %c, %y : tensor<4x8xf32> loc("d")
      %e = stablehlo.add %d, %c : tensor<4x8xf32> loc("e")
      return %e : tensor<4x8xf32>
    }"""
    random = np.random.default_rng(0)
    data = {name: random.uniform(-2, 2, (4, 4, 8)).astype(np.float32) for name in "xy"}
    made = zp.quantize(text, data, effort="none", recipe=[{"regex": ".*", "quantize": False}])
    program = parse_program(print_program(made.program, inline_weights=True, locations=True))
    found = {(group.kernel, group.kernels, group.ops) for group in float_kernels(program)}
    boxes = Counter(node.kernel for node in graph_of(program).nodes if node.kind == "float")
    assert found == {("elementwise_unary", 1, 2), ("add", 3, 3)}
    assert boxes == {"elementwise_unary": 1, "add": 3}


def test_a_rescale_is_a_requantization_that_says_why() -> None:
    requantize = """%r = "fxpmath.requantize"(%x, %m, %s) {{behaviour = "fixed32", zero_point = 0 : i64,
      storage_min = -128 : i64, storage_max = 127 : i64{0}}}
      : (tensor<4xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<4xi8>"""
    for extra, expected in (("", 0), (', zeropoint.rescale = "two demands"', 1)):
        text = f"""func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {{
          %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
          %s = stablehlo.constant dense<31> : tensor<1xi32>
          {requantize.format(extra)}
          return %r : tensor<4xi8>
        }}"""
        assert count_ops(parse_program(text)) == Counts(1, 0, 0, expected)


def test_kernels_of_a_stage_before_integers_say_that_they_are_not_materialized() -> None:
    program = parse_program("""func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = stablehlo.tanh %x : tensor<2xf32> loc("gate")
      return %y : tensor<2xf32>
    }""")
    made = quantize(program, [{"arg0": np.float32([-1, 1])}], Options(effort="none"))
    (decided,), (fused,) = float_kernels(made.propagated), float_kernels(made.fused)
    assert str(decided) == (
        "1 tanh (1 op) stays float at 'gate': its kernel has types, but is not materialized "
        "(zeropoint opt -p materialize,integer-program)"
    )
    assert str(fused) == "1 tanh (1 op) stays float at 'gate': its kernel has no types yet"
    assert not float_kernels(made.integer)


def test_reasons_that_differ_only_in_what_would_be_kept_are_one_line() -> None:
    steps = [("tanh", "17.5"), ("sine", "9.0"), ("tanh", "-3.0"), ("tanh", "8.0")]
    ops = "\n".join(
        f'%{n + 1} = stablehlo.{name} %{n} {{zeropoint.float_reason = "too coarse: it would keep {kept} dB"}} '
        f': tensor<4xf32> loc("{"abcd"[n]}")'
        for n, (name, kept) in enumerate(steps)
    )
    main = "func.func @main(%0: tensor<4xf32>) -> tensor<4xf32>"
    program = parse_program(f"{main} {{\n{ops}\nreturn %4 : tensor<4xf32>\n}}")
    assert [str(kernel) for kernel in float_kernels(program)] == [
        "3 stablehlo.tanh (3 ops) stay float at 'a', 'c', 'd': too coarse: it would keep -3.0 to 17.5 dB",
        "1 stablehlo.sine (1 op) stays float at 'b': too coarse: it would keep 9.0 dB",
    ]

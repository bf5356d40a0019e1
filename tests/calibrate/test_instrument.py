"""Instrument: options that text pipelines do not have. The pass before and after: tests/mlir/instrument.mlir."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue

from zeropoint.calibrate import asks_all, instrument, stats_keys
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program

PLAIN = """
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}, %unused: tensor<4xf32>, %n: tensor<4xi32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<2.0> : tensor<4xf32>
  %0 = stablehlo.multiply %x, %c : tensor<4xf32> loc("double")
  %1 = stablehlo.convert %n : (tensor<4xi32>) -> tensor<4xf32>
  %2 = stablehlo.add %0, %1 : tensor<4xf32> loc("sum")
  return %2 : tensor<4xf32>
}
"""


def test_the_given_program_stays_as_it_is(regions):
    before = print_program(regions, locations=True)
    instrument(regions)
    assert print_program(regions, locations=True) == before


def test_instrumenting_twice_is_instrumenting_once(regions):
    once = instrument(regions)
    assert print_program(instrument(once)) == print_program(once)


def test_a_result_that_its_kernel_fixes_need_not_be_asked(regions):
    def asks(program: Program) -> Callable[[SSAValue], bool]:
        every, fixed = asks_all(program), StringAttr("elementwise_unary")
        return lambda value: every(value) and getattr(value.owner, "logical_kernel", None) != fixed

    asked = instrument(regions, asks=asks)
    assert stats_keys(asked) == ["x", "y", "sum"]
    assert stats_keys(instrument(regions)) == ["x", "y", "sum", "exp"]


def test_a_program_without_regions_asks_nothing_unless_told_to():
    program = parse_program(PLAIN)
    assert stats_keys(instrument(program)) == []
    assert stats_keys(instrument(program, every_result=True)) == ["x", "double", "stablehlo.convert", "sum"]


def test_the_instrumented_program_verifies(regions):
    instrument(regions).module.verify()
    instrument(parse_program(PLAIN), every_result=True).module.verify()


def test_results_of_a_loop_that_reads_an_argument_in_its_body_are_asked():
    program = parse_program("""
func.func @main(%x: tensor<4xf32> {zeropoint.name = "x"}) -> tensor<4xf32> {
  %begin = stablehlo.constant dense<0> : tensor<i32>
  %end = stablehlo.constant dense<3> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %zeros = stablehlo.constant dense<0.0> : tensor<4xf32>
  %r:2 = stablehlo.while(%n = %begin, %sum = %zeros) : tensor<i32>, tensor<4xf32>
  cond {
    %c = stablehlo.compare LT, %n, %end, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %n, %one : tensor<i32>
    %more = stablehlo.add %sum, %x : tensor<4xf32>
    stablehlo.return %next, %more : tensor<i32>, tensor<4xf32>
  }
  %y = stablehlo.tanh %r#1 : tensor<4xf32> loc("tanh")
  return %y : tensor<4xf32>
}""")
    assert stats_keys(instrument(program, every_result=True))[-1] == "tanh"

"""if, case, while, map: which body runs, on what, how often; tuples and tokens."""

from __future__ import annotations

import numpy as np
import pytest

from oracle.mlir import checked
from zeropoint.interp import Interpreter, UnsupportedError
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program


def run(text: str, *values: Array) -> list[Array]:
    return Interpreter(checked(text)).run_values(list(values))


BRANCHES = """
func.func @main(%p: tensor<i1>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<f32>) {
  %y = stablehlo.negate %x : tensor<2xf32>
  %0, %1 = "stablehlo.if"(%p) ({
    %c = stablehlo.constant dense<1.0> : tensor<f32>
    stablehlo.return %x, %c : tensor<2xf32>, tensor<f32>
  }, {
    %c = stablehlo.constant dense<2.0> : tensor<f32>
    %z = stablehlo.add %y, %y : tensor<2xf32>
    stablehlo.return %z, %c : tensor<2xf32>, tensor<f32>
  }) : (tensor<i1>) -> (tensor<2xf32>, tensor<f32>)
  return %0, %1 : tensor<2xf32>, tensor<f32>
}"""


def test_if_runs_one_branch_with_values_from_around_it():
    x = np.array([1.0, 2.0], np.float32)
    kept, one = run(BRANCHES, np.array(True), x)
    negated, two = run(BRANCHES, np.array(False), x)
    assert (kept.tolist(), one.tolist()) == ([1.0, 2.0], 1.0)
    assert (negated.tolist(), two.tolist()) == ([-2.0, -4.0], 2.0)


@pytest.mark.parametrize(("index", "expected"), [(-1, 30), (0, 10), (1, 20), (2, 30), (3, 30), (2**31 - 1, 30)])
def test_case_takes_the_last_branch_for_an_index_out_of_range(index: int, expected: int):
    branches = ", ".join(
        f"{{ %c = stablehlo.constant dense<{value}> : tensor<i32>\nstablehlo.return %c : tensor<i32> }}"
        for value in (10, 20, 30)
    )
    text = f"""
    func.func @main(%i: tensor<i32>) -> tensor<i32> {{
      %0 = "stablehlo.case"(%i) ({branches}) : (tensor<i32>) -> tensor<i32>
      return %0 : tensor<i32>
    }}"""
    assert run(text, np.array(index, np.int32))[0] == expected


COLLATZ = """
func.func @main(%n: tensor<i64>, %one: tensor<i64>) -> tensor<i64> {
  %zero = stablehlo.constant dense<0> : tensor<i64>
  %two = stablehlo.constant dense<2> : tensor<i64>
  %three = stablehlo.constant dense<3> : tensor<i64>
  %r:2 = stablehlo.while(%a = %n, %steps = %zero) : tensor<i64>, tensor<i64>
  cond {
    %again = stablehlo.compare NE, %a, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    %bit = stablehlo.remainder %a, %two : tensor<i64>
    %odd = stablehlo.compare EQ, %bit, %one : (tensor<i64>, tensor<i64>) -> tensor<i1>
    %next = "stablehlo.if"(%odd) ({
      %m = stablehlo.multiply %a, %three : tensor<i64>
      %u = stablehlo.add %m, %one : tensor<i64>
      stablehlo.return %u : tensor<i64>
    }, {
      %h = stablehlo.divide %a, %two : tensor<i64>
      stablehlo.return %h : tensor<i64>
    }) : (tensor<i1>) -> tensor<i64>
    %count = stablehlo.add %steps, %one : tensor<i64>
    stablehlo.return %next, %count : tensor<i64>, tensor<i64>
  }
  return %r#1 : tensor<i64>
}"""


@pytest.mark.parametrize(("start", "steps"), [(1, 0), (2, 1), (27, 111)])
def test_while_runs_until_its_condition_fails_and_branches_nest(start: int, steps: int):
    assert run(COLLATZ, np.array(start), np.array(1)) == [steps]


def test_a_call_inside_of_a_branch_runs_there():
    text = """
    func.func private @twice(%x: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.add %x, %x : tensor<f32>
      return %0 : tensor<f32>
    }
    func.func @main(%p: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
      %0 = "stablehlo.if"(%p) ({
        %1 = func.call @twice(%x) : (tensor<f32>) -> tensor<f32>
        stablehlo.return %1 : tensor<f32>
      }, {
        stablehlo.return %x : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      return %0 : tensor<f32>
    }"""
    assert run(text, np.array(True), np.array(3.0, np.float32)) == [6.0]


def test_an_op_without_semantics_inside_of_a_branch_is_named():
    text = """
    func.func @main(%p: tensor<i1>) -> tensor<i1> {
      %0 = "stablehlo.if"(%p) ({
        %1 = stablehlo.custom_call @magic(%p) : (tensor<i1>) -> tensor<i1> loc("deep/inside")
        stablehlo.return %1 : tensor<i1>
      }, {
        stablehlo.return %p : tensor<i1>
      }) : (tensor<i1>) -> tensor<i1>
      return %0 : tensor<i1>
    }"""
    with pytest.raises(UnsupportedError, match=r"stablehlo.custom_call 'deep/inside': found a call of 'magic'"):
        Interpreter(parse_program(text))


def test_map_applies_its_body_to_every_element():
    text = """
    func.func @main(%x: tensor<2x2xi32>, %y: tensor<2x2xi32>) -> (tensor<2x2xi1>, tensor<2x2xi32>) {
      %0 = "stablehlo.map"(%x, %y) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%a: tensor<i32>, %b: tensor<i32>):
        %c = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      }) : (tensor<2x2xi32>, tensor<2x2xi32>) -> tensor<2x2xi1>
      %1 = "stablehlo.map"(%x) <{dimensions = array<i64: 0, 1>}> ({
      ^bb0(%a: tensor<i32>):
        %c = stablehlo.constant dense<7> : tensor<i32>
        stablehlo.return %c : tensor<i32>
      }) : (tensor<2x2xi32>) -> tensor<2x2xi32>
      return %0, %1 : tensor<2x2xi1>, tensor<2x2xi32>
    }"""
    x = np.array([[1, 5], [3, 4]], np.int32)
    less, sevens = run(text, x, x.T.copy())
    assert less.tolist() == [[False, False], [True, False]]
    assert sevens.tolist() == [[7, 7], [7, 7]]


def test_tuples_hold_values_in_order():
    text = """
    func.func @main(%x: tensor<2xf32>, %n: tensor<i64>) -> (tensor<i64>, tensor<2xf32>) {
      %0 = stablehlo.tuple %n : tuple<tensor<i64>>
      %1 = stablehlo.tuple %x, %0 : tuple<tensor<2xf32>, tuple<tensor<i64>>>
      %2 = stablehlo.get_tuple_element %1[1] : (tuple<tensor<2xf32>, tuple<tensor<i64>>>) -> tuple<tensor<i64>>
      %3 = stablehlo.get_tuple_element %2[0] : (tuple<tensor<i64>>) -> tensor<i64>
      %4 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<2xf32>, tuple<tensor<i64>>>) -> tensor<2xf32>
      %5, %6 = stablehlo.optimization_barrier %3, %4 : tensor<i64>, tensor<2xf32>
      %7 = stablehlo.after_all : !stablehlo.token
      %8 = stablehlo.after_all %7, %7 : !stablehlo.token
      return %5, %6 : tensor<i64>, tensor<2xf32>
    }"""
    count, values = run(text, np.array([1.0, 2.0], np.float32), np.array(3))
    assert count == 3
    assert values.tolist() == [1.0, 2.0]

"""Checks: what they let pass, and what they say of the rest."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from zeropoint.interp import CheckFailed, Interpreter
from zeropoint.interp.checks import almost_equal, close, equal
from zeropoint.ir.text import parse_program, print_program

FORMS = [
    "check.expect_eq %x, %x : tensor<3xi64>",
    "check.expect_eq_const %x, dense<[-2, 0, 2]> : tensor<3xi64>",
    "check.expect_almost_eq %f, %f : tensor<2xf32>",
    "check.expect_almost_eq %f, %f, tolerance = 1.000000e-01 : tensor<2xf32>",
    "check.expect_almost_eq_const %f, dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>",
    "check.expect_almost_eq_const %f, dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32> "
    "{tolerance = 1.000000e-01 : f64}",
    "check.expect_close %f, %f, max_ulp_difference = 3 : tensor<2xf32>, tensor<2xf32>",
    "check.expect_close %f, %f, max_ulp_difference = 3, min_ulp_difference = 1 : tensor<2xf32>, tensor<2xf32>",
    'check.expect_serialized_eq %f, probe_id = "probe/0" : tensor<2xf32>',
]


def program(line: str) -> str:
    return f"""func.func @checks(%x: tensor<3xi64>, %f: tensor<2xf32>) {{
      {line}
      return
    }}"""


@pytest.mark.parametrize("line", FORMS)
def test_text_and_generic_form_read_back_the_same(line: str):
    parsed = parse_program(program(line))
    printed = print_program(parsed)
    assert line in printed
    assert print_program(parse_program(printed)) == printed
    assert print_program(parse_program(print_program(parsed, generic=True))) == printed


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (
            '"check.expect_eq"(%x, %f) : (tensor<3xi64>, tensor<2xf32>) -> ()',
            "failed to verify that all of {lhs, rhs} have same type",
        ),
        (
            '"check.expect_eq_const"(%x) <{value = dense<1> : tensor<i64>}> : (tensor<3xi64>) -> ()',
            "failed to verify that all of {lhs, value} have same type",
        ),
    ],
)
def test_sides_of_two_types_are_refused(line: str, sentence: str):
    with pytest.raises(VerifyException) as error:
        parse_program(program(line))
    assert sentence in str(error.value)


def test_equal_takes_nan_for_nan_and_the_zeros_for_one():
    found = np.array([np.nan, 0.0, 1.0, np.inf, np.nan], np.float32)
    expected = np.array([np.nan, -0.0, 2.0, -np.inf, 1.0], np.float32)
    assert equal(found, expected).tolist() == [True, True, False, False, False]


def test_almost_equal_keeps_the_sign_and_the_tolerance():
    found = np.array([1.0, 1.0, 0.0, -0.0001, np.nan, np.inf, 0.0])
    expected = np.array([1.001, 1.0011, -0.0, 0.0001, np.nan, np.inf, 0.0005])
    assert almost_equal(0.001)(found, expected).tolist() == [True, False, True, False, True, True, True]


def test_close_counts_the_floats_between():
    one = np.float32(1.0)
    above = [one, np.nextafter(one, np.float32(2)), np.float32(1.0 + 4 * 2**-23), np.float32(np.inf), np.float32(0)]
    found, expected = np.array(above), np.array([1.0, 1.0, 1.0, np.inf, -0.0], np.float32)
    assert close(0, 3)(found, expected).tolist() == [True, True, False, True, True]
    assert close(1, 3)(found, expected).tolist() == [False, True, False, False, False]
    smallest = np.array([np.nextafter(np.float32(0), np.float32(1))])
    assert close(0, 2)(smallest, -smallest).tolist() == [True]
    assert close(0, 1)(smallest, -smallest).tolist() == [False]


def failure(text: str) -> str:
    with pytest.raises(CheckFailed) as error:
        Interpreter(parse_program(text, "file.mlir")).run_values([])
    return str(error.value)


def test_a_check_that_fails_names_function_op_place_found_and_expected():
    text = """func.func @sums() {
      %c = stablehlo.constant dense<[1, 2, 3]> : tensor<3xi32>
      %sum = stablehlo.add %c, %c : tensor<3xi32>
      check.expect_eq_const %sum, dense<[2, 5, 6]> : tensor<3xi32>
      return
    }"""
    assert failure(text) == (
        "@sums: check.expect_eq_const at file.mlir:4:7: 1 of 3 elements of %sum differ: [1]: found 4, expected 5"
    )


def test_many_differences_are_counted():
    text = """func.func @main() {
      %0 = stablehlo.constant dense<0.0> : tensor<2x8xf32>
      check.expect_almost_eq_const %0, dense<1.0> : tensor<2x8xf32> loc("here")
      return
    }"""
    assert failure(text) == (
        "@main: check.expect_almost_eq_const 'here': 16 of 16 elements differ: [0, 0]: found 0.0, expected 1.0; "
        "[0, 1]: found 0.0, expected 1.0; [0, 2]: found 0.0, expected 1.0; and 13 more"
    )


def test_a_check_inside_of_a_branch_fails_the_run():
    text = """func.func @main() {
      %p = stablehlo.constant dense<true> : tensor<i1>
      "stablehlo.if"(%p) ({
        check.expect_eq_const %p, dense<false> : tensor<i1>
        stablehlo.return
      }, {
        stablehlo.return
      }) : (tensor<i1>) -> ()
      return
    }"""
    assert "1 of 1 elements of %p differ: []: found True, expected False" in failure(text)


@pytest.mark.parametrize("arguments", ["(%c, %sum)", "(%sum, %c)"])
def test_a_custom_call_checks_whichever_side_the_constant_is_on(arguments: str):
    text = f"""func.func @main(%x: tensor<2xi32>) -> tensor<i1> {{
      %c = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
      %sum = stablehlo.add %x, %x : tensor<2xi32>
      %0 = stablehlo.custom_call @check.eq{arguments} : (tensor<2xi32>, tensor<2xi32>) -> tensor<i1>
      return %0 : tensor<i1>
    }}"""
    interpreter = Interpreter(parse_program(text))
    with pytest.raises(
        CheckFailed, match=r"2 of 2 elements of %sum differ: \[0\]: found 6, expected 1; \[1\]: found 8"
    ):
        interpreter.run_values([np.array([3, 4], np.int32)])

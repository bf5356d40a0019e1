"""The ops of the chlo dialect: text, verification, meaning."""

from __future__ import annotations

import math

import numpy as np
import pytest
from xdsl.utils.exceptions import VerifyException

from zeropoint.interp import run
from zeropoint.ir.text import parse_program, print_program

ERF = "  %0 = chlo.erf %x : tensor<5xf32> -> tensor<5xf32>\n  return %0 : tensor<5xf32>\n"
PROGRAM = "func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {\n" + ERF + "}\n"
GENERIC = '%0 = "chlo.erf"(%x) : (tensor<5xf32>) -> tensor<5xf32>'


def test_erf_prints_as_it_was_written_in_both_forms() -> None:
    assert "chlo.erf %x : tensor<5xf32> -> tensor<5xf32>" in print_program(parse_program(PROGRAM))
    assert '"chlo.erf"(%x) : (tensor<5xf32>) -> tensor<5xf32>' in print_program(parse_program(PROGRAM), generic=True)
    short = "chlo.erf %x : tensor<5xf32> -> tensor<5xf32>"
    assert "chlo.erf %x :" in print_program(parse_program(PROGRAM.replace(f"%0 = {short}", GENERIC)))


def test_erf_is_the_error_function() -> None:
    points = np.array([-3.0, -0.5, 0.0, 0.25, 2.0], np.float32)
    expected = np.array([math.erf(x) for x in points.tolist()], np.float32)
    (found,) = run(parse_program(PROGRAM), {"arg0": points}).values()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("types", "message"),
    [
        ("(tensor<5xi32>) -> tensor<5xi32>", "operand #0 must be a tensor of floats, but got 'tensor<5xi32>'"),
        ("(tensor<5xf32>) -> tensor<4xf32>", "requires the same type for all operands and results"),
    ],
)
def test_erf_of_other_types_is_refused(types: str, message: str) -> None:
    operand = types[1 : types.index(")")]
    text = f'"func.func"() ({{^bb0(%x: {operand}): %0 = "chlo.erf"(%x) : {types}\n "func.return"() : () -> () }}) '
    header = f'{{sym_name = "main", function_type = ({operand}) -> ()}} : () -> ()'
    with pytest.raises(VerifyException, match=message.replace("(", r"\(")):
        parse_program(text + header)

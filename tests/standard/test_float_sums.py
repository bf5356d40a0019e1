"""Sums and products of floats in standard form: the interpreter's order, whoever runs the program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from oracle import mlir
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.standard import lower_to_loops, lower_to_standard

FLOATS = ["f16", "bf16", "f32", "f64"]


def tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{'x'.join([*map(str, shape), element])}>"


def reduction(element: str, op: str, shape: Sequence[int], dims: Sequence[int]) -> Program:
    x, y = tensor(shape, element), tensor([n for i, n in enumerate(shape) if i not in dims], element)
    return parse_program(f"""func.func @main(%x: {x}, %v: tensor<{element}>) -> {y} {{
      %y = stablehlo.reduce(%x init: %v) applies stablehlo.{op} across dimensions = {list(dims)}
        : ({x}, tensor<{element}>) -> {y}
      return %y : {y}
    }}""")


def window(element: str, op: str) -> Program:
    x, y, scalar = tensor([2, 9, 7], element), tensor([2, 5, 4], element), f"tensor<{element}>"
    return parse_program(f"""func.func @main(%x: {x}, %v: {scalar}) -> {y} {{
      %y = "stablehlo.reduce_window"(%x, %v) <{{window_dimensions = array<i64: 1, 3, 4>,
          window_strides = array<i64: 1, 4, 2>, base_dilations = array<i64: 1, 2, 1>,
          window_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [0, 2], [1, 2]]> : tensor<3x2xi64>}}> ({{
        ^bb0(%a: {scalar}, %b: {scalar}):
          %r = stablehlo.{op} %a, %b : {scalar}
          stablehlo.return %r : {scalar}
      }}) : ({x}, {scalar}) -> {y}
      return %y : {y}
    }}""")


PROGRAMS: dict[str, Callable[[str, str], Program]] = {
    "short": lambda element, op: reduction(element, op, (3, 9), (1,)),
    "two dimensions": lambda element, op: reduction(element, op, (7, 5, 6), (0, 2)),
    "whole parts": lambda element, op: reduction(element, op, (32, 4), (0,)),
    "long": lambda element, op: reduction(element, op, (2, 301), (1,)),
    "one": lambda element, op: reduction(element, op, (2, 1), (1,)),
    "nothing": lambda element, op: reduction(element, op, (2, 0), (1,)),
    "windows": window,
}


def values(program: Program, spread: float) -> list[Array]:
    """Numbers of both signs of which every sum rounds, and some zeros of both signs."""
    random = np.random.default_rng(0)
    found: list[Array] = []
    for port in program.inputs:
        x = np.exp(random.normal(0, spread, shape_of(port.type))) * random.choice([-1, 1], shape_of(port.type))
        found.append(
            np.where(random.random(x.shape) < 0.05, np.copysign(0, x), x).astype(element_dtype(element_of(port.type)))
        )
    return found


def bits(array: Array) -> Array:
    return np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum"])
@pytest.mark.parametrize("element", FLOATS)
def test_the_order_of_float_sums_is_the_interpreters(element: str, op: str, name: str) -> None:
    program = PROGRAMS[name](element, op)
    given = values(program, 0.2 if op == "multiply" else 2)
    if op == "multiply":
        given = [np.where(x == 0, x + 1, x).astype(x.dtype) for x in given]
    (expected,) = Interpreter(program).run_values(given)
    forms = [lower_to_standard(program), lower_to_loops(program)]
    found = [Interpreter(form).run_values(given)[0] for form in forms]
    if mlir.installed():
        found.append(mlir.ORACLE.call(forms[0], [given])[0][0])
    for other in found:
        np.testing.assert_array_equal(bits(other), bits(expected))

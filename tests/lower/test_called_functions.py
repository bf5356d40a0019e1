"""Integers of functions that are called, and of composites: proved, explained and run as those of @main."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import LoweringError, lower
from zeropoint.report.explain import reaches
from zeropoint.standard import lower_to_loops, lower_to_standard

WORD, BYTE = "tensor<4xi32>", "tensor<4xi8>"
PARTS = f"""
func.func private @requantized(%n: {WORD}) -> {BYTE} {{
  %m = stablehlo.constant dense<1073741824> : tensor<1xi32>
  %k = stablehlo.constant dense<34> : tensor<1xi32>
  %r = "fxpmath.requantize"(%n, %m, %k) <{{behaviour = "fixed32", zero_point = 0 : i64, storage_min = -128 : i64,
    storage_max = 127 : i64}}> : ({WORD}, tensor<1xi32>, tensor<1xi32>) -> {BYTE}
  return %r : {BYTE}
}}
func.func private @square(%a: {WORD}) -> {WORD} {{
  %0 = stablehlo.multiply %a, %a : {WORD} loc("product")
  return %0 : {WORD}
}}
"""
SQUARES = {
    "a call": f"func.call @square(%a) : ({WORD}) -> {WORD}",
    "a composite": f'stablehlo.composite "my.square" %a {{decomposition = @square}} : ({WORD}) -> {WORD}',
    "a call in a loop": f"""stablehlo.while(%s = %a) : {WORD}
      cond {{
        %no = stablehlo.constant dense<false> : tensor<i1>
        stablehlo.return %no : tensor<i1>
      }} do {{
        %t = func.call @square(%s) : ({WORD}) -> {WORD}
        stablehlo.return %t : {WORD}
      }}""",
}


def program(element: str, square: str) -> Program:
    given = f"tensor<4x{element}>"
    return parse_program(f"""{PARTS}
      func.func @main(%x: {given}) -> {BYTE} {{
        %a = stablehlo.convert %x : ({given}) -> {WORD}
        %n = {square}
        %r = func.call @requantized(%n) : ({WORD}) -> {BYTE}
        return %r : {BYTE}
      }}""")


@pytest.mark.parametrize("kind", SQUARES)
def test_what_may_wrap_in_a_called_function_is_refused_and_shown(kind: str) -> None:
    given = program("i32", SQUARES[kind])
    with pytest.raises(LoweringError, match=r"product.*found products up to \d+, expected at most 2147483647 \(i32\)"):
        lower(given)
    assert [min(reach.headroom) < 0 for reach in reaches(given) if reach.what == "products"] == [True]


@pytest.mark.parametrize("kind", [kind for kind in SQUARES if "loop" not in kind])
def test_what_is_proved_in_a_called_function_is_kept(kind: str) -> None:
    given = program("i8", SQUARES[kind])
    lowered = lower(given)
    assert not [op for op in lowered.module.walk() if op.name in ("func.call", "stablehlo.composite")]
    x = np.array([-128, -11, 3, 127], np.int8)
    forms = (given, lowered, lower_to_standard(given), lower_to_loops(given))
    found = [Interpreter(each).run_values([x])[0].tolist() for each in forms]
    for each in (given, lowered):
        native = NativeProgram(each)
        found.append(native({native.inputs[0].name: x})["result0"].tolist())
    # n * n / 16, rounded and clamped.
    assert found == [[127, 8, 1, 127]] * 6

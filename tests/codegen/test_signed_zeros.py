"""0 and -0 are two constants: scalars and kernels that differ only in them are not computed once for both."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from codegen.exactness import assert_same_bits
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program

ZEROS = """
%z = stablehlo.constant dense<0.0> : T
%m = stablehlo.constant dense<-0.0> : T
%zero = stablehlo.constant dense<0.0> : tensor<f32>
%minus = stablehlo.constant dense<-0.0> : tensor<f32>
%one = stablehlo.constant dense<1.0> : tensor<f32>
"""
RELU = "stablehlo.maximum {0}, {1} : T"
ACROSS = "applies stablehlo.add across dimensions = [1] : (T, tensor<f32>) -> tensor<4xf32>"
WINDOW = """"stablehlo.reduce_window"(%x, {0}) <{{window_dimensions = array<i64: 1, 1>}}> ({{
    ^bb0(%p: tensor<f32>, %q: tensor<f32>):
      %s = stablehlo.add %p, %q : tensor<f32>
      stablehlo.return %s : tensor<f32>
  }}) : (T, tensor<f32>) -> T"""
PADDED = "stablehlo.pad %x, {0}, low = [0, 1], high = [0, -1], interior = [0, 0] : (T, tensor<f32>) -> T"
WEIGHTS = "%w = stablehlo.constant dense<1.0> : tensor<8x8xf32>\n"
PRODUCT = "stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (T, tensor<8x8xf32>) -> T"
PROGRAMS = {
    "an addend and a divisor": f"""
        %a = stablehlo.add %x, %m : T
        %b = stablehlo.divide %x, %z : T
        %u = {RELU.format("%a", "%b")}
        %v = stablehlo.negate %u : T""",
    "the bounds of a clamp": """
        %u = stablehlo.clamp %minus, %x, %zero : (tensor<f32>, T, tensor<f32>) -> T
        %v = stablehlo.clamp %zero, %x, %minus : (tensor<f32>, T, tensor<f32>) -> T""",
    "two nests": f"%u = {RELU.format('%x', '%z')}\n%v = {RELU.format('%x', '%m')}",
    "the bounds of two contractions": f"""{WEIGHTS}
        %c = {PRODUCT}
        %u = {RELU.format("%c", "%z")}
        %n = stablehlo.negate %x : T
        %d = {PRODUCT.replace("%x", "%n")}
        %v = {RELU.format("%d", "%m")}""",
    "two sums of rows": f"""
        %r = stablehlo.reduce(%x init: %zero) {ACROSS}
        %q = stablehlo.reduce(%x init: %minus) {ACROSS}
        %a = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<4xf32>) -> T
        %b = stablehlo.broadcast_in_dim %q, dims = [0] : (tensor<4xf32>) -> T
        %u = stablehlo.divide %a, %b : T
        %v = stablehlo.add %x, %b : T""",
    "two sums over windows": f"%u = {WINDOW.format('%zero')}\n%v = {WINDOW.format('%minus')}",
    "two paddings": f"%u = {PADDED.format('%zero')}\n%v = {PADDED.format('%minus')}",
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_zeros_of_both_signs_are_told_apart(name: str) -> None:
    body = (ZEROS + PROGRAMS[name]).replace(" T", " tensor<4x8xf32>").replace("(T", "(tensor<4x8xf32>")
    # 1 / 0 and 1 / -0 differ, so the results show the sign of every zero.
    text = f"""func.func @main(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {{
      {body}
      return %u, %v : tensor<4x8xf32>, tensor<4x8xf32> }}"""
    program = parse_program(text)
    x = np.resize(np.array([1, -1, 0.0, -0.0, 2, 3, np.nan], np.float32), (4, 8))
    x[1], x[2], x[3] = -0.0, 0.0, 1.0
    expected = Interpreter(program).run_values([x])
    for isa in ("portable", "avx2", "avx512-vnni"):
        for found, right in zip(NativeProgram(program, isa=EVERYWHERE[isa]).run_values([x]), expected, strict=True):
            assert_same_bits(found, right)


def test_a_loop_with_sums_from_both_zeros_runs() -> None:
    """Its body called a kernel that had been taken for another one, which ended in an internal error."""
    whole, number = "tensor<3x5xf32>", "tensor<5xf32>"
    add = f"applies stablehlo.add across dimensions = [0] : ({whole}, tensor<f32>) -> {number}"
    program = parse_program(f"""
      func.func @main(%x: {whole}) -> {whole} {{
        %z = stablehlo.constant dense<0> : tensor<i32>
        %l = stablehlo.constant dense<2> : tensor<i32>
        %o = stablehlo.constant dense<1> : tensor<i32>
        %L, %I = stablehlo.while(%a = %x, %i = %z) : {whole}, tensor<i32>
        cond {{
          %c = stablehlo.compare LT, %i, %l : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        }} do {{
          %s = stablehlo.constant dense<0.0> : tensor<f32>
          %m = stablehlo.constant dense<-0.0> : tensor<f32>
          %r = stablehlo.reduce(%a init: %s) {add}
          %q = stablehlo.reduce(%x init: %m) {add}
          %t = stablehlo.add %r, %q : {number}
          %y = stablehlo.broadcast_in_dim %t, dims = [1] : ({number}) -> {whole}
          %j = stablehlo.add %i, %o : tensor<i32>
          stablehlo.return %y, %j : {whole}, tensor<i32>
        }}
        return %L : {whole}
      }}""")
    x = np.full((3, 5), -0.0, np.float32)
    assert_same_bits(NativeProgram(program).run_values([x])[0], Interpreter(program).run_values([x])[0])

"""Reductions of quantized values: integers where sums cannot saturate, else the op itself, with the reason."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops


def q(storage: str, zero_point: int = 0, scale: float = 0.5) -> str:
    return f"!quant.uniform<{storage}:f32, {scale}:{zero_point}>"


I8, I16, I32, FINER = q("i8"), q("i16"), q("i32"), q("i32", 0, 0.25)


def combining(op: str, kind: str) -> str:
    return f"%0 = stablehlo.{op} %a, %b : tensor<{kind}>\nstablehlo.return %0 : tensor<{kind}>"


def through(kind: str, wide: str, cast: str) -> str:
    """A body that converts, adds and converts back."""
    arrow = ("(tensor<{}>) -> tensor<{}>" if cast.startswith("stablehlo") else "tensor<{}> to tensor<{}>").format
    return f"""%0 = {cast} %a : {arrow(kind, wide)}
      %1 = {cast} %b : {arrow(kind, wide)}
      %2 = stablehlo.add %0, %1 : tensor<{wide}>
      %3 = {cast} %2 : {arrow(wide, kind)}
      stablehlo.return %3 : tensor<{kind}>"""


SATURATES = "saturates at every step"
CASES = {
    "a maximum": (q("u8", 130), q("u8", 130), q("u8", 130), combining("maximum", q("u8", 130)), None),
    "a sum that fits": (I8, I8, I8, combining("add", I8), None),
    "a sum of 16 bits in 32": (I16, I32, I32, combining("add", I32), None),
    "a sum with a zero point in 32": (q("u8", 130), I32, I32, combining("add", I32), None),
    "a sum that saturates": (I16, I16, I16, combining("add", I16), SATURATES),
    "a narrower result": (I8, I32, I8, combining("add", I32), "it converts what its body gives"),
    "another scale": (
        I8,
        q("i32", 0, 0.25),
        q("i32", 0, 0.25),
        combining("add", q("i32", 0, 0.25)),
        "to another scale",
    ),
    "storage casts in the body": (I16, I16, I16, through(I16, "i16", "quant.scast"), "only a sum, a maximum"),
    "conversions in the body": (I8, I8, I8, through(I8, I32, "stablehlo.uniform_quantize"), "only a sum, a maximum"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_reduction_computes_the_same_before_and_after_lowering(case: str) -> None:
    kind, inside, result, body, reason = CASES[case]
    storage = kind.removeprefix("!quant.uniform<").split(":")[0]
    dtype = np.dtype(storage.replace("u", "uint").replace("i", "int") if storage[0] == "i" else "uint8")
    terms = 1 if case == "a sum that fits" else 300
    zero = int(kind.split(":")[-1][:-1])
    stored = zero - 256 if zero > 127 else zero
    text = f"""module attributes {{zeropoint.profile = "fixed32-double"}} {{
    func.func @main(%x: tensor<4x{terms}x{kind}>) -> tensor<4x{result}> {{
      %i = stablehlo.constant() <{{value = dense<{stored}> : tensor<i{8 * dtype.itemsize}>}}> : () -> tensor<{kind}>
      %r = "stablehlo.reduce"(%x, %i) <{{dimensions = array<i64: 1>}}> ({{
      ^bb0(%a: tensor<{inside}>, %b: tensor<{inside}>):
        {body}
      }}) : (tensor<4x{terms}x{kind}>, tensor<{kind}>) -> tensor<4x{result}>
      return %r : tensor<4x{result}>
    }}
    }}"""
    program = parse_program(text)
    lowered = lower(program)
    x = np.random.default_rng(0).integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (4, terms)).astype(dtype)
    x[0], x[1] = np.iinfo(dtype).max, np.iinfo(dtype).min
    np.testing.assert_array_equal(Interpreter(lowered).run_values([x])[0], Interpreter(program).run_values([x])[0])
    reasons = [text for _, text in float_ops(lowered)]
    assert reasons == [] if reason is None else len(reasons) == 1 and reason in reasons[0]

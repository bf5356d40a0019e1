"""Functions of 8- and 16-bit values in integers: every stored value, against the real function in f64.

The bound is half a step, plus what the f32 steps of the float program lose: a few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.report.counts import count_ops

Real = Callable[[np.ndarray], np.ndarray]
STEP = {8: 256.0, 16: 1.0}
"""Scales are those of 16 bits times this."""
HALF, ROOT = "dense<0.5>", f"dense<{math.sqrt(0.5)!r}>"
GELU = """%h = stablehlo.constant {half} : tensor<{n}xf32>
  %q = stablehlo.constant {root} : tensor<{n}xf32>
  %one = stablehlo.constant dense<1.0> : tensor<{n}xf32>
  %a = stablehlo.multiply %r, %q : tensor<{n}xf32>
  %b = chlo.erf %a : tensor<{n}xf32> -> tensor<{n}xf32>
  %c = stablehlo.add %b, %one : tensor<{n}xf32>
  %d = stablehlo.multiply %r, %h : tensor<{n}xf32>
  %y = stablehlo.multiply %d, %c : tensor<{n}xf32>"""
ONE = "%y = stablehlo.{op} %r : tensor<{n}xf32>"
RECIPROCAL = """%one = stablehlo.constant dense<1.0> : tensor<{n}xf32>
  %y = stablehlo.divide %one, %r : tensor<{n}xf32>"""
FUNCTIONS: dict[str, tuple[str, float, int, float, Real]] = {
    # ops, scale of the operand, its zero point over 2^15, scale of the result, the function
    "exp": (ONE.format(op="exponential", n="{n}"), 1e-4, 0, 5e-4, np.exp),
    "log": (ONE.format(op="log", n="{n}"), 1e-3, -1, 3e-4, np.log),
    "rsqrt": (ONE.format(op="rsqrt", n="{n}"), 1e-3, -1, 2e-3, lambda x: 1 / np.sqrt(x)),
    "reciprocal": (RECIPROCAL, 1e-3, -1, 2e-2, lambda x: 1 / x),
    "gelu": (GELU.replace("{half}", HALF).replace("{root}", ROOT), 2e-4, 0, 2e-4,
             lambda x: x / 2 * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5)))),
    "tanh": (ONE.format(op="tanh", n="{n}"), 1e-4, 0, 1 / 32768, np.tanh),
    "logistic": (ONE.format(op="logistic", n="{n}"), 3e-4, 0, 1 / 32768, lambda x: 1 / (1 + np.exp(-x))),
}  # fmt: skip


@pytest.mark.parametrize("profile", ["fixed16", "fixed32"])
@pytest.mark.parametrize("width", [8, 16])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_value_is_the_real_one_rounded(name: str, width: int, profile: str) -> None:
    body, scale, origin, step, real = FUNCTIONS[name]
    half = 1 << (width - 1)
    scale, step, zero = scale * STEP[width], step * STEP[width], origin * half
    n = 2 * half
    given, made = f"!quant.uniform<i{width}:f32, {scale!r}:{zero}>", f"!quant.uniform<i{width}:f32, {step!r}>"
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<{n}x{given}>) -> tensor<{n}x{made}> {{
      %r = stablehlo.uniform_dequantize %x : (tensor<{n}x{given}>) -> tensor<{n}xf32>
      {body.replace("{n}", str(n))}
      %z = stablehlo.uniform_quantize %y : (tensor<{n}xf32>) -> tensor<{n}x{made}>
      return %z : tensor<{n}x{made}> }} }}"""
    lowered = integer_program(parse_program(text))
    assert count_ops(lowered).floats == 0
    x = np.arange(-half, half).astype(f"i{width // 8}")
    (found,) = Interpreter(lowered).run_values([x])
    np.testing.assert_array_equal(found, Interpreter(parse_program(text)).run_values([x])[0])
    with np.errstate(all="ignore"):
        exact = real((x.astype(np.float64) - zero) * np.float64(np.float32(scale))) / np.float64(np.float32(step))
    inside = np.isfinite(exact) & (exact > -half) & (exact < half - 1)
    assert inside.sum() > n // 4
    error = np.abs(found.astype(np.float64) - exact)[inside]
    assert (error <= 0.5 + np.abs(exact[inside]) * 2.0**-21).all()
    if profile == "fixed16":
        (native,) = NativeProgram(lowered)({lowered.inputs[0].name: x}).values()
        np.testing.assert_array_equal(native, found)

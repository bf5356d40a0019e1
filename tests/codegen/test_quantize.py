"""`uniform_quantize` of floats that are computed: every bit, on ties, bounds and numbers that are none."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr

from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import main
from zeropoint.ir.annotations import PROFILE
from zeropoint.ir.tensors import Array

ALL_ONES = float(np.float32(2 - 2**-23) / 64)
"""A significand whose reciprocal does not give the quotient."""


def reals(scale: float, zero: int) -> Array:
    """Quotients at and beside all ties and integers, beyond the bounds, tiny, infinite, NaN."""
    random = np.random.default_rng(0)
    steps = (np.arange(-300, 300) / 2 - zero) * scale
    exact = steps.astype(np.float32)
    near = np.concatenate([exact, np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)])  # fmt: skip
    far = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 3e38, -3e38, 1e-38, 1e-45, -1e-45], np.float32)
    return np.concatenate([near, far, (random.normal(0, 100 * scale, 1000)).astype(np.float32)])


@pytest.mark.parametrize("stored", ["i8", "i16", "i8<-127:127>"])
@pytest.mark.parametrize(
    ("scale", "zero"), [(0.1, 0), (1 / 255, -128), (0.0078125, 127), (ALL_ONES, 3), (1e-30, -7), (1e30, 1)]
)
def test_computed_floats_are_quantized_exactly(stored: str, scale: float, zero: int) -> None:
    if "-127" in stored and zero < -127:
        zero = -127
    x = reals(scale, zero)
    real, quantized = f"tensor<{x.size}xf32>", f"tensor<{x.size}x!quant.uniform<{stored}:f32, {scale:.17e}:{zero}>>"
    program = main(
        f"%x: {real}", quantized, f"%n = stablehlo.negate %x : {real}",
        f"%y = stablehlo.uniform_quantize %n : ({real}) -> {quantized}",
    )  # fmt: skip
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": -x}], isa)


@pytest.mark.parametrize("stored", ["i8", "i8<0:15>", "u8<0:15>", "i16<-100:100>"])
def test_floats_are_quantized_by_the_range_of_the_type_under_openvino(stored: str) -> None:
    x = reals(0.037, 3)
    real, quantized = f"tensor<{x.size}xf32>", f"tensor<{x.size}x!quant.uniform<{stored}:f32, 0.037:3>>"
    program = main(
        f"%x: {real}", quantized, f"%n = stablehlo.negate %x : {real}",
        f"%y = stablehlo.uniform_quantize %n : ({real}) -> {quantized}",
    )  # fmt: skip
    program.module.attributes[PROFILE] = StringAttr("openvino")
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": -x}], isa)

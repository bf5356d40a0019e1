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


SCALES = [(0.1, 0), (1 / 255, -127), (0.0078125, 127), (ALL_ONES, 3), (1e-30, -7), (1e30, 1)]


@pytest.mark.parametrize("stored", ["i8", "i16", "i8<-127:127>"])
@pytest.mark.parametrize("profile", ["stablehlo", "fixed32", "fixed32-double", "onnxruntime", "xnnpack", "openvino"])
def test_computed_floats_are_quantized_exactly(profile: str, stored: str) -> None:
    inputs = [reals(scale, zero) for scale, zero in SCALES]
    size, lines = inputs[0].size, list[str]()
    real, joined = f"tensor<{size}xf32>", f"tensor<{len(SCALES) * size}xi{8 if 'i8' in stored else 16}>"
    for n, (scale, zero) in enumerate(SCALES):
        kind = f"!quant.uniform<{stored}:f32, {scale:.17e}:{zero}>"
        integers = f"tensor<{size}x{stored.split('<')[0]}>"
        lines += [
            f"%n{n} = stablehlo.negate %x{n} : {real}",
            f"%q{n} = stablehlo.uniform_quantize %n{n} : ({real}) -> tensor<{size}x{kind}>",
            f"%s{n} = quant.scast %q{n} : tensor<{size}x{kind}> to {integers}",
        ]
    every = range(len(SCALES))
    lines.append(f"%y = stablehlo.concatenate {', '.join(f'%s{n}' for n in every)}, dim = 0 : "
                 f"({', '.join(integers for _ in every)}) -> {joined}")  # fmt: skip
    program = main(", ".join(f"%x{n}: {real}" for n in every), joined, *lines)
    program.module.attributes[PROFILE] = StringAttr(profile)
    for isa in HERE:
        assert_native_is_exact(program, [{f"arg{n}": -x for n, x in enumerate(inputs)}], isa)


@pytest.mark.parametrize("bits", [22, 23, 24])
def test_storage_of_more_bits_than_a_sum_rounds_is_exact(bits: int) -> None:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    x = np.linspace(1.2 * low, 1.2 * high, 999).astype(np.float32)
    real, quantized = f"tensor<{x.size}xf32>", f"tensor<{x.size}x!quant.uniform<i32<{low}:{high}>:f32, 1.0>>"
    program = main(
        f"%x: {real}", quantized, f"%n = stablehlo.negate %x : {real}",
        f"%y = stablehlo.uniform_quantize %n : ({real}) -> {quantized}",
    )  # fmt: skip
    program.module.attributes[PROFILE] = StringAttr("fixed32")
    assert_native_is_exact(program, [{"arg0": -x}], HERE[0])


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


@pytest.mark.parametrize("zero", [0, 127, 200, 255])
@pytest.mark.parametrize("profile", ["float32-rne", "xnnpack", "openvino"])
def test_integers_above_127_that_stay_in_registers_are_exact(profile: str, zero: int) -> None:
    kind = f"tensor<8x64x!quant.uniform<u8:f32, 0.05:{zero}>>"
    real = "tensor<8x64xf32>"
    program = main(
        f"%x: {real}", real, f"%q = stablehlo.uniform_quantize %x : ({real}) -> {kind}",
        f"%d = stablehlo.uniform_dequantize %q : ({kind}) -> {real}", f"%y = stablehlo.exponential %d : {real}",
    )  # fmt: skip
    program.module.attributes[PROFILE] = StringAttr(profile)
    x = (np.linspace(-20, 275, 8 * 64).reshape(8, 64) - zero).astype(np.float32) * np.float32(0.05)
    for isa in HERE:
        assert_native_is_exact(program, [{"arg0": x}], isa)

"""Matrix products with weights of 4 bits, with a scale and zero point per column or per block, in integers."""

from __future__ import annotations

import numpy as np
import pytest

from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.errors import Error
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.quant import UniformQuantizedType
from zeropoint.ir.quant.evaluate import dequantize
from zeropoint.ir.tensors import element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import InvalidProgram
from zeropoint.lower import integer_program
from zeropoint.quant_passes import strip_func_quant_types
from zeropoint.report.counts import count_ops
from zeropoint.standard import expand_fxpmath, lower_to_standard

M, K, N = 5, 12, 3
BYTES, WORDS = "!quant.uniform<i8:f32, 0.05:-7>", "!quant.uniform<i16:f32, 0.0002>"
WEIGHTS = {
    "4 bits, one scale": "i4:f32, 0.03",
    "4 bits, columns": "i4:f32:1, {0.03,0.011,0.5}",
    "8 bits, columns with zero points": "i8:f32:1, {0.03:3,0.011:-5,0.5}",
    "4 bits, blocks of 4 rows": "i4:f32:{0:4, 1:1}, {{0.03, 0.011, 0.5}, {0.06, 0.07, 0.01}, {0.02, 0.03, 0.031}}",
    "8 bits, blocks of 6 rows": "i8:f32:{0:6}, {{0.03}, {0.011}}",
    "4 bits, blocks with zero points": "i4:f32:{0:6, 1:3}, {{0.03:2}, {0.011:-3}}",
    "16 bits, blocks": "i16:f32:{0:6}, {{0.0003}, {0.00011}}",
    "16 bits, blocks with zero points at the ends": "i16:f32:{0:6}, {{0.0003:-32768}, {0.00011:32767}}",
}


def program(kind: str, given: str = BYTES, bias: str = "!quant.uniform<i32:f32, 0.001>", profile: str = "fixed32"):
    width = int(kind[1:].partition(":")[0])
    half = 1 << (width - 1)
    stored = np.random.default_rng(1).integers(-half, half, (K, N))
    rows = ", ".join(str(row.tolist()) for row in stored)
    w = f"!quant.uniform<{kind}>"
    types = f"(tensor<{M}x{K}x{given}>, tensor<{K}x{N}x{w}>, tensor<{N}x{bias}>)"
    text = f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<{M}x{K}x{given}>, %b: tensor<{N}x{bias}>) -> tensor<{M}x{N}x{BYTES}> {{
      %q = stablehlo.constant dense<[{rows}]> : tensor<{K}x{N}xi{width}>
      %w = quant.scast %q : tensor<{K}x{N}xi{width}> to tensor<{K}x{N}x{w}>
      %y = "fxpmath.real_matmul_bias"(%x, %w, %b) <{{clamp_min = -6.0 : f64}}> : {types} -> tensor<{M}x{N}x{BYTES}>
      return %y : tensor<{M}x{N}x{BYTES}> }} }}"""
    return parse_program(text), stored


def arguments(program: Program) -> list[np.ndarray]:
    random, found = np.random.default_rng(2), list[np.ndarray]()
    for port in program.inputs:
        kind = port.type.get_element_type()
        assert isinstance(kind, UniformQuantizedType)
        width = kind.storage.type.width
        reach = min(1 << (width - 1), 3000)
        found.append(random.integers(-reach, reach, port.type.get_shape()).astype(f"i{width // 8}"))
    return found


@pytest.mark.parametrize("profile", ["fixed16", "fixed32", "fixed32-double"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_every_form_has_the_same_bits(weights: str, profile: str) -> None:
    given = WORDS if weights.startswith("16") else BYTES
    before, _ = program(WEIGHTS[weights], given, profile=profile)
    arrays = arguments(before)
    (expected,) = Interpreter(before).run_values(arrays)
    lowered = strip_func_quant_types(integer_program(before))
    assert count_ops(lowered).floats == 0
    for form in (lowered, expand_fxpmath(lowered), lower_to_standard(lowered)):
        np.testing.assert_array_equal(Interpreter(form).run_values(arrays)[0], expected)
    if profile == "fixed16":
        feed = {port.name: array for port, array in zip(lowered.inputs, arrays, strict=True)}
        np.testing.assert_array_equal(next(iter(NativeProgram(lowered)(feed).values())), expected)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_results_are_those_of_real_numbers_to_half_a_step(weights: str) -> None:
    """And the rescaled bias and the sum of blocks are each rounded, to half a unit of the products' scale."""
    given = WORDS if weights.startswith("16") else BYTES
    before, stored = program(WEIGHTS[weights], given)
    x, b = arguments(before)
    ports = [port.type.get_element_type() for port in before.inputs]
    (cast,) = [op for op in before.entry.ops if op.name == "quant.scast"]
    kinds = [ports[0], element_of(cast.results[0]), ports[1]]
    real = [dequantize(q, kind, expressed=np.float64) for q, kind in zip((x, stored, b), kinds, strict=True)]
    exact = np.clip((real[0] @ real[1] + real[2]) / 0.05 - 7, max(-128, -6 / 0.05 - 7), 127)
    (found,) = Interpreter(before).run_values([x, b])
    unit = kinds[0].scale * kinds[1].scales.max() / 0.05
    assert np.abs(found - exact).max() < 0.5 + unit + 0.02


def test_a_constant_of_4_bits_stays_so_and_is_converted() -> None:
    before, _ = program(WEIGHTS["4 bits, blocks of 4 rows"])
    made = [result for op in integer_program(before).entry.ops for result in op.results]
    assert [tuple(shape_of(result)) for result in made if str(element_of(result)) == "i4"] == [(3, 4, N)]


def sums(kind: str, scales: str) -> tuple[Program, np.ndarray]:
    """The sums of products, of i32 with the scales `scales`."""
    stored, w = program(kind)[1], f"!quant.uniform<{kind}>"
    rows = ", ".join(str(row.tolist()) for row in stored)
    text = f"""func.func @main(%x: tensor<{M}x{K}x{BYTES}>) -> tensor<{M}x{N}x!quant.uniform<{scales}>> {{
      %q = stablehlo.constant dense<[{rows}]> : tensor<{K}x{N}xi4>
      %w = quant.scast %q : tensor<{K}x{N}xi4> to tensor<{K}x{N}x{w}>
      %y = "fxpmath.real_matmul"(%x, %w)
         : (tensor<{M}x{K}x{BYTES}>, tensor<{K}x{N}x{w}>) -> tensor<{M}x{N}x!quant.uniform<{scales}>>
      return %y : tensor<{M}x{N}x!quant.uniform<{scales}>> }}"""
    return parse_program(text), stored


def test_sums_of_blocks_are_those_of_exact_integers() -> None:
    """The sum over the blocks of F (sum of products), F = round(2^15 s / greatest s), rounded once, ties up."""
    scales = [[0.03, 0.011, 0.5], [0.06, 0.07, 0.01], [0.02, 0.03, 0.031]]
    products = ",".join(repr(0.05 * max(float(np.float32(row[n])) for row in scales)) for n in range(N))
    before, stored = sums(WEIGHTS["4 bits, blocks of 4 rows"], f"i32:f32:1, {{{products}}}")
    (x,) = arguments(before)
    expected = np.zeros((M, N), np.int64)
    for m in range(M):
        for n in range(N):
            greatest = max(float(np.float32(row[n])) for row in scales)
            total = 0
            for b, row in enumerate(scales):
                factor = round(float(np.float32(row[n])) / greatest * 2**15)
                total += factor * sum((int(x[m, k]) + 7) * int(stored[k, n]) for k in range(4 * b, 4 * b + 4))
            expected[m, n] = (total + 2**14) >> 15
    lowered = strip_func_quant_types(integer_program(before, "fixed16"))
    for form in (before, lowered):
        np.testing.assert_array_equal(Interpreter(form).run_values([x])[0], expected)
    np.testing.assert_array_equal(next(iter(NativeProgram(lowered)({lowered.inputs[0].name: x}).values())), expected)


@pytest.mark.parametrize("scales", ["i32:f32, 0.5", "i32:f32:0, {1.0,1.0,1.0,1.0,1.0}", "i32:f32:1, {0.1,0.2,0.3:1}"])
def test_sums_of_another_scale_are_refused(scales: str) -> None:
    with pytest.raises(InvalidProgram, match="a result of i32 must have the scales of the products, zero point 0, no"):
        sums(WEIGHTS["4 bits, blocks of 4 rows"], scales)


def test_blockwise_weights_that_are_computed_are_refused() -> None:
    w = f"!quant.uniform<{WEIGHTS['8 bits, blocks of 6 rows']}>"
    types = f"(tensor<{M}x{K}x{BYTES}>, tensor<{K}x{N}x{w}>)"
    text = f"""func.func @main(%x: tensor<{M}x{K}x{BYTES}>, %w: tensor<{K}x{N}x{w}>) -> tensor<{M}x{N}x{BYTES}> {{
      %y = "fxpmath.real_matmul"(%x, %w) : {types} -> tensor<{M}x{N}x{BYTES}>
      return %y : tensor<{M}x{N}x{BYTES}> }}"""
    with pytest.raises(Error, match="found blockwise weights that are not constant, expected a constant"):
        integer_program(parse_program(text), "fixed32")


def test_scales_per_row_are_refused() -> None:
    with pytest.raises(
        InvalidProgram, match="rhs must be a tensor of floats, or of i4 or i8 or i16 with one scale, or"
    ):
        program(f"i8:f32:0, {{{','.join(['0.5'] * K)}}}")

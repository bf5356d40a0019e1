"""Products with weights in blocks are one kernel, with the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import compiled
from codegen.machines import runs_here
from zeropoint.codegen.group import group
from zeropoint.codegen.llvm.processors import instruction_set
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program
from zeropoint.lower import integer_program
from zeropoint.quant_passes import strip_func_quant_types

HERE = [name for name in ("avx512-vnni", "avx-vnni", "avx2", "portable") if runs_here(name)]


def program(shape: tuple[int, int, int], rows: int, bits: int, *, zero: int = -9, profile: str = "fixed16") -> Program:
    """A product of m x k i8 with k x n weights in blocks of `rows`, with a bias."""
    m, k, n = shape
    random = np.random.default_rng(k * n + rows)
    half = 1 << (bits - 1)
    stored = random.integers(-half, half, (k, n))
    scales = np.exp(random.normal(-4, 1, (k // rows, n)))
    blocks = ", ".join("{" + ", ".join(f"{scale:.8}" for scale in row) + "}" for row in scales)
    x, y = f"!quant.uniform<i8:f32, 0.05:{zero}>", f"!quant.uniform<i8:f32, {0.05 * np.sqrt(k) * half / 80:.6}:5>"
    w, b = f"!quant.uniform<i{bits}:f32:{{0:{rows}, 1:1}}, {{{blocks}}}>", "!quant.uniform<i32:f32, 0.001>"
    bias = ", ".join(map(str, random.integers(-3000, 3000, n)))
    weights = ", ".join(str(row.tolist()) for row in stored)
    return parse_program(f"""module attributes {{zeropoint.profile = "{profile}"}} {{
      func.func @main(%x: tensor<{m}x{k}x{x}>) -> tensor<{m}x{n}x{y}> {{
        %q = stablehlo.constant dense<[{weights}]> : tensor<{k}x{n}xi{bits}>
        %w = quant.scast %q : tensor<{k}x{n}xi{bits}> to tensor<{k}x{n}x{w}>
        %p = stablehlo.constant dense<[{bias}]> : tensor<{n}xi32>
        %b = quant.scast %p : tensor<{n}xi32> to tensor<{n}x{b}>
        %y = "fxpmath.real_matmul_bias"(%x, %w, %b)
           : (tensor<{m}x{k}x{x}>, tensor<{k}x{n}x{w}>, tensor<{n}x{b}>) -> tensor<{m}x{n}x{y}>
        return %y : tensor<{m}x{n}x{y}> }} }}""")


@pytest.mark.parametrize("isa", HERE)
@pytest.mark.parametrize(
    ("shape", "rows", "bits", "zero", "profile"),
    [
        ((7, 64, 37), 32, 4, -9, "fixed16"),
        ((4, 24, 5), 4, 8, 127, "fixed32"),
        ((5, 160, 16), 80, 8, -128, "fixed16"),
        ((3, 264, 9), 88, 4, 0, "fixed32-double"),
    ],
)
def test_one_kernel_computes_the_interpreters_bits(
    shape: tuple[int, int, int], rows: int, bits: int, zero: int, profile: str, isa: str
) -> None:
    quantized = program(shape, rows, bits, zero=zero, profile=profile)
    lowered = strip_func_quant_types(integer_program(quantized))
    kernels = [op.kind.data for op in group(lowered, isa=isa).entry.ops if isinstance(op, KernelOp)]
    assert kernels == ["contraction"]
    x = np.random.default_rng(0).integers(-128, 128, shape[:2]).astype(np.int8)
    x[0] = 127
    x[-1] = -128
    expected = Interpreter(quantized).run_values([x])[0]
    assert len(np.unique(expected)) > 2
    found = compiled(lowered, instruction_set(isa=isa))({lowered.inputs[0].name: x})
    np.testing.assert_array_equal(next(iter(found.values())), expected)


def test_blocks_that_are_no_multiple_of_four_terms_are_computed_apart() -> None:
    quantized = program((5, 24, 6), 6, 8)
    lowered = strip_func_quant_types(integer_program(quantized))
    kernels = [op.kind.data for op in group(lowered, isa="portable").entry.ops if isinstance(op, KernelOp)]
    assert "contraction" not in kernels
    x = np.random.default_rng(0).integers(-128, 128, (5, 24)).astype(np.int8)
    found = compiled(lowered)({lowered.inputs[0].name: x})
    np.testing.assert_array_equal(next(iter(found.values())), Interpreter(quantized).run_values([x])[0])

"""Float products with stored weights: one kernel, whose weights stay packed, with the interpreter's bits."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from zeropoint.codegen.group import group
from zeropoint.codegen.kernels.arithmetic import Arithmetic
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.dequantized import PackedFloats
from zeropoint.codegen.kernels.float_arithmetic import Floats
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import expand_block_scales

RANDOM = np.random.default_rng(7)


@functools.cache
def program(
    shape: tuple[int, int, int], kind: str, block: int | None = None, *, turned: bool = False, tail: str = ""
) -> Program:
    """A product of m x k f32 with k x n weights in blocks of terms, or with a scale per channel; `kind` as `i4`, `u8`.

    Kinds with `z` behind them have zero points; weights that are `turned` are n x k.
    """
    (m, k, n), kind, points = shape, kind.rstrip("z"), kind.endswith("z")
    bits, least = int(kind[1:]), 0 if kind[0] == "u" else -(1 << (int(kind[1:]) - 1))
    stored = RANDOM.integers(least, least + (1 << bits), (k, n))
    blocks = 1 if block is None else k // block
    scales = RANDOM.uniform(0.01, 0.1, (blocks, n)).astype(np.float32).astype(float)
    zeros = RANDOM.integers(least, least + (1 << bits), (blocks, n)) if points else np.zeros((blocks, n), int)
    if kind[0] == "u" and not points:
        zeros += 1 << (bits - 1)
    if turned:
        stored, scales, zeros = stored.T, scales.T, zeros.T
    terms, channels = (1, 0) if turned else (0, 1)
    listed = [
        ", ".join(f"{scale!r}:{zero}" for scale, zero in zip(*rows, strict=True))
        for rows in zip(scales.tolist(), zeros.tolist(), strict=True)
    ]
    if block is None:
        typed = f"{channels}, {{{', '.join(listed)}}}"
    else:
        typed = f"{{{terms}:{block}, {channels}:1}}, {{{', '.join(f'{{{row}}}' for row in listed)}}}"
    size, kind = "x".join(map(str, stored.shape)), f"!quant.uniform<{kind}:f32:{typed}>"
    numbers = np.where(stored >= 1 << (bits - 1), stored - (1 << bits), stored).tolist()
    return parse_program(f"""func.func @main(%x: tensor<{m}x{k}xf32>, %z: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
        %q = stablehlo.constant dense<{numbers}> : tensor<{size}xi{bits}>
        %s = quant.scast %q : tensor<{size}xi{bits}> to tensor<{size}x{kind}>
        %w = quant.dcast %s : tensor<{size}x{kind}> to tensor<{size}xf32>
        %y = stablehlo.dot_general %x, %w, contracting_dims = [1] x [{terms}]
           : (tensor<{m}x{k}xf32>, tensor<{size}xf32>) -> tensor<{m}x{n}xf32>
        {tail or "%t = stablehlo.add %y, %z"} : tensor<{m}x{n}xf32>
        return %t : tensor<{m}x{n}xf32> }}""")


def arithmetics(native: NativeProgram) -> list[Arithmetic]:
    kernels = [step.kernel for step in native.graph.steps]
    return [kernel.arithmetic for kernel in kernels if isinstance(kernel, Contraction)]


FORMS = {
    "4 bits, blocks": ((1, 64, 24), "i4", 32, False),
    "4 bits, blocks with zero points, turned": ((5, 96, 24), "i4z", 16, True),
    "8 bits, blocks with zero points": ((37, 96, 40), "i8z", 32, False),
    "4 bits, a scale per channel": ((3, 96, 70), "i4", None, False),
    "8 bits, a scale per channel, turned": ((2, 12, 9), "i8", None, True),
    "2 bits, blocks": ((3, 32, 8), "i2", 16, False),
    "unsigned, 4 bits": ((2, 64, 17), "u4", 64, False),
    "unsigned, 8 bits with zero points": ((2, 64, 5), "u8z", 32, False),
    "many rows, several blocks in a panel": ((29, 192, 70), "i4z", 16, False),
    "many rows, several panels of one scale": ((25, 384, 66), "i4", None, False),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_one_kernel_with_the_interpreters_bits(form: str) -> None:
    shape, kind, block, turned = FORMS[form]
    built = program(shape, kind, block, turned=turned)
    kernels = [op.kind.data for op in group(built, isa="portable").entry.ops if isinstance(op, KernelOp)]
    assert kernels == ["contraction"]
    x, z = (RANDOM.normal(size=size).astype(np.float32) for size in (shape[:2], shape[::2]))
    expected = Interpreter(built).run_values([x, z])[0]
    for isa in ("portable", "avx2", "avx512-vnni"):
        native = NativeProgram(built, isa=EVERYWHERE[isa], guarded=True)
        (arithmetic,) = arithmetics(native)
        assert isinstance(arithmetic, PackedFloats)
        assert arithmetic.bits == int(kind.strip("iuz"))
        np.testing.assert_array_equal(native.run_values([x, z])[0], expected)


@pytest.mark.parametrize("form", FORMS)
def test_scales_as_a_tensor_are_the_same_kernel(form: str) -> None:
    shape, kind, block, turned = FORMS[form]
    built = program(shape, kind, block, turned=turned)
    expanded = expand_block_scales(built)
    assert ("quant.dcast" in print_program(expanded)) == (block is None)
    x, z = (RANDOM.normal(size=size).astype(np.float32) for size in (shape[:2], shape[::2]))
    expected = Interpreter(built).run_values([x, z])[0]
    np.testing.assert_array_equal(Interpreter(expanded).run_values([x, z])[0], expected)
    native = NativeProgram(expanded, guarded=True)
    (arithmetic,) = arithmetics(native)
    assert isinstance(arithmetic, PackedFloats)
    assert arithmetic.bits == int(kind.strip("iuz"))
    np.testing.assert_array_equal(native.run_values([x, z])[0], expected)


def test_weights_stay_packed_in_memory() -> None:
    """Half a byte each, and a scale of f32 for 32 of them."""
    native = NativeProgram(program((1, 256, 64), "i4", 32), isa=EVERYWHERE["avx2"], guarded=True)
    assert len(native.graph.weights) == 256 * 64 // 2 + 256 // 32 * 64 * 4 + 64 * 4


@pytest.mark.parametrize("rows", [3, 50])
def test_the_tail_joins_the_kernel(rows: int) -> None:
    """A residual, and bounds behind it; of many rows, the output holds sums meanwhile."""
    tail = f"%u = stablehlo.add %y, %z : tensor<{rows}x20xf32>\n%t = stablehlo.maximum %u, %z"
    built = program((rows, 64, 20), "i4", 32, tail=tail)
    x, z = RANDOM.normal(size=(rows, 64)).astype(np.float32), RANDOM.normal(size=(rows, 20)).astype(np.float32)
    np.testing.assert_array_equal(
        NativeProgram(built, guarded=True).run_values([x, z])[0], Interpreter(built).run_values([x, z])[0]
    )


@pytest.mark.parametrize("form", ["8 bits, blocks with zero points", "4 bits, a scale per channel"])
def test_a_factor_per_channel_joins_the_kernel(form: str) -> None:
    (m, k, n), kind, block, turned = FORMS[form]
    factor = RANDOM.normal(size=n).tolist()
    tail = f"""%f = stablehlo.constant dense<{factor}> : tensor<{n}xf32>
        %g = stablehlo.broadcast_in_dim %f, dims = [1] : (tensor<{n}xf32>) -> tensor<{m}x{n}xf32>
        %u = stablehlo.multiply %y, %g : tensor<{m}x{n}xf32>
        %t = stablehlo.add %u, %z"""
    built = program((m, k, n), kind, block, turned=turned, tail=tail)
    x, z = RANDOM.normal(size=(m, k)).astype(np.float32), RANDOM.normal(size=(m, n)).astype(np.float32)
    kernels = [op.kind.data for op in group(built, isa="portable").entry.ops if isinstance(op, KernelOp)]
    assert kernels == ["contraction"]
    native = NativeProgram(built, guarded=True)
    np.testing.assert_array_equal(native.run_values([x, z])[0], Interpreter(built).run_values([x, z])[0])


@pytest.mark.parametrize(("shape", "kind", "block"), [((2, 10, 5), "i4", None), ((2, 12, 5), "i4", 6)])
def test_terms_that_fill_no_words_are_dequantized_when_compiled(
    shape: tuple[int, int, int], kind: str, block: int | None
) -> None:
    built = program(shape, kind, block)
    native = NativeProgram(built, guarded=True)
    assert [type(each) for each in arithmetics(native)] == [Floats]
    x, z = (RANDOM.normal(size=size).astype(np.float32) for size in (shape[:2], shape[::2]))
    np.testing.assert_array_equal(native.run_values([x, z])[0], Interpreter(built).run_values([x, z])[0])


def test_infinite_activations_give_the_interpreters_results() -> None:
    """Products with stored zeros are NaN, also in the kernel."""
    built = program((2, 64, 8), "i4", 32)
    x, z = RANDOM.normal(size=(2, 64)).astype(np.float32), np.zeros((2, 8), np.float32)
    x[0, 3] = np.inf
    found, expected = NativeProgram(built).run_values([x, z])[0], Interpreter(built).run_values([x, z])[0]
    np.testing.assert_array_equal(found, expected)
    assert not np.isfinite(found[0]).any()

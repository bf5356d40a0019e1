"""Float products with stored weights: one kernel, whose weights stay packed, with the interpreter's bits."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.emulation import EVERYWHERE
from zeropoint.codegen.group import group
from zeropoint.codegen.kernels.contraction import Contraction
from zeropoint.codegen.kernels.dequantized import PackedFloats
from zeropoint.codegen.lowering import steps_of
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.native import KernelOp
from zeropoint.ir.program import Program
from zeropoint.ir.text import parse_program

RANDOM = np.random.default_rng(7)


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


def arithmetic(built: Program, isa: str) -> list[object]:
    kernels = [step.kernel for step in steps_of(built, EVERYWHERE[isa])]
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
        (found,) = arithmetic(built, isa)
        assert isinstance(found, PackedFloats) and found.bits == int(kind.strip("iuz"))
        native = NativeProgram(built, isa=EVERYWHERE[isa], guarded=True)
        np.testing.assert_array_equal(native.run_values([x, z])[0], expected)

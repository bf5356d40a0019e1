"""Random quantized programs of sums and products at the ends of 32 bits, judged by exact Python integers.

`ZEROPOINT_FUZZ_CASES=1000` runs that many.
"""

from __future__ import annotations

import numpy as np
import pytest

from lower.exact import evaluate
from property_cases import CASES
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array, element_dtype, element_of, shape_of
from zeropoint.ir.text import parse_program
from zeropoint.ir.verification import verify
from zeropoint.lower import integer_program
from zeropoint.ranges import obligations, ranges_of

PROGRAMS = CASES or 60
NATIVE = 6
"""Every so many cases run as native code too."""
ROWS, CHANNELS = 2, 3
MAX, MIN = 2**31 - 1, -(2**31)


def random_program(random: np.random.Generator) -> Program:
    """A dot, a few ops on its accumulators at the ends of 32 bits, a change to narrower storage."""
    wide = random.random() < 0.3
    storage, bits = ("i16", 16) if wide else ("i8", 8)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    zero = int(random.choice([0, low, high, 3]))
    terms = int(random.choice([1, 4, 30]))
    acc = f"tensor<{ROWS}x{CHANNELS}x!quant.uniform<i32:f32, 0.25>>"
    x = f"tensor<{ROWS}x{terms}x!quant.uniform<{storage}:f32, 0.5:{zero}>>"
    w = f"tensor<{terms}x{CHANNELS}x!quant.uniform<{storage}:f32, 0.5>>"
    y = acc
    stored = random.integers(-127, 128, (terms, CHANNELS)).tolist()
    lines = [
        f"%w = stablehlo.constant() <{{value = dense<{stored}> : tensor<{terms}x{CHANNELS}x{storage}>}}> : () -> {w}",
        f"%v0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : ({x}, {w}) -> {acc}",
    ]
    count = 0
    for _ in range(int(random.integers(1, 5))):
        kind, last = str(random.choice(["constant", "argument", "itself", "subtract", "clamp"])), f"%v{count}"
        count += 1
        if kind == "constant":
            bias = random.choice([MAX, MIN, 2**30, -(2**30), 17], (ROWS, CHANNELS)).tolist()
            value = f"dense<{bias}> : tensor<{ROWS}x{CHANNELS}xi32>"
            lines.append(f"%b{count} = stablehlo.constant() <{{value = {value}}}> : () -> {acc}")
            lines.append(f"%v{count} = stablehlo.add {last}, %b{count} : {acc}")
        elif kind == "clamp":
            lines.append(f"%v{count} = stablehlo.maximum {last}, %y : {acc}")
        else:
            op, other = ("subtract", "%y") if kind == "subtract" else ("add", "%y" if kind == "argument" else last)
            lines.append(f"%v{count} = stablehlo.{op} {last}, {other} : {acc}")
    ratio = float(random.choice([0.25, 1.0, 3.7, 2.0**10, 2.0**24]))
    out = (
        f"tensor<{ROWS}x{CHANNELS}x!quant.uniform<{random.choice(['i8', 'i16'])}:f32, {ratio}:{random.choice([0, 5])}>>"
    )
    lines.append(f"%r = stablehlo.uniform_quantize %v{count} : ({acc}) -> {out}")
    profile = random.choice(["fixed32", "fixed32-double"])
    body = "\n".join(lines)
    return parse_program(
        f'module attributes {{zeropoint.profile = "{profile}"}} {{\n'
        f"func.func @main(%x: {x}, %y: {y}) -> {out} {{\n{body}\nreturn %r : {out}\n}}\n}}"
    )


def random_inputs(made: Program, random: np.random.Generator) -> list[Array]:
    """Ends of the range, and what is between them."""
    arrays: list[Array] = []
    for port in made.inputs:
        dtype, shape = element_dtype(element_of(port.type)), shape_of(port.type)
        info = np.iinfo(dtype)
        inner = random.integers(info.min, info.max + 1, shape)
        ends = random.choice([info.min, info.max, info.min + 1, 0], shape)
        arrays.append(np.where(random.random(shape) < 0.7, ends, inner).astype(dtype))
    return arrays


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_computes_what_exact_integers_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    given = random_program(random)
    lowered = integer_program(given)
    verify(lowered.module)
    ranges = ranges_of(lowered)
    assert all(shown.holds for op in lowered.entry.ops for shown in obligations(ranges, op))
    code = NativeProgram(lowered) if seed % NATIVE == 0 else None
    for _ in range(4):
        arrays = random_inputs(given, random)
        (expected,) = evaluate(given, arrays, given.profile or "")
        for each in (given, lowered):
            (found,) = Interpreter(each).run_values(arrays)
            assert found.reshape(-1).tolist() == expected
        if code is not None:
            (found,) = code(dict(zip([port.name for port in code.inputs], arrays, strict=True))).values()
            assert found.reshape(-1).tolist() == expected

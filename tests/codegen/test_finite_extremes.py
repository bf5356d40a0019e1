"""The greatest and the least float of a row: comparisons where no element is NaN or -0."""

from __future__ import annotations

import numpy as np
import pytest

from codegen.exactness import HERE, assert_native_is_exact
from codegen.loop_programs import main
from codegen.row_programs import LEAST, ZERO, dense
from zeropoint.codegen.kernels.elements import Reduce
from zeropoint.codegen.kernels.finite_extremes import with_finite_extremes
from zeropoint.codegen.kernels.rows import Rows
from zeropoint.codegen.llvm.isa import InstructionSet
from zeropoint.codegen.lowering import steps_of
from zeropoint.ir.program import Program

STORED, REAL, NUMBER = dense(6, 33, of="!quant.uniform<i8:f32, 0.25:3>"), dense(6, 33), dense(6)
GREATEST = "%least = stablehlo.constant dense<0x7F800000> : tensor<f32>"


def extremes(op: str, *lines: str, start: str | None = None) -> Program:
    """What the elements %x of rows differ from the extreme of their row. The extreme is shown by its reciprocal."""
    start = start or (LEAST if op == "maximum" else GREATEST)
    across = f"across dimensions = [1] : ({REAL}, tensor<f32>) -> {NUMBER}"
    return main(
        f"%q: {STORED}, %k: {STORED}, %f: {REAL}", REAL, ZERO, start,
        f"%r = stablehlo.uniform_dequantize %q : ({STORED}) -> {REAL}",
        f"%s = stablehlo.uniform_dequantize %k : ({STORED}) -> {REAL}",
        *lines,
        f"%m = stablehlo.reduce(%x init: %least) applies stablehlo.{op} {across}",
        f"%b = stablehlo.broadcast_in_dim %m, dims = [0] : ({NUMBER}) -> {REAL}",
        f"%d = stablehlo.subtract %x, %b : {REAL}",
        "%one = stablehlo.constant dense<1.0> : tensor<f32>",
        f"%o = stablehlo.broadcast_in_dim %one, dims = [] : (tensor<f32>) -> {REAL}",
        f"%i = stablehlo.divide %o, %b : {REAL}",
        f"%y = stablehlo.add %d, %i : {REAL}",
    )  # fmt: skip


def samples() -> list[dict[str, np.ndarray]]:
    """Random rows, and rows of zeros: the zero point is 3, and floats have zeros of both signs."""
    random = np.random.default_rng(0)
    stored = [random.integers(-128, 128, (2, 6, 33)).astype(np.int8), np.full((2, 6, 33), 3, np.int8)]
    floats = [random.normal(size=(6, 33)).astype(np.float32), random.choice([0.0, -0.0], (6, 33)).astype(np.float32)]
    floats[0][2, 7] = np.nan
    return [{"arg0": q, "arg1": k, "arg2": f} for (q, k), f in zip(stored, floats, strict=True)]


def reductions(program: Program, isa: InstructionSet) -> list[str]:
    """The reductions of the kernel of rows after rewriting."""
    (rows,) = [step.kernel for step in steps_of(program, isa).steps if isinstance(step.kernel, Rows)]
    return [i.what.op for i in with_finite_extremes(rows.body, isa) if isinstance(i.what, Reduce)]


SUM = f"%x = stablehlo.add %r, %s : {REAL}"


@pytest.mark.parametrize("isa", HERE, ids=lambda row: row.name)
@pytest.mark.parametrize(("op", "compared"), [("maximum", "greatest"), ("minimum", "least")])
def test_extremes_of_dequantized_integers_are_comparisons(isa: InstructionSet, op: str, compared: str) -> None:
    for line in (SUM, SUM.replace("add", "subtract")):
        program = extremes(op, line)
        assert reductions(program, isa) == [compared]
        assert_native_is_exact(program, samples(), isa)


@pytest.mark.parametrize(
    "lines",
    [
        [f"%x = stablehlo.add %r, %f : {REAL}"],
        [f"%x = stablehlo.negate %r : {REAL}"],
        [f"%x = stablehlo.multiply %r, %s : {REAL}"],
        [f"%n = stablehlo.negate %r : {REAL}", f"%x = stablehlo.subtract %n, %s : {REAL}"],
    ],
)
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_of_values_that_may_be_nan_or_minus_zero_keep_their_op(lines: list[str], op: str) -> None:
    program = extremes(op, *lines)
    assert reductions(program, HERE[0]) == [op]
    assert_native_is_exact(program, samples(), HERE[0])


def test_an_extreme_that_starts_at_a_number_keeps_its_op() -> None:
    program = extremes("maximum", SUM, start="%least = stablehlo.constant dense<-0.0> : tensor<f32>")
    assert reductions(program, HERE[0]) == ["maximum"]
    assert_native_is_exact(program, samples(), HERE[0])

"""Loops that `unroll_loops` writes out compute the same, and those that would explode stay."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import zeropoint as zp
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.stablehlo import DynamicUpdateSliceOp, WhileOp
from zeropoint.simplify import fold_updates, unroll_loops

LOOP = """
  %OUT:3 = stablehlo.while(%i = %zero, %h = %START, %ys = %none) : INT, ROW, ROWS
  cond {
    %last = stablehlo.constant dense<TRIPS> : INT
    %again = stablehlo.compare LT, %i, %last : (INT, INT) -> tensor<i1>
    stablehlo.return %again : tensor<i1>
  } do {
    BODY
    %one = stablehlo.constant dense<1> : INT
    %row = stablehlo.dynamic_slice %x, %i, %zero, sizes = [1, 2] : (ROWS, INT, INT) -> ROW
    %sum = stablehlo.add %row, %INNER : ROW
    %new = stablehlo.dot_general %sum, %w, contracting_dims = [1] x [0] : (ROW, SQUARE) -> ROW
    %next = stablehlo.add %i, %one : INT
    %made = stablehlo.dynamic_update_slice %ys, %new, %i, %zero : (ROWS, ROW, INT, INT) -> ROWS
    stablehlo.return %next, %new, %made : INT, ROW, ROWS
  }
"""
TYPES = {"ROWS": "tensor<4x2xf32>", "ROW": "tensor<1x2xf32>", "INT": "tensor<i32>", "SQUARE": "tensor<2x2xf32>"}
MAIN = """func.func @main(%x: tensor<4x2xf32> {zeropoint.name = "x"}) -> (tensor<4x2xf32>, tensor<1x2xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %w = stablehlo.constant dense<[[0.5, -0.25], [0.125, 0.75]]> : tensor<2x2xf32>
  %start = stablehlo.constant dense<1.0> : tensor<1x2xf32>
  %none = stablehlo.constant dense<2.0> : tensor<4x2xf32>
LOOP
  return %o#2, %o#1 : tensor<4x2xf32>, tensor<1x2xf32>
}
"""


def loop(trips: int, out: str = "o", start: str = "start", body: str = "", inner: str = "h") -> str:
    text = LOOP
    for short, long in TYPES.items():
        text = text.replace(short, long)
    text = text.replace("BODY", body).replace("INNER", inner).replace("TRIPS", str(trips))
    return text.replace("OUT", out).replace("START", start)


def program(text: str) -> Program:
    return zp.load(MAIN.replace("LOOP", text)).program


def loops(made: Program) -> int:
    return sum(isinstance(op, WhileOp) for op in made.module.walk())


# Rows after the fourth are clamped to it; the last updates of a row count.
@pytest.mark.parametrize("trips", [0, 1, 3, 4, 6])
def test_a_loop_that_is_written_out_computes_the_same(trips: int) -> None:
    before = program(loop(trips))
    after = fold_updates(unroll_loops(before))
    assert loops(before) == 1
    assert loops(after) == 0
    assert "dynamic" not in str(after.module)
    x = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    for a, b in zip(zp.Model(before)(x=x).values(), zp.Model(after)(x=x).values(), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(("outer", "inner", "left"), [(3, 4, 0), (32, 1, 0), (33, 1, 2), (30, 30, 2)])
def test_loops_in_loops_are_written_out_if_all_copies_are_not_too_many(
    outer: int, inner: int, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the limits of users' programs, this would take half a minute."""
    module = import_module("zeropoint.simplify.unroll_loops")
    monkeypatch.setattr(module, "TRIPS", module.TRIPS // 16)
    monkeypatch.setattr(module, "OPS", module.OPS // 16)
    nested = loop(inner, out="in", start="h").replace("%i ", "%j ").replace("%i,", "%j,").replace("%h ", "%g ")
    nested = nested.replace("%h :", "%g :").replace("%ys", "%zs")
    for name in ("last", "again", "one", "row", "sum", "new", "next", "made"):
        nested = nested.replace(f"%{name} ", f"%{name}_1 ").replace(f"%{name},", f"%{name}_1,")
    nested = nested.replace("%g = %g", "%g = %h")
    assert loops(unroll_loops(program(loop(outer, body=nested, inner="in#1")))) == left


@pytest.mark.parametrize("seed", range(12))
def test_updates_that_overlap_are_joined_as_they_are_written(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, sizes = int(random.integers(2, 6)), random.integers(1, 8, 6)
    starts = random.integers(-2, 9, count)  # the op clamps them
    lines, given, last = list[str](), list[str](), "%x"
    for n in range(count):
        given.append(f'%u{n}: tensor<{sizes[n]}xf32> {{zeropoint.name = "u{n}"}}')
        lines.append(f"%at{n} = stablehlo.constant dense<{starts[n]}> : tensor<i32>")
        lines.append(
            f"%r{n} = stablehlo.dynamic_update_slice {last}, %u{n}, %at{n} : "
            f"(tensor<8xf32>, tensor<{sizes[n]}xf32>, tensor<i32>) -> tensor<8xf32>"
        )
        last = f"%r{n}"
    program = zp.load(
        f'func.func @main(%x: tensor<8xf32> {{zeropoint.name = "x"}}, {", ".join(given)}) -> tensor<8xf32> {{\n'
        + "\n".join(lines)
        + f"\nreturn {last} : tensor<8xf32>\n}}"
    ).program
    folded = fold_updates(program)
    assert not any(isinstance(op, DynamicUpdateSliceOp) for op in folded.entry.ops)
    feed = {"x": np.arange(8, dtype=np.float32)}
    expected = feed["x"].copy()
    for n in range(count):
        feed[f"u{n}"] = (100 * (n + 1) + np.arange(sizes[n])).astype(np.float32)
        at = min(max(int(starts[n]), 0), 8 - int(sizes[n]))
        expected[at : at + sizes[n]] = feed[f"u{n}"]
    for one in (program, folded):
        (found,) = Interpreter(one)(feed).values()
        np.testing.assert_array_equal(found, expected)

"""Sums, maxima and minima of quantized values, judged by Python's integers. Others: test_reduction_bodies.py.

The RFC "StableHLO quantization for reduction ops": the body computes in another type than operands and results.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from lower.exact import ROUNDINGS, clamp, wide
from zeropoint.codegen.runtime.native import NativeProgram
from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program, print_program
from zeropoint.lower import lower
from zeropoint.report.counts import float_ops


@dataclass(frozen=True)
class Kind:
    """A quantized type: storage such as `u8`, scale, zero point."""

    storage: str
    scale: float
    zero: int = 0

    def __str__(self) -> str:
        return f"!quant.uniform<{self.storage}:f32, {self.scale}:{self.zero}>"

    @property
    def bounds(self) -> tuple[int, int]:
        width = int(self.storage[1:])
        return (0, 2**width - 1) if self.storage[0] == "u" else (-(2 ** (width - 1)), 2 ** (width - 1) - 1)

    @property
    def dtype(self) -> np.dtype[np.generic]:
        return np.dtype(self.storage.replace("u", "uint").replace("i", "int") if self.storage[0] == "i" else "uint8")

    def change(self, stored: int, other: Kind, profile: str) -> int:
        """What a stored integer becomes in another type."""
        if self == other:
            return stored
        low, high = (bound - self.zero for bound in self.bounds)
        held = low >= -(2**31) and high < 2**31
        function = ROUNDINGS[profile] if held else wide
        rounded = function(stored - self.zero, Fraction(float(np.float64(self.scale) / np.float64(other.scale))))
        return clamp(rounded + other.zero, other.bounds)


def judged(values: Sequence[int], init: int, kinds: tuple[Kind, Kind, Kind], op: str, profile: str) -> int:
    """What the RFC says of one result: into the body's type, combined, saturated once, to the result's type."""
    given, body, result = kinds
    inside = [given.change(value, body, profile) for value in (*values, init)]
    if op == "add":
        total = clamp(sum(value - body.zero for value in inside) + body.zero, body.bounds)
    else:
        total = (max if op == "maximum" else min)(inside)
    return body.change(total, result, profile)


def text(kinds: tuple[Kind, Kind, Kind], op: str, shape: Sequence[int], init: int, profile: str, what: str) -> str:
    given, body, result = kinds
    sizes = "x".join(map(str, shape))
    inner = f"""({{
      ^bb0(%a: tensor<{body}>, %b: tensor<{body}>):
        %s = stablehlo.{op} %a, %b : tensor<{body}>
        stablehlo.return %s : tensor<{body}>
      }})"""
    if what == "reduce":
        attributes, made = "dimensions = array<i64: 1>", f"{shape[0]}x{result}"
    else:
        attributes = f"window_dimensions = array<i64: 1, 2>, padding = dense<[[0, 0], [1, 1]]> : {'tensor<2x2xi64>'}"
        made = f"{shape[0]}x{shape[1] + 1}x{result}"
    width = given.storage[1:]
    stored = init - 2 ** int(width) if init > given.bounds[1] // 2 and given.storage[0] == "u" else init
    return f"""module attributes {{zeropoint.profile = "{profile}"}} {{
    func.func @main(%x: tensor<{sizes}x{given}>) -> tensor<{made}> {{
      %i = stablehlo.constant() <{{value = dense<{stored}> : tensor<i{width}>}}> : () -> tensor<{given}>
      %r = "stablehlo.{what}"(%x, %i) <{{{attributes}}}> {inner}
        : (tensor<{sizes}x{given}>, tensor<{given}>) -> tensor<{made}>
      return %r : tensor<{made}>
    }}
    }}"""


def expected(x: Array, init: int, kinds: tuple[Kind, Kind, Kind], op: str, profile: str, what: str) -> list[list[int]]:
    rows = [[int(value) for value in row] for row in x]
    if what == "reduce":
        return [[judged(row, init, kinds, op, profile)] for row in rows]
    padded = [[init, *row, init] for row in rows]
    return [[judged(row[n : n + 2], init, kinds, op, profile) for n in range(len(row) - 1)] for row in padded]


def check(program: Program, x: Array, wanted: list[list[int]], *, native: bool = True) -> None:
    """The quantized program, the integer one and its machine code give the wanted integers; nothing is float."""
    lowered = lower(program)
    assert float_ops(lowered) == []
    runs = [Interpreter(program).run_values([x]), Interpreter(lowered).run_values([x])]
    if native:
        runs.append(list(NativeProgram(lowered)({"arg0": x}).values()))
    for (found,) in runs:
        assert found.reshape(len(x), -1).tolist() == wanted


EXAMPLES = {
    "the introduction": ((Kind("u8", 0.5, 10), Kind("i32", 0.25, 7), Kind("u8", 2.0, 3)), (5, 1)),
    "the accumulation type": ((Kind("i8", 34.0, 16), Kind("i32", 34.0, 16), Kind("i8", 34.0, 16)), (1, 16)),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_rfc_are_integer_programs_and_machine_code(name: str) -> None:
    kinds, shape = EXAMPLES[name]
    x = np.random.default_rng(0).integers(*kinds[0].bounds, shape, kinds[0].dtype, endpoint=True)
    program = parse_program(text(kinds, "add", shape, kinds[0].zero, "fixed32", "reduce"))
    check(program, x, expected(x, kinds[0].zero, kinds, "add", "fixed32", "reduce"))


def some_kinds(source: random.Random) -> tuple[Kind, Kind, Kind]:
    """Types of operands, body and result that the RFC allows."""
    scales = (0.5, 0.25, 0.1, 1.0, 0.0123, 3.0)
    storage = source.choice(["u8", "i8", "i16"])
    bounds = Kind(storage, 1.0).bounds

    def point(kind: str) -> int:
        return source.choice([0, source.randint(*bounds)]) if kind != "i32" else source.choice([0, 0, 7, -5000])

    def other(kind: str) -> Kind:
        return Kind(kind, source.choice(scales), point(kind))

    given = other(storage)
    body = source.choice([given, other("i32"), Kind("i32", given.scale), other(storage)])
    return given, body, source.choice([given, body, other(storage)])


@pytest.mark.parametrize("what", ["reduce", "reduce_window"])
@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
def test_random_types_give_what_python_integers_give(what: str, op: str, profile: str) -> None:
    source = random.Random(f"{what} {op} {profile}")
    for case in range(12):
        kinds = some_kinds(source)
        x = np.random.default_rng(case).integers(*kinds[0].bounds, (3, 37), kinds[0].dtype, endpoint=True)
        x[0], x[1] = kinds[0].bounds
        init = source.choice([kinds[0].zero, source.randint(*kinds[0].bounds)])
        program = parse_program(text(kinds, op, x.shape, init, profile, what))
        check(program, x, expected(x, init, kinds, op, profile, what), native=case < 2)


I8, I32 = Kind("i8", 0.5), Kind("i32", 0.5)


def test_sums_that_pass_32_bits_are_taken_in_64_and_saturate_once() -> None:
    program = parse_program(text((I32, I32, I32), "add", (4, 6), 0, "fixed32", "reduce"))
    most, least = I32.bounds
    x = np.array([[most, 1, least, 5, 0, 0], [most] * 6, [least] * 6, [most, most, least, least, 1, 1]], np.int32)
    check(program, x, [[5], [most], [least], [0]])
    windows = parse_program(text((I32, I32, I32), "add", (4, 6), 0, "fixed32", "reduce_window"))
    check(windows, x, expected(x, 0, (I32, I32, I32), "add", "fixed32", "reduce_window"))


@pytest.mark.parametrize("zero", [2**31 - 48, -(2**31)])
def test_zero_points_at_the_ends_of_32_bits_leave_little_room_and_the_sum_saturates_there(zero: int) -> None:
    kinds = (I8, Kind("i32", 0.5, zero), I8)
    program = parse_program(text(kinds, "add", (4, 16), 0, "fixed32", "reduce"))
    x = np.random.default_rng(0).integers(*I8.bounds, (4, 16), np.int8, endpoint=True)
    x[0], x[1] = I8.bounds
    check(program, x, expected(x, 0, kinds, "add", "fixed32", "reduce"))


U8, WIDE = Kind("u8", 0.5, 10), Kind("i32", 0.25, 7)


def scattered(body: str, source: Kind, inside: Kind, result: Kind, *, select: str = "") -> Program:
    selects = select or f"%c = stablehlo.compare GE, %a, %b : (tensor<{source}>, tensor<{source}>) -> tensor<i1>"
    return parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<6x{source}>, %s: tensor<5x{source}>) -> tensor<6x{result}> {{
      %i = stablehlo.constant() <{{value = dense<{source.zero}> : tensor<i8>}}> : () -> tensor<{source}>
      %r = "stablehlo.select_and_scatter"(%x, %s, %i) <{{window_dimensions = array<i64: 2>}}> ({{
      ^bb0(%a: tensor<{source}>, %b: tensor<{source}>):
        {selects}
        stablehlo.return %c : tensor<i1>
      }}, {{
      ^bb0(%a: tensor<{inside}>, %b: tensor<{inside}>):
        %t = stablehlo.{body} %a, %b : tensor<{inside}>
        stablehlo.return %t : tensor<{inside}>
      }}) : (tensor<6x{source}>, tensor<5x{source}>, tensor<{source}>) -> tensor<6x{result}>
      return %r : tensor<6x{result}>
    }}
    }}""")


@pytest.mark.parametrize("body", ["add", "maximum"])
@pytest.mark.parametrize("kinds", [(U8, WIDE, Kind("u8", 2.0, 3)), (I8, I8, I8)])
def test_select_and_scatter_works_on_integers(body: str, kinds: tuple[Kind, Kind, Kind]) -> None:
    given = kinds[0]
    program = scattered(body, *kinds)
    lowered = lower(program)
    assert float_ops(lowered) == []
    random_ = np.random.default_rng(1)
    x, source = (random_.integers(*given.bounds, size, given.dtype, endpoint=True) for size in (6, 5))
    taken: list[list[int]] = [[] for _ in range(6)]
    for at in range(5):
        taken[at if x[at] >= x[at + 1] else at + 1].append(int(source[at]))
    wanted = [judged(values, given.zero, kinds, body, "fixed32") for values in taken]
    for each in (program, lowered):
        assert Interpreter(each).run_values([x, source])[0].tolist() == wanted


@pytest.mark.parametrize("groups", ["dense<[[0, 1]]> : tensor<1x2xi64>", "dense<> : tensor<0x0xi64>"])
def test_reductions_over_processes_work_on_integers(groups: str) -> None:
    kinds = U8, WIDE, Kind("u8", 2.0, 3)
    given, inside, result = kinds
    body = f"""({{
      ^bb0(%a: tensor<{inside}>, %b: tensor<{inside}>):
        %s = stablehlo.add %a, %b : tensor<{inside}>
        stablehlo.return %s : tensor<{inside}>
      }}) : (tensor<4x{given}>) -> """
    program = parse_program(f"""module attributes {{zeropoint.profile = "fixed32"}} {{
    func.func @main(%x: tensor<4x{given}>) -> (tensor<4x{result}>, tensor<2x{result}>) {{
      %0 = "stablehlo.all_reduce"(%x) <{{replica_groups = {groups}}}> {body} tensor<4x{result}>
      %1 = "stablehlo.reduce_scatter"(%x) <{{replica_groups = {groups}, scatter_dimension = 0 : i64}}>
        {body} tensor<2x{result}>
      return %0, %1 : tensor<4x{result}>, tensor<2x{result}>
    }}
    }}""")
    lowered = lower(program)
    assert float_ops(lowered) == []
    x, y = (np.array(values, np.uint8) for values in ([10, 40, 255, 0], [11, 30, 255, 250]))
    pairs = zip(x, y, strict=True)
    # No initial value: only what the processes have.
    inner = [[given.change(int(value), inside, "fixed32") - inside.zero for value in pair] for pair in pairs]
    wanted = [inside.change(sum(pair) + inside.zero, result, "fixed32") for pair in inner]
    for each in (program, lowered):
        wrapped = print_program(each).replace("@main", "@process")
        types = f"tensor<4x{result}>, tensor<2x{result}>"
        main = f"""func.func @main(%x: tensor<4x{given}>, %y: tensor<4x{given}>) -> ({types}, {types}) {{
          %r:4 = "interpreter.run_parallel"(%x, %y) <{{programs = [[@process], [@process]]}}>
            : (tensor<4x{given}>, tensor<4x{given}>) -> ({types}, {types})
          return %r#0, %r#1, %r#2, %r#3 : {types}, {types}
        }}"""
        whole = parse_program(wrapped.rstrip().removesuffix("}") + main + "\n}")
        found = [value.tolist() for value in Interpreter(whole).run_values([x, y])]
        assert found == [wanted, wanted[:2], wanted, wanted[2:]]


WIDE_KINDS = {
    "a finer scale": (Kind("i32", 0.5, 3), Kind("i32", 0.25, 7), Kind("i32", 0.5, 3)),
    "only another zero point": (Kind("i32", 0.25, 3), Kind("i32", 0.25, -7), Kind("i32", 0.25, 3)),
    "a rounded ratio": (Kind("i32", 0.3), Kind("i32", 0.1, 2**30), Kind("i32", 0.7, -(2**31))),
}


@pytest.mark.parametrize("what", ["reduce", "reduce_window"])
@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize("profile", ["fixed32", "fixed32-double"])
@pytest.mark.parametrize("name", WIDE_KINDS)
def test_operands_of_32_bits_are_rescaled_into_a_body_of_32_bits_with_a_zero_point(
    name: str, profile: str, op: str, what: str
) -> None:
    """Conversion (A) of the RFC has no bound on widths. They saturate to 32 bits with the zero point, not before it."""
    kinds = WIDE_KINDS[name]
    low, high = kinds[0].bounds
    x = np.random.default_rng(0).integers(low, high, (4, 6), np.int32, endpoint=True)
    x[0], x[1] = [low, high, low + 2, high - 2, 0, 1], np.arange(6)
    program = parse_program(text(kinds, op, x.shape, 5, profile, what))
    check(program, x, expected(x, 5, kinds, op, profile, what), native=what == "reduce" and op == "add")

"""Random integer programs of elementwise ops in all types: no number that the interpreter computes passes its range."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
import pytest

from zeropoint.interp import Interpreter
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.ir.text import parse_program
from zeropoint.numerics.storage import integer_range
from zeropoint.ranges import EXACT, obligations, ranges_of

DTYPES = {
    **{"i2": np.int8, "i4": np.int8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64},
    **{"ui4": np.uint8, "ui8": np.uint8, "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64},
}
BINARY = ["add", "subtract", "multiply", "maximum", "minimum", "divide", "remainder", "and", "or", "xor", "power"]
SHIFTS = ["shift_left", "shift_right_arithmetic", "shift_right_logical"]
UNARY = ["abs", "negate", "sign", "not", "reverse"]
CHOICES = ("constant", "convert", "clamp", "select", "steps", *BINARY[:4], *BINARY, *SHIFTS, *UNARY)
SIZE, OPS, RUNS = 6, 8, 4


def extreme(rng: random.Random, element: str) -> int:
    ends = integer_range(int(element.strip("ui")), signed=element[0] != "u")
    return rng.choice([*ends, 0, 1, ends[0] + 1, ends[1] // 2, min(ends[1], 7), rng.randint(*ends)])


class Text:
    """A program under construction: lines, and the names of values by element type."""

    def __init__(self, rng: random.Random):
        self.rng, self.lines = rng, list[str]()
        self.inputs = [rng.choice(list(DTYPES)) for _ in range(2)]
        self.values = [(f"%a{n}", element) for n, element in enumerate(self.inputs)]
        for _ in range(OPS):
            self.add(rng.choice(CHOICES))

    def of(self, element: str) -> str:
        return self.rng.choice([name for name, other in self.values if other == element])

    def add(self, what: str) -> None:
        rng, made = self.rng, f"%v{len(self.lines)}"
        x, element = rng.choice(self.values)
        kind = f"tensor<{SIZE}x{element}>"
        if what == "constant":
            numbers = [extreme(rng, element) for _ in range(SIZE)]
            text = f"stablehlo.constant dense<{numbers if rng.random() < 0.5 else numbers[0]}> : {kind}"
        elif what == "convert":
            source, element = kind, rng.choice(list(DTYPES))
            text = f"stablehlo.convert {x} : ({source}) -> tensor<{SIZE}x{element}>"
        elif what == "clamp":
            text = f"stablehlo.clamp {self.of(element)}, {x}, {self.of(element)} : {kind}"
        elif what == "select":
            y, i1 = self.of(element), f"tensor<{SIZE}xi1>"
            self.lines.append(f"{made}p = stablehlo.compare LT, {x}, {y} : ({kind}, {kind}) -> {i1}")
            text = f"stablehlo.select {made}p, {y}, {x} : {i1}, {kind}"
        elif what == "steps":
            text = self.step(x, element, kind)
        elif what == "reverse":
            text = f"stablehlo.reverse {x}, dims = [0] : {kind}"
        elif what in UNARY:
            text = f"stablehlo.{'not' if element.startswith('u') else what} {x} : {kind}"
        else:
            text = f"stablehlo.{what} {x}, {self.of(element)} : {kind}"
        self.lines.append(f"{made} = {text}")
        self.values.append((made, element))

    def step(self, x: str, element: str, kind: str) -> str:
        """A fixed-point op; a sum for types that have none."""
        if element not in ("i8", "i16", "i32"):
            return f"stablehlo.add {x}, {x} : {kind}"
        width = 8 * np.dtype(DTYPES[element]).itemsize
        low, high = sorted(extreme(self.rng, element) for _ in range(2))
        bounds = f"storage_min = {low} : i64, storage_max = {high} : i64"
        steps = [
            f'"fxpmath.rounding_divide_by_pot"({x}) <{{exponent = {self.rng.randrange(width)} : i64}}> : ({kind})',
            f'"fxpmath.saturating_add"({x}, {self.of(element)}) <{{{bounds}}}> : ({kind}, {kind})',
        ]
        if element == "i32":
            steps.append(
                f'"fxpmath.saturating_rounding_doubling_high_mul"({x}) <{{multiplier = {low} : i64}}> : ({kind})'
            )
        return f"{self.rng.choice(steps)} -> {kind}"

    def program(self) -> Program:
        given = ", ".join(f"%a{n}: tensor<{SIZE}x{element}>" for n, element in enumerate(self.inputs))
        made = [(name, f"tensor<{SIZE}x{element}>") for name, element in self.values]
        names, types = (", ".join(part) for part in zip(*made, strict=True))
        lines = "\n".join(self.lines)
        return parse_program(f"func.func @main({given}) -> ({types}) {{\n{lines}\nreturn {names} : {types}\n}}")


def passes(program: Program, arrays: Sequence[Array]) -> list[str]:
    """The ops of which a number is outside of its range."""
    ranges, wrong = ranges_of(program), list[str]()
    assert program.entry.last_op is not None
    for value, found in zip(program.entry.last_op.operands, Interpreter(program).run_values(arrays), strict=True):
        bounds = ranges.of(value)
        low, high = (np.broadcast_to(bound, found.shape).tolist() for bound in (bounds.low, bounds.high))
        for number, least, most in zip(found.tolist(), low, high, strict=True):
            if (least >= -EXACT and number < least) or (most <= EXACT and number > most):
                wrong.append(f"{value.owner}: {number} in {least}..{most}")
    return wrong


@pytest.mark.parametrize("seed", range(8))
def test_no_number_passes_its_range(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(40):
        text = Text(rng)
        program = text.program()
        for _ in range(RUNS):
            arrays = [np.array([extreme(rng, e) for _ in range(SIZE)], DTYPES[e]) for e in text.inputs]
            assert not passes(program, arrays), text.lines


@pytest.mark.parametrize("least", [-5, -4])
def test_a_sum_of_four_bits_has_four(least: int) -> None:
    """They are held in bytes, whose range was taken for theirs: -5 + -5 was proved to fit, and is 6."""
    program = parse_program(f"""func.func @main(%x: tensor<2xi4>) -> tensor<2xi4> {{
      %l = stablehlo.constant dense<{least}> : tensor<i4>
      %h = stablehlo.constant dense<3> : tensor<i4>
      %c = stablehlo.clamp %l, %x, %h : (tensor<i4>, tensor<2xi4>, tensor<i4>) -> tensor<2xi4>
      %r = stablehlo.add %c, %c : tensor<2xi4>
      return %r : tensor<2xi4>
    }}""")
    *_, add, _ = program.entry.ops
    (shown,) = obligations(ranges_of(program), add)
    assert (shown.range.least, shown.range.greatest, shown.bits) == (2 * least, 6, 4)
    assert shown.holds == (least == -4)


def test_unsigned_numbers_are_shifted_with_their_highest_bit() -> None:
    program = parse_program("""func.func @main(%x: tensor<2xui8>) -> tensor<2xui8> {
      %c = stablehlo.constant dense<1> : tensor<2xui8>
      %r = stablehlo.shift_right_arithmetic %x, %c : tensor<2xui8>
      return %r : tensor<2xui8>
    }""")
    assert not passes(program, [np.array([200, 100], np.uint8)])


def test_a_number_that_64_bits_may_not_hold_has_no_headroom() -> None:
    program = parse_program("""func.func @main(%x: tensor<2xi64>) -> tensor<2xi64> {
      %r = stablehlo.add %x, %x : tensor<2xi64>
      return %r : tensor<2xi64>
    }""")
    assert program.entry.first_op is not None
    (shown,) = obligations(ranges_of(program), program.entry.first_op)
    assert not shown.holds
    assert shown.headroom.max() < 0

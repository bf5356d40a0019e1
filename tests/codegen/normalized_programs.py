"""Integer layer normalizations as programs, by the definition of their steps, and rows that are extreme for them."""

from __future__ import annotations

import numpy as np

from codegen.loop_programs import main
from codegen.row_programs import dense
from zeropoint.ir.program import Program
from zeropoint.ir.tensors import Array
from zeropoint.numerics.layer_norm import ChannelMaps, LayerNorm
from zeropoint.numerics.layer_norm_steps import row_steps


class Lines:
    """`RowWords` that writes lines of StableHLO. A value is its name; `types` has the element type of each."""

    def __init__(self, rows: int, size: int) -> None:
        self.rows, self.size = rows, size
        self.lines: list[str] = []
        self.types: dict[str, tuple[tuple[int, ...], str]] = {}

    def let(self, like: tuple[tuple[int, ...], str], text: str) -> str:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"{name} = stablehlo.{text}")
        self.types[name] = like
        return name

    def type(self, value: str) -> str:
        shape, of = self.types[value]
        return dense(*shape, of=of)

    def number(self, value: int, like: str) -> str:
        return self.let(self.types[like], f"constant dense<{value}> : {self.type(like)}")

    def op(self, name: str, *operands: str | int) -> str:
        like = next(each for each in operands if isinstance(each, str))
        values = [each if isinstance(each, str) else self.number(each, like) for each in operands]
        return self.let(self.types[like], f"{name} {', '.join(values)} : {self.type(like)}")

    def converted(self, value: str, of: str) -> str:
        shape, before = self.types[value]
        if before == of:
            return value
        return self.let((shape, of), f"convert {value} : ({self.type(value)}) -> {dense(*shape, of=of)}")

    def total(self, values: str) -> str:
        start, made = self.let(((), "i32"), "constant dense<0> : tensor<i32>"), dense(self.rows, of="i32")
        return self.let(
            ((self.rows,), "i32"),
            f"reduce({values} init: {start}) applies stablehlo.add across dimensions = [1] "
            f": ({self.type(values)}, tensor<i32>) -> {made}",
        )

    def wide(self, value: str) -> str:
        return self.converted(value, "i64")

    def word(self, value: str) -> str:
        return self.converted(value, "i32")

    def every(self, number: str) -> str:
        return self.broadcast(self.word(number), 0)

    def broadcast(self, value: str, dimension: int) -> str:
        made = ((self.rows, self.size), "i32")
        return self.let(
            made,
            f"broadcast_in_dim {value}, dims = [{dimension}] : ({self.type(value)}) -> {dense(*made[0], of='i32')}",
        )

    def add(self, left: str | int, right: str | int) -> str:
        return self.op("add", left, right)

    def subtract(self, left: str | int, right: str | int) -> str:
        return self.op("subtract", left, right)

    def multiply(self, left: str | int, right: str | int) -> str:
        return self.op("multiply", left, right)

    def divide(self, left: str | int, right: str | int) -> str:
        return self.op("divide", left, right)

    def maximum(self, left: str | int, right: str | int) -> str:
        return self.op("maximum", left, right)

    def both(self, left: str, right: str | int) -> str:
        return self.op("and", left, right)

    def shifted(self, value: str, amount: str | int) -> str:
        return value if amount == 0 else self.op("shift_right_arithmetic", value, amount)

    def raised(self, value: str | int, amount: str) -> str:
        return self.op("shift_left", value, amount)

    def leading_zeros(self, value: str) -> str:
        return self.op("count_leading_zeros", value)


def integer_layer_norm(
    rows: int, norm: LayerNorm, given: str = "i16", made: str = "i16", *, residual: bool = False, clamped: bool = True
) -> Program:
    """Rows of integers to their layer normalization; with `residual`, other integers are added before the clamp."""
    size, run = norm.terms, Lines(rows, norm.terms)
    run.types |= {"%x": ((rows, size), given), "%r": ((rows, size), "i16")}
    t = row_steps(run, norm, run.converted("%x", "i32")).normalized
    info, random = np.iinfo(np.int8 if made == "i8" else np.int16), np.random.default_rng(size)
    # The greatest results saturate.
    maps = ChannelMaps.of(random.normal(1, 0.5, size), random.normal(0, 1, size), norm.fraction, 8 / info.max, 3,
                          info.min >> 1, info.max >> 1)  # fmt: skip
    channels = [
        run.let(((size,), "i32"), f"constant dense<{numbers.tolist()}> : {dense(size, of='i32')}")
        for numbers in (maps.factor, maps.bias, maps.shift)
    ]
    factor, bias, shift = (run.broadcast(numbers, 1) for numbers in channels)
    y = run.shifted(run.add(run.multiply(t, factor), bias), shift)
    y = run.add(y, run.converted("%r", "i32")) if residual else y
    if clamped:
        low, high = (run.let(((), "i32"), f"constant dense<{end}> : tensor<i32>") for end in (maps.low, maps.high))
        whole = run.type(y)
        y = run.let(run.types[y], f"clamp {low}, {y}, {high} : (tensor<i32>, {whole}, tensor<i32>) -> {whole}")
    y, result = run.converted(y, made), dense(rows, size, of=made)
    arguments = f"%x: {dense(rows, size, of=given)}" + f", %r: {dense(rows, size, of='i16')}" * residual
    return main(arguments, result, *run.lines, f"%y = stablehlo.convert {y} : ({result}) -> {result}")


def extreme_rows(size: int, given: str) -> Array:
    """Random rows of every deviation and mean, constant rows, rows of one step, and rows of both ends."""
    dtype = np.int8 if given == "i8" else np.int16
    info, random = np.iinfo(dtype), np.random.default_rng(size)
    deviations = 2.0 ** np.arange(-2, np.log2(info.max))
    rows = [random.normal(random.uniform(info.min, info.max) / 2, deviation, size) for deviation in deviations]
    one = (np.arange(size) == size // 2).astype(int)
    rows += [one, -one, info.min + one, info.max - one, info.min + one * (info.max - info.min), np.arange(size) % 2]
    rows += [np.where(np.arange(size) % 2, info.min, info.max), info.max - 40 * one, info.min + np.arange(size) % 3]
    rows += [np.full(size, number) for number in (info.min, 0, 5, info.max)]
    return np.rint(np.clip(rows, info.min, info.max)).astype(dtype)
